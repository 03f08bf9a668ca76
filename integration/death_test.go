//go:build linux

package integration

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
)

// Somebody else's hands on a sandbox that is in use.

func TestADeadSandboxFailsEveryCallAndSaysWhy(t *testing.T) {
	need(t)
	now := 0
	for name, row := range map[string]struct {
		end    func(ctx context.Context, id string) error
		reason string
	}{
		"removed": {func(ctx context.Context, id string) error {
			return world.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
		}, "kill"},
		"stopped": {func(ctx context.Context, id string) error {
			return world.engine.ContainerStop(ctx, id, container.StopOptions{Timeout: &now})
		}, ""},
		"killed": {func(ctx context.Context, id string) error {
			return world.engine.ContainerKill(ctx, id, "KILL")
		}, "kill"},
		"told to terminate": {func(ctx context.Context, id string) error {
			return world.engine.ContainerKill(ctx, id, "TERM")
		}, ""},
		"restarted": {func(ctx context.Context, id string) error {
			return world.engine.ContainerRestart(ctx, id, container.StopOptions{Timeout: &now})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := sandbox(t)
			pending := start(t, h, execution.Command{Shell: "sleep 100000"})
			if err := row.end(t.Context(), h.ID()); err != nil {
				t.Fatal(err)
			}
			lost(t, h, pending, row.reason)
			absent(t, world.engine, h.ID())
		})
	}
}

func TestAPausedSandboxIsATypedErrorAndGoesOnLater(t *testing.T) {
	t.Parallel()
	h := sandbox(t)
	if err := execution.WriteFile(t.Context(), h, "before", []byte("content")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	up := &firstWrite{seen: make(chan struct{})}
	pending := start(t, h, execution.Command{
		Shell: "echo up >&2; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; echo $i; done; exit 7", Stdout: &out, Stderr: up,
	})
	<-up.seen
	if err := world.engine.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a call says that it is paused", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), hangTime)
		defer cancel()
		_, err := execution.Exec(ctx, h, execution.Command{Args: []string{"true"}})
		if err == nil {
			return errorf("it ran")
		}
		isError(t, err, execution.ErrPaused)
		return nil
	})
	isError(t, execution.WriteFile(t.Context(), h, "during", nil), execution.ErrPaused)

	// Longer than a guest may be silent, and than it may go without its host.
	time.Sleep(pauseTime)
	if err := h.Err(); err != nil {
		t.Errorf("after %v: %v", pauseTime, err)
	}
	if err := world.engine.ContainerUnpause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	status, err := pending.Wait(t.Context())
	if err != nil || status.Code != 7 || strings.Join(strings.Fields(out.String()), "") != "123456789" {
		t.Errorf("the command that was paused: %v, %v, output %q", status, err, out.String())
	}
	eventually(t, "it can be used again", func() error {
		_, err := execution.ReadFile(t.Context(), h, "before", 0)
		return err
	})
	if _, err := h.Stat(t.Context(), "during"); err == nil {
		t.Error("a write that failed was carried out later")
	}
}

// pauseTime is longer than the silence and the lease that this test's backend
// allows.
const pauseTime = 75 * time.Second

// firstWrite tells of the first thing written to it.
type firstWrite struct {
	seen chan struct{}
	done bool
}

func (f *firstWrite) Write(p []byte) (int, error) {
	if !f.done {
		f.done = true
		close(f.seen)
	}
	return len(p), nil
}

func TestAPausedSandboxCanBeDestroyed(t *testing.T) {
	h := sandbox(t)
	pending := start(t, h, execution.Command{Shell: "sleep 100000"})
	if err := world.engine.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	absent(t, world.engine, h.ID())
	if status, err := pending.Wait(t.Context()); err == nil || status.Success() {
		t.Errorf("the pending command: %v, %v", status, err)
	}
}

func TestASilentCommandIsNotEnded(t *testing.T) {
	t.Parallel()
	h := sandbox(t)
	// Longer than any heartbeat, lease or idle time that there is.
	if got := output(t, h, "sleep 80; echo end"); got != "end\n" {
		t.Errorf("got %q", got)
	}
}

// Connections to the engine that break are made anew, and what runs goes on.
func TestTheConnectionIsCut(t *testing.T) {
	need(t)
	p := startProxy(t, nil)
	h := newSandbox(t, newBackend(t, dockerOptionsAt(p.host)), execution.Spec{})
	var counted, want strings.Builder
	pending := start(t, h, execution.Command{
		Shell: "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i; sleep 0.05; done", Stdout: &counted,
	})
	for range 3 {
		p.cut()
		if got := output(t, h, "echo here"); got != "here\n" {
			t.Errorf("after the cut: %q", got)
		}
	}
	if status, err := pending.Wait(t.Context()); err != nil || !status.Success() {
		t.Errorf("the command that ran meanwhile: %v, %v", status, err)
	}
	for i := range 60 {
		fmt.Fprintln(&want, i+1)
	}
	if counted.String() != want.String() {
		t.Errorf("it said %q", counted.String())
	}
}

// Where the engine stays out of reach, the sandbox counts as lost once its
// lease is over, and is gone by then.
func TestTheEngineIsOutOfReach(t *testing.T) {
	need(t)
	p := startProxy(t, nil)
	opts := dockerOptionsAt(p.host)
	opts.Lease = 2 * time.Second
	h := newSandbox(t, newBackend(t, opts), execution.Spec{})
	pending := start(t, h, execution.Command{Shell: "sleep 100000"})
	p.away.Store(true)
	p.cut()
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	status, err := pending.Wait(ctx)
	isError(t, err, execution.ErrLost)
	if status.Ending != execution.EndingLost {
		t.Errorf("the pending command ended as %+v, want it lost", status)
	}
	<-h.Done()
	isError(t, h.Err(), execution.ErrLost)
	eventually(t, "the container is gone", func() error {
		if _, err := world.engine.ContainerInspect(ctx, h.ID()); !cerrdefs.IsNotFound(err) {
			return errorf("it is there: %v", err)
		}
		return nil
	})
	p.away.Store(false) // for Destroy, to which a lost sandbox is one as any other
}
