package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
)

// patience is when a test that waits is taken to hang.
const patience = time.Minute

// hostVariable makes the test binary be a host that is about to be killed: its
// value is the image to use. hostRuntime is the runtime.
const (
	hostVariable = "PINFOLD_DOCKER_TEST_HOST"
	hostRuntime  = "PINFOLD_DOCKER_TEST_RUNTIME"
)

// playHost spawns a sandbox, starts a task that counts and a command in the
// foreground, tells the sandbox's ID, and waits to be killed.
func playHost(image string) error {
	ctx := context.Background()
	opts := Options{Lease: 20 * time.Second, Guest: func(string) ([]byte, error) { return builtGuest() }}
	c, err := New(ctx, opts)
	if err != nil {
		return err
	}
	spec := execution.Spec{Image: image, Runtime: os.Getenv(hostRuntime)}
	if spec.Runtime != "" {
		spec.Relax = []execution.Relaxation{execution.RelaxPIDs}
	}
	h, err := c.Spawn(ctx, spec)
	if err != nil {
		return err
	}
	if _, err := h.StartTask(ctx, execution.Command{Shell: "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"}, execution.TaskOptions{}); err != nil {
		return err
	}
	if err := execution.WriteFile(ctx, h, "file", []byte("kept")); err != nil {
		return err
	}
	if _, err := h.Start(ctx, execution.Command{Shell: "exec sleep 4242"}); err != nil {
		return err
	}
	fmt.Println(h.ID())
	select {}
}

// killedHost is the ID of a sandbox whose host was killed.
func killedHost(t *testing.T, runtime string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.CommandContext(t.Context(), self)
	host.Env = append(os.Environ(), hostVariable+"="+world.shell, hostRuntime+"="+runtime)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 13) // an ID and a newline
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatal(err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	return strings.TrimSpace(string(line))
}

// attachTo attaches as soon as the host that was killed counts as gone.
func attachTo(t *testing.T, c *Context, id string) execution.Handle {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		h, err := c.Attach(ctx, id, execution.AttachOptions{})
		if err == nil {
			t.Cleanup(func() {
				if err := h.Destroy(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			})
			return h
		}
		if !errors.Is(err, execution.ErrConflict) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestAttachAfterTheHostWasKilled(t *testing.T) {
	t.Run("runc", func(t *testing.T) { attachAfterKill(t, newBackend(t), "") })
	t.Run("gVisor", func(t *testing.T) {
		c := newBackend(t)
		needGVisor(t, c)
		attachAfterKill(t, c, "runsc")
	})
}

func attachAfterKill(t *testing.T, c *Context, runtime string) {
	t.Helper()
	h := attachTo(t, c, killedHost(t, runtime))
	if got, err := execution.ReadFile(t.Context(), h, "file", 0); string(got) != "kept" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "pgrep -f 'sleep 424[2]'"})
	if err != nil || len(result.Stdout) > 0 {
		t.Errorf("the dead host's command still runs: %q, %v", result.Stdout, err)
	}
	task, err := h.Task(t.Context(), "task-1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := task.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The counter has no gap, from before the death of its host to after it.
	for i := 1; i <= 200; i++ {
		var n int
		if _, err := fmt.Fscanln(r, &n); err != nil || n != i {
			t.Fatalf("count %d, %v, want %d", n, err, i)
		}
	}
	if err := task.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	for event, err := range h.Events(t.Context()) {
		if err != nil || event.Task.ID != "task-1" || event.Task.Status.Ending != execution.EndingCancelled {
			t.Errorf("event %+v, %v", event, err)
		}
		break
	}
}

func TestAttachToWhatAnotherHostHolds(t *testing.T) {
	first, second := newBackend(t), newBackend(t)
	h := spawn(t, first, execution.Spec{Image: world.shell, Labels: map[string]string{"mine": "yes"}})
	if _, err := second.Attach(t.Context(), h.ID(), execution.AttachOptions{}); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("a second host: %v", err)
	}
	if err := h.Err(); err != nil {
		t.Fatalf("the first was disturbed: %v", err)
	}
	other, err := second.Attach(t.Context(), h.ID(), execution.AttachOptions{Mode: execution.AttachTakeOver})
	if err != nil {
		t.Fatal(err)
	}
	if spec := other.Spec(); spec.Labels["mine"] != "yes" || spec.Image != world.shell || spec.Dir == "" {
		t.Errorf("the spec is %+v", spec)
	}
	<-h.Done()
	if err := h.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "taken over") {
		t.Errorf("the first host is told %v", err)
	}
	if _, err := second.Attach(t.Context(), "0000", execution.AttachOptions{}); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("an unknown sandbox: %v", err)
	}
	// What was the first host's is not its to end any more.
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := other.Stat(t.Context(), "/"); err != nil {
		t.Errorf("after the first host's Destroy: %v", err)
	}
	if err := other.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// What becomes of a sandbox is told to who is attached to it as to who made it.
func TestAttachedHostsAreToldOfPausesAndDeaths(t *testing.T) {
	first, second := newBackend(t), newBackend(t)
	h := spawn(t, first, execution.Spec{Image: world.shell, Detach: true, Lifetime: time.Hour})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := attachTo(t, second, h.ID())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := world.plain.ContainerPause(ctx, h.ID()); err != nil {
		t.Fatal(err)
	}
	for {
		bounded, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := again.Stat(bounded, "/")
		stop()
		if errors.Is(err, execution.ErrPaused) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("a paused sandbox: %v", err)
		}
	}
	if err := errors.Join(world.plain.ContainerUnpause(ctx, h.ID()), world.plain.ContainerKill(ctx, h.ID(), "KILL")); err != nil {
		t.Fatal(err)
	}
	<-again.Done()
	if err := again.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "from outside") {
		t.Errorf("a killed sandbox: %v", err)
	}
}

func TestDetachedSandboxLivesAlone(t *testing.T) {
	first, second := newBackend(t), newBackend(t)
	h := spawn(t, first, execution.Spec{Image: world.shell, Detach: true, Lifetime: time.Hour})
	if _, err := h.StartTask(t.Context(), execution.Command{Shell: "echo alone; exit 3"}, execution.TaskOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := attachTo(t, second, h.ID())
	task, err := again.Task(t.Context(), "task-1")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := task.Wait(t.Context()); err != nil || info.Status.Code != 3 || info.Stdout.Bytes != 6 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestLifetimeEndsASandbox(t *testing.T) {
	h := spawn(t, newBackend(t), execution.Spec{Image: world.shell, Lifetime: 2 * time.Second})
	select {
	case <-h.Done():
	case <-time.After(patience):
		t.Fatal("it outlives its lifetime")
	}
	if err := h.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "lifetime") {
		t.Errorf("the end is told as %v", err)
	}
}

// Code inside finds the guest's socket, and gets nothing out of it: its user may
// not connect, and who may become another user does not know the key.
func TestCodeInsideCannotPassForAHost(t *testing.T) {
	const knock = `name=$(grep -o 'pinfold-[0-9a-f]*' /proc/net/unix | head -n 1); test -n "$name" || exit 9; `
	for name, row := range map[string]struct {
		profile execution.Profile
		line    string
		greeted bool
	}{
		"its own user":   {execution.ProfileDefault, `/.pinfold/guest dial "$name" </dev/null | wc -c`, false},
		"root":           {execution.ProfileDev, `/.pinfold/guest dial "$name" </dev/null | wc -c`, false},
		"the user to be": {execution.ProfileDev, `(sleep 0.5; head -c 1000 /dev/zero) | su -s /bin/sh nobody -c "/.pinfold/guest dial $name" | wc -c`, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := spawn(t, newBackend(t), execution.Spec{Image: world.shell, Profile: row.profile})
			if row.greeted {
				shell(t, h, "echo nobody:x:65534:65534:nobody:/:/bin/sh >> /etc/passwd")
			}
			result, err := execution.Exec(t.Context(), h, execution.Command{Shell: knock + row.line, Timeout: patience})
			if err != nil || result.Code == 9 {
				t.Fatalf("%v, %v: %s", result.ExitStatus, err, result.Stderr)
			}
			got := strings.TrimSpace(string(result.Stdout))
			const greeting = "41" // a magic, a version and a number: nothing that is secret
			if want := map[bool]string{false: "0", true: greeting}[row.greeted]; got != want {
				t.Errorf("it was told %s bytes, want %s; it says %s", got, want, result.Stderr)
			}
			if _, err := h.Stat(t.Context(), "/"); err != nil {
				t.Errorf("the host was disturbed: %v", err)
			}
		})
	}
}

// A late engine says of every sandbox that it still runs.
type lateEngine struct{ engine }

func (e lateEngine) list(ctx context.Context, labels ...string) ([]containerSummary, error) {
	found, err := e.engine.list(ctx, labels...)
	for i := range found {
		found[i].State = "running"
	}
	return found, err
}

// What has ended or was paused just before somebody attaches is not taken for
// one that another host holds.
func TestAttachToWhatHasJustEnded(t *testing.T) {
	keeper, c := newKeeper(t), newBackendOn(t, func(e engine) engine { return lateEngine{e} })
	ended, paused := spawn(t, keeper, execution.Spec{Image: world.shell}), spawn(t, keeper, execution.Spec{Image: world.shell})
	if err := errors.Join(ended.Destroy(t.Context()), world.plain.ContainerPause(t.Context(), paused.ID())); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(t.Context(), ended.ID(), execution.AttachOptions{}); !errors.Is(err, execution.ErrLost) {
		t.Errorf("one that has ended: %v", err)
	}
	if _, err := c.Attach(t.Context(), paused.ID(), execution.AttachOptions{}); !errors.Is(err, execution.ErrPaused) {
		t.Errorf("one that is paused: %v", err)
	}
	if err := world.plain.ContainerUnpause(t.Context(), paused.ID()); err != nil {
		t.Error(err)
	}
	for _, h := range []execution.Handle{ended, paused} {
		if err := errors.Join(h.Destroy(t.Context()), c.Remove(t.Context(), h.ID())); err != nil {
			t.Error(err)
		}
	}
	if err := keeper.Close(); err != nil {
		t.Error(err)
	}
}

// What is no sandbox, or not yet, or of another version, is told apart.
func TestAttachToWhatIsNoSandbox(t *testing.T) {
	c := newBackend(t)
	base := c.containerLabels(execution.Spec{Image: world.shell, User: "1000:1000"})
	without := func(name string) map[string]string {
		labels := maps.Clone(base)
		delete(labels, name)
		return labels
	}
	for name, row := range map[string]struct {
		labels map[string]string
		want   error
		says   string
	}{
		"foreign":            {nil, execution.ErrNotFound, ""},
		"half made":          {base, execution.ErrLost, "has not been started"},
		"without a key":      {without(labelKey), execution.ErrUnsupported, "another version"},
		"of labels to come":  {without(labelVersion), execution.ErrNotFound, ""},
		"of nobody's making": {without(labelProcess), execution.ErrNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := world.plain.ContainerCreate(t.Context(),
				&container.Config{Image: world.shell, Cmd: []string{"true"}, Labels: row.labels}, nil, nil, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Attach(t.Context(), made.ID, execution.AttachOptions{Mode: execution.AttachTakeOver})
			if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %v that says %q", err, row.want, row.says)
			}
			if err := world.plain.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{}); err != nil {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}
