//go:build linux

package integration

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
)

// held is what this process holds of its system.
type held struct {
	files, goroutines int
	memory            uint64
}

func holding(t *testing.T) held {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC() // the second one frees what the first one's finalizers let go
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return held{len(files), runtime.NumGoroutine(), mem.HeapAlloc + mem.StackInuse}
}

// slack is how much the live memory may differ: the runtime's own, and what
// the race detector keeps.
const slack = 1 << 20

func TestAThousandRunsLoseNothingAndLeaveNothing(t *testing.T) {
	h := sandbox(t)
	const runs = 1000
	do := func(i int) {
		text := strconv.Itoa(i)
		got := run(t, h, "printf x"+text+"; printf y >&2; exit 127")
		if got.Code != 127 || got.Ending != execution.EndingExited ||
			string(got.Stdout) != "x"+text || string(got.Stderr) != "y" {
			t.Fatalf("run %d: %v, stdout %q, stderr %q", i, got.ExitStatus, got.Stdout, got.Stderr)
		}
	}
	for i := range 20 { // what is made once is made now
		do(i)
	}
	inside := output(t, h, "ls /proc/self/fd | wc -l; ls /proc | grep -c '^[0-9]'")
	before := holding(t)
	for i := range runs {
		do(i)
	}
	eventuallyBack(t, before)
	if now := output(t, h, "ls /proc/self/fd | wc -l; ls /proc | grep -c '^[0-9]'"); now != inside {
		t.Errorf("inside there were %q files and processes, and now %q", inside, now)
	}
}

// eventuallyBack waits for this process to hold what it held before.
func eventuallyBack(t *testing.T, before held) {
	t.Helper()
	eventually(t, "files, goroutines and memory are back", func() error {
		now := holding(t)
		if now.files <= before.files && now.goroutines <= before.goroutines && now.memory <= before.memory+slack {
			return nil
		}
		return errorf("there were %+v, there are %+v", before, now)
	})
}

func TestFiftySandboxesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("many containers")
	}
	need(t)
	backend := newBackend(t, dockerOptions())
	m := mark()
	spec := execution.Spec{Image: plainImage(t), Labels: map[string]string{runLabel: m}}
	var mu sync.Mutex
	ids := map[string]bool{}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(10) // this many at a time: the rest is the engine's patience
	for range 50 {
		group.Go(func() error {
			h, err := backend.Spawn(ctx, spec)
			if err != nil {
				return err
			}
			mu.Lock()
			ids[h.ID()] = true
			mu.Unlock()
			result, err := execution.Exec(ctx, h, execution.Command{Shell: "echo $((6 * 7))"})
			if err == nil && string(result.Stdout) != "42\n" {
				err = errorf("%v: %q", result.ExitStatus, result.Stdout)
			}
			if destroyErr := h.Destroy(ctx); err == nil {
				err = destroyErr
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if len(ids) != 50 {
		t.Errorf("there were %d different sandboxes", len(ids))
	}
	noContainer(t, m)
}
