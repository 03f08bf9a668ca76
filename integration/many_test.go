//go:build linux

package integration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
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
	inside := func() (files, processes int) {
		if _, err := fmt.Sscan(output(t, h, "ls /proc/self/fd | wc -l; ls /proc | grep -c '^[0-9]'"), &files, &processes); err != nil {
			t.Fatal(err)
		}
		return files, processes
	}
	files, processes := inside()
	before := holding(t)
	for i := range runs {
		do(i)
	}
	eventuallyBack(t, before)
	const idle = 4 // supervisors that wait for commands; how many there are is chance
	if f, p := inside(); f != files || p > processes+idle {
		t.Errorf("inside there were %d files and %d processes, and now %d and %d", files, processes, f, p)
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
	// Ten are made and removed at a time: more only try the engine's patience.
	const many, atATime = 50, 10
	handles := make([]execution.Handle, many)
	ids := map[string]bool{}
	each(t, many, atATime, func(ctx context.Context, i int) (err error) {
		handles[i], err = backend.Spawn(ctx, spec)
		return err
	})
	if t.Failed() {
		return // the backend's end removes what there is
	}
	for _, h := range handles {
		ids[h.ID()] = true
	}
	if len(ids) != many {
		t.Errorf("there are %d different sandboxes", len(ids))
	}
	if list := marked(t, world.engine, m); len(list) != many {
		t.Errorf("the engine has %d of them", len(list))
	}
	each(t, many, many, func(ctx context.Context, i int) error {
		result, err := execution.Exec(ctx, handles[i], execution.Command{Shell: "echo $((6 * 7))"})
		if err == nil && string(result.Stdout) != "42\n" {
			err = errorf("%v: %q", result.ExitStatus, result.Stdout)
		}
		return err
	})
	each(t, many, atATime, func(ctx context.Context, i int) error { return handles[i].Destroy(ctx) })
	noContainer(t, m)
}

// each calls do n times, some at a time.
func each(t *testing.T, n, atATime int, do func(ctx context.Context, i int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atATime)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
