//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

func poolOf(c *Context) *pool { return c.launcher.(*supervisors).pool }

// needSupervisors skips a test where there are none, as under qemu-user.
func needSupervisors(tb testing.TB, c *Context) {
	tb.Helper()
	if s, ok := c.launcher.(*supervisors); !ok || s.tags != nil {
		tb.Skip("orphans get away here")
	}
}

// nurseryOf is the pid of the nursery, below which everything is.
func nurseryOf(c *Context) int {
	p := poolOf(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nursery.pid
}

func TestSupervisorIsReused(t *testing.T) {
	c, h := newTestHandle(t)
	before := below(nurseryOf(c))
	if len(before) != 1 {
		t.Fatalf("below a new nursery are %v, want one supervisor that waits for the first command", before)
	}
	parents := map[string]bool{}
	for range 20 {
		parents[string(run(t, h, "echo $PPID").Stdout)] = true
	}
	if len(parents) != 1 {
		t.Errorf("20 commands one after the other had the supervisors %v, want one", parents)
	}
	if after := below(nurseryOf(c)); !slices.Equal(before, after) {
		t.Errorf("supervisors were %v and are %v", before, after)
	}
}

func TestManyCommandsLeaveNothing(t *testing.T) {
	c, h := newTestHandle(t)
	run(t, h, "true")
	files, goroutines := openFDs(t), runtime.NumGoroutine()

	for range 500 {
		run(t, h, ":")
	}
	settled := func() bool {
		return openFDs(t) <= files+maxIdle && runtime.NumGoroutine() <= goroutines && zombies(nurseryOf(c)) == 0 &&
			len(below(nurseryOf(c))) <= maxIdle
	}
	eventually(t, "all is as before after 500 commands", settled)

	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			r, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"sleep", "0.2"}})
			if err != nil || !r.Success() {
				t.Errorf("one of 200 commands at once: %v, %v", r.ExitStatus, err)
			}
		})
	}
	group.Wait()
	eventually(t, "all is as before after 200 commands at once", settled)
}

// TestPIDsPerCommand holds the promise that 200 commands at once fit into a
// container of 512 processes: one supervisor each, and not a thread.
func TestPIDsPerCommand(t *testing.T) {
	const n = 50
	c, h := newTestHandle(t)
	threads := threadsOf(t)
	procs := make([]execution.Process, n)
	for i := range procs {
		p, err := h.Start(t.Context(), execution.Command{Args: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		procs[i] = p
	}
	if got := len(below(nurseryOf(c))); got != 2*n {
		t.Errorf("%d commands take %d processes, want two each", n, got)
	}
	if got := threadsOf(t) - threads; got > n/5 {
		t.Errorf("%d commands take %d threads of this program", n, got)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "the supervisors go", func() bool { return len(below(nurseryOf(c))) <= maxIdle })
	for _, p := range procs {
		if status, err := p.Wait(t.Context()); err != nil || status.Ending != execution.EndingCancelled {
			t.Errorf("a command at Destroy: %v, %v", status, err)
		}
	}
}

func threadsOf(tb testing.TB) int {
	tb.Helper()
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/task", &stat); err != nil {
		tb.Fatal(err)
	}
	return int(stat.Nlink) - 2
}

func TestIdleSupervisorsThatDiedAreReplaced(t *testing.T) {
	c, h := newTestHandle(t)
	for range 3 {
		for _, pid := range below(nurseryOf(c)) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if r := run(t, h, "echo hi"); string(r.Stdout) != "hi\n" || !r.Success() {
			t.Errorf("after all supervisors were killed: %v", r.ExitStatus)
		}
	}
}

func TestNurseryThatDiedIsReplaced(t *testing.T) {
	c, h := newTestHandle(t)
	p, err := h.Start(t.Context(), execution.Command{Shell: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	old := nurseryOf(c)
	_ = unix.Kill(old, unix.SIGKILL)
	if r := run(t, h, "echo hi"); string(r.Stdout) != "hi\n" {
		t.Errorf("after the nursery was killed: %v", r.ExitStatus)
	}
	if nurseryOf(c) == old {
		t.Error("the nursery is the one that was killed")
	}
	// What ran before still does, and is still under control.
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if status, err := p.Wait(t.Context()); err != nil || status.Ending != execution.EndingCancelled {
		t.Errorf("%v, %v", status, err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	text := mark(t)
	c, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := spawn(t, c)
	run(t, h, "sleep "+text+" & setsid sleep "+text+" & :")
	if len(withMark(text)) != 2 {
		t.Fatalf("alive before Close: %v", withMark(text))
	}
	nursery := nurseryOf(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if alive := withMark(text); len(alive) > 0 {
		t.Errorf("alive after Close: %v", alive)
	}
	if err := unix.Kill(nursery, 0); err == nil {
		t.Error("the nursery is there after Close")
	}
	if _, err := c.Spawn(context.Background(), execution.Spec{}); err == nil {
		t.Error("Spawn after Close works")
	}
}

// Who stops the supervisors that wait for commands holds up nobody for long.
func TestIdleSupervisorsThatWereStoppedGoOn(t *testing.T) {
	c, h := newTestHandle(t)
	run(t, h, "true")
	for _, pid := range below(nurseryOf(c)) {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if r := run(t, h, "echo hi"); string(r.Stdout) != "hi\n" || !r.Success() {
		t.Errorf("after all supervisors were stopped: %v, %q", r.ExitStatus, r.Stdout)
	}
}
