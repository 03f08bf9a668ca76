package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
)

// How a sandbox ended is told by what the engine says of it.
func TestReasonsOfDeaths(t *testing.T) {
	c := newBackend(t)
	now := 0
	for name, row := range map[string]struct {
		end  func(ctx context.Context, h execution.Handle) error
		says string
	}{
		"removed": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerRemove(ctx, h.ID(), container.RemoveOptions{Force: true})
		}, "removed from outside"},
		"killed": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerKill(ctx, h.ID(), "SIGKILL")
		}, "SIGKILL"},
		"stopped": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerStop(ctx, h.ID(), container.StopOptions{Timeout: &now})
		}, "stopped from outside"},
		"first process killed": {func(ctx context.Context, h execution.Handle) error {
			return killFirst(ctx, h)
		}, "first process was killed"},
		"paused, then removed": {func(ctx context.Context, h execution.Handle) error {
			return errors.Join(world.plain.ContainerPause(ctx, h.ID()),
				world.plain.ContainerRemove(ctx, h.ID(), container.RemoveOptions{Force: true}))
		}, "removed from outside"},
	} {
		t.Run(name, func(t *testing.T) {
			h := spawn(t, c, execution.Spec{})
			proc, err := h.Start(t.Context(), execution.Command{Shell: "sleep 1000"})
			if err != nil {
				t.Fatal(err)
			}
			if err := row.end(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			status, err := proc.Wait(t.Context())
			if !errors.Is(err, execution.ErrLost) || status.Ending != execution.EndingLost || !strings.Contains(err.Error(), row.says) {
				t.Errorf("the command: %v, %v; want lost because %q", status, err, row.says)
			}
			<-h.Done()
			if err := h.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("the handle: %v; want lost because %q", err, row.says)
			}
			if err := h.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy after the death: %v", err)
			}
		})
	}
}

// hostPID is the number of a sandbox's first process on this machine.
func hostPID(ctx context.Context, h execution.Handle) (int, error) {
	info, err := world.plain.ContainerInspect(ctx, h.ID())
	if err != nil {
		return 0, err
	}
	return info.State.Pid, nil
}

func killFirst(ctx context.Context, h execution.Handle) error {
	pid, err := hostPID(ctx, h)
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// The kernel picks what runs in the sandbox, not the guest. Where it is made to
// pick the guest, that is told as what it is.
func TestOutOfMemory(t *testing.T) {
	c := newBackend(t)
	// Files in memory belong to nobody, so that the kernel has to choose.
	const eat = "dd if=/dev/zero of=/memory/file bs=1M"
	spec := execution.Spec{Limits: execution.Limits{Memory: 64 << 20}}
	t.Run("a command", func(t *testing.T) {
		h := spawn(t, c, spec)
		result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"sh", "-c", "exec tail /dev/zero"}})
		if err != nil || result.Ending != execution.EndingOutOfMemory {
			t.Errorf("got %v, %v", result.ExitStatus, err)
		}
		if got := shell(t, h, "echo alive"); got != "alive\n" {
			t.Errorf("the sandbox: %q", got)
		}
	})
	t.Run("the guest", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("turning the kernel on the guest takes root")
		}
		spec.Mounts = []execution.Mount{{Type: execution.MountTmpfs, Target: "/memory", Size: 1 << 30}}
		h := spawn(t, c, spec)
		pid, err := hostPID(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0); err != nil {
			t.Skip(err)
		}
		proc, err := h.Start(t.Context(), execution.Command{Shell: eat})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := proc.Wait(t.Context()); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("got %v, %v, want lost because out of memory", status, err)
		}
	})
}

// A fork bomb stays within its limit, can be killed, and what is left after it
// is a working sandbox.
func TestForkBombIsBoundedAndKilled(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{Limits: execution.Limits{PIDs: 100}})
	pid, err := hostPID(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	kill := func(proc execution.Process) {
		t.Helper()
		if err := proc.Kill(t.Context()); err != nil {
			t.Errorf("Kill: %v", err)
		}
		if _, err := proc.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v", err)
		}
		if got := shell(t, h, "echo alive"); got != "alive\n" {
			t.Errorf("the sandbox: %q", got)
		}
		if n := countInside(t, pid); n > 20 {
			t.Errorf("%d processes are left", n)
		}
	}
	// One whose processes stay, so that they can be counted.
	proc, err := h.Start(t.Context(), execution.Command{Shell: `(while :; do sleep 1000 & done) & exec sleep 1000`})
	if err != nil {
		t.Fatal(err)
	}
	// The guest's threads count towards the limit, too.
	eventually(t, "it reaches its limit", func() bool { return countInside(t, pid) > 60 })
	if n := countInside(t, pid); n > 100 {
		t.Errorf("%d processes, with a limit of 100", n)
	}
	kill(proc)
	// And one that multiplies as fast as it can.
	proc, err = h.Start(t.Context(), execution.Command{Shell: `bomb() { bomb | bomb & }; bomb; exec sleep 1000`})
	if err != nil {
		t.Fatal(err)
	}
	kill(proc)
}

// countInside counts the processes that share a process's own process space.
func countInside(t *testing.T, pid int) int {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("looking into a sandbox from outside takes root on Linux")
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if other, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && other == space {
			n++
		}
	}
	return n
}

// A flood of processes that Destroy meets costs no time either.
func TestDestroyOfAForkBomb(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	if _, err := h.Start(t.Context(), execution.Command{Shell: `bomb() { bomb | bomb & }; bomb`}); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := world.plain.ContainerInspect(t.Context(), h.ID()); err == nil {
		t.Error("the container is still there")
	}
}

func TestPausedSandboxes(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	if err := world.plain.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls say that it is paused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := h.Stat(ctx, "/")
		return errors.Is(err, execution.ErrPaused)
	})
	if err := world.plain.ContainerUnpause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool {
		_, err := h.Stat(t.Context(), "/")
		return err == nil
	})
	// Paused again, it can still be destroyed.
	if err := world.plain.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
