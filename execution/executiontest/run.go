package executiontest

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Run checks the backend behind h against the whole contract, a subtest for
// each line of it. With -short and under the race detector the quantities are
// smaller.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("executiontest: Harness.New is not set")
	}
	all := subjects()
	for _, name := range h.Subjects {
		if !slices.ContainsFunc(all, func(s subject) bool { return s.name == name }) {
			t.Fatalf("executiontest: Harness.Subjects: there is no subject %q", name)
		}
	}
	for _, s := range all {
		if len(h.Subjects) > 0 && !slices.Contains(h.Subjects, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, c := range s.cases {
				t.Run(c.name, func(t *testing.T) { runTest(t, h, c) })
			}
		})
	}
}

// A subject is a topic of the contract with its cases.
type subject struct {
	name  string
	cases []check
}

// A check is one line of the contract. run may fail and skip as a test may,
// from its own goroutine.
type check struct {
	name string
	run  func(ctx context.Context, e *env)
}

func subjects() []subject {
	return []subject{
		{"output", outputCases()},
		{"ending", endingCases()},
		{"kill", killCases()},
		{"leftovers", leftoverCases()},
		{"tasks", taskCases()},
		{"attach", attachCases()},
		{"stdin", stdinCases()},
		{"cwdenv", cwdEnvCases()},
		{"paths", pathCases()},
		{"files", fileCases()},
		{"tree", treeCases()},
		{"destroy", destroyCases()},
		{"concurrency", concurrencyCases()},
		{"death", deathCases()},
		{"limits", limitCases()},
		{"declared", declaredCases()},
		{"tty", ttyCases()},
	}
}

// hangGrace is how long a case that hangs gets to end once its context has
// been cancelled, before it is abandoned.
const hangGrace = 5 * time.Second

// runTest makes a test of a case.
func runTest(t *testing.T, h Harness, c check) {
	t.Helper()
	var why string
	var skipped bool
	if h.FakeClock {
		synctest.Test(t, func(t *testing.T) {
			t.Helper()
			why, skipped = runCase(t, h, c)
		})
	} else {
		why, skipped = runCase(t, h, c)
	}
	if skipped {
		t.Skip(why)
	}
}

// runCase runs one case on a goroutine of its own, watches over it, and looks
// for what it left behind.
func runCase(tb testing.TB, h Harness, c check) (why string, skipped bool) {
	tb.Helper()
	timeout := h.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	before := takeStock(tb, h)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	defer cancel()
	e := &env{guard: &guard{TB: tb}, harness: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.tearDown(ctx)
		c.run(ctx, e)
	}()

	watchdog := time.NewTimer(timeout)
	defer watchdog.Stop()
	select {
	case <-done:
	case <-watchdog.C:
		e.Errorf("the case hangs: it took more than %v. All goroutines:\n%s", timeout, allStacks())
		cancel()
		watchdog.Reset(hangGrace)
		select {
		case <-done:
		case <-watchdog.C:
		}
	}
	why, skipped = e.end()
	if !tb.Failed() {
		before.compare(tb, h)
	}
	return why, skipped && !tb.Failed()
}

func allStacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
