//go:build linux

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
)

// An engine that is missing, too old, restarted, or stuck.

func TestNoEngineIsUnavailableAndSaysWhatWasTried(t *testing.T) {
	dir := shortDir(t)
	nobody := filepath.Join(dir, "nobody.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", nobody)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	closeNow(t, listener)
	for name, host := range map[string]string{
		"no socket":                  "unix://" + filepath.Join(dir, "missing.sock"),
		"a socket nobody listens at": "unix://" + nobody,
		"a closed port":              "tcp://127.0.0.1:1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := docker.New(t.Context(), dockerOptionsAt(host))
			isError(t, err, execution.ErrUnavailable, host)
		})
	}
}

func TestAnEngineThatIsTooOldIsUnavailable(t *testing.T) {
	host := fakeEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.20")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/version") {
			_, _ = fmt.Fprint(w, `{"Version":"1.8.0","ApiVersion":"1.20","Os":"linux","Arch":"amd64"}`)
			return
		}
		_, _ = fmt.Fprint(w, "OK")
	}))
	_, err := docker.New(t.Context(), dockerOptionsAt(host))
	isError(t, err, execution.ErrUnavailable, "1.20", "1.40")
}

func TestSomethingElseAtTheSocketIsUnavailable(t *testing.T) {
	host := fakeEngine(t, http.NotFoundHandler())
	_, err := docker.New(t.Context(), dockerOptionsAt(host))
	isError(t, err, execution.ErrUnavailable, host)
}

// fakeEngine answers at a socket of its own.
func fakeEngine(t *testing.T, handler http.Handler) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "docker.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: hangTime}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		closeNow(t, server)
		serving.Wait()
	})
	return "unix://" + path
}

func TestTheCommandSaysHowToGetAnEngine(t *testing.T) {
	cmd := pinfoldCommand(t, "run", "--", "true")
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///nowhere/docker.sock")
	got := finish(t, cmd)
	if got.code != 125 || !strings.Contains(got.stderr, "/nowhere/docker.sock") ||
		!strings.Contains(got.stderr, "--backend process") || got.stdout != "" {
		t.Errorf("got %+v", got)
	}
}

func TestTheEngineIsRestartedWhileInUse(t *testing.T) {
	d := startDaemon(t)
	image := d.image(t)
	for name, restart := range map[string]func(){
		"stopped and started": func() { d.stop(t); d.start(t) },
		"crashed and started": func() { d.kill(t); d.start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			backend := newBackend(t, dockerOptionsAt(d.host))
			h := newSandbox(t, backend, execution.Spec{Image: image})
			pending := start(t, h, execution.Command{Shell: "sleep 100000"})
			restart()
			lost(t, h, pending)
			eventually(t, "the container is removed", func() error { return noneLeft(t, d) })

			// The backend goes on with the engine that is there now.
			again := newSandbox(t, backend, execution.Spec{Image: image})
			if got := output(t, again, "echo again"); got != "again\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// With live-restore the containers outlive the engine, and so does all that runs
// in them: the handle finds its way back by itself, and nothing is lost.
func TestTheEngineIsRestartedAndItsContainersLive(t *testing.T) {
	d := startDaemon(t, "--live-restore")
	image := d.image(t)
	backend := newBackend(t, dockerOptionsAt(d.host))
	h := newSandbox(t, backend, execution.Spec{Image: image})
	for name, restart := range map[string]func(){
		"stopped and started": func() { d.stop(t); d.start(t) },
		"crashed and started": func() { d.kill(t); d.start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			var counted bytes.Buffer
			counter := start(t, h, execution.Command{
				Shell: "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; sleep 0.01; done; echo over", Stdout: &counted,
			})
			task, err := h.StartTask(t.Context(), execution.Command{Shell: "sleep 1; echo done"}, execution.TaskOptions{})
			if err != nil {
				t.Fatal(err)
			}
			restart()
			if got := output(t, h, "echo again"); got != "again\n" {
				t.Errorf("after the restart: %q", got)
			}
			if info, err := task.Wait(t.Context()); err != nil || !info.Status.Success() || info.Stdout.Bytes != 5 {
				t.Errorf("the task: %+v, %v", info, err)
			}
			if err := execution.WriteFile(t.Context(), h, "stop", nil); err != nil {
				t.Fatal(err)
			}
			if status, err := counter.Wait(t.Context()); err != nil || !status.Success() {
				t.Fatalf("the command that ran meanwhile: %v, %v", status, err)
			}
			lines := strings.Fields(counted.String())
			for i, line := range lines[:len(lines)-1] {
				if line != strconv.Itoa(i+1) {
					t.Fatalf("line %d is %q", i+1, line)
				}
			}
			if len(lines) < 10 || lines[len(lines)-1] != "over" {
				t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
			}
			output(t, h, "rm stop")
		})
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "the container is removed", func() error { return noneLeft(t, d) })
}

// noneLeft reports a container that the engine still has. One that it lists as
// dead or being removed and does not know is not there: after a crash, Docker 20.10 removes a
// container twice and forgets to strike it off its list.
func noneLeft(t *testing.T, d *daemon) error {
	t.Helper()
	list, err := d.client.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.State == container.StateDead || c.State == container.StateRemoving {
			if _, err := os.Stat(filepath.Join(d.dir, "data", "containers", c.ID)); errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		return errorf("there is %.12s: %s", c.ID, c.Status)
	}
	return nil
}

func TestAWedgedEngineHangsNobody(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	image := d.image(t)
	backend := newBackend(t, dockerOptionsAt(d.host))
	h := newSandbox(t, backend, execution.Spec{Image: image})
	spare := newSandbox(t, backend, execution.Spec{Image: image})
	pending := start(t, h, execution.Command{Shell: "sleep 100000"})
	d.freeze(t)
	defer d.thaw(t)

	ctx, cancel := context.WithTimeout(t.Context(), wedgeTime)
	defer cancel()
	frozen := time.Now()
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := backend.Spawn(ctx, execution.Spec{Image: image})
		answered(t, ctx, frozen, "Spawn", err)
	})
	calls.Go(func() {
		_, err := execution.Exec(ctx, h, execution.Command{Args: []string{"true"}})
		answered(t, ctx, frozen, "Exec", err)
	})
	calls.Go(func() {
		_, err := pending.Wait(ctx)
		answered(t, ctx, frozen, "Wait", err)
	})
	calls.Go(func() {
		_, err := docker.New(ctx, dockerOptionsAt(d.host))
		answered(t, ctx, frozen, "New", err)
	})
	calls.Go(func() { answered(t, ctx, frozen, "Destroy", spare.Destroy(ctx)) })
	calls.Wait()

	d.thaw(t)
	if err := spare.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy again, once the engine goes on: %v", err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy once the engine goes on: %v", err)
	}
	eventually(t, "no container is left", func() error { return noneLeft(t, d) })
}

// A container that the engine makes when nobody waits for it any more does not
// stay.
func TestACreationThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	image := d.image(t)
	var once sync.Once
	var frozen time.Time
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	armed := make(chan struct{})
	p := startProxyTo(t, d.host, func(method, path string) {
		select {
		case <-armed:
		default:
			return // the derived image is being made
		}
		if method == http.MethodPost && strings.Contains(path, "/containers/create") {
			once.Do(func() {
				d.freeze(t)
				frozen = time.Now()
				cancel()
			})
		}
	})
	backend := newBackend(t, dockerOptionsAt(p.host))
	if err := newSandbox(t, backend, execution.Spec{Image: image}).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(armed)
	if _, err := backend.Spawn(ctx, execution.Spec{Image: image}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	d.thaw(t)
	// That there is none says nothing before there was one.
	eventually(t, "the engine has made it and removed it", func() error {
		done := map[events.Action]int{}
		for _, e := range eventsSince(t, d.client, frozen) {
			done[e.Action]++
		}
		if done[events.ActionCreate] == 0 || done[events.ActionDestroy] == 0 {
			return errorf("the events are %v", done)
		}
		return noneLeft(t, d) // the first sandbox may have been the one that was destroyed
	})
}

// wedgeTime is when a call counts as hung although the engine is stuck. Each
// call has a deadline of its own, well below it.
const wedgeTime = 4 * hangTime

// answered checks that a call ended by its own deadline, with a typed error.
func answered(t *testing.T, ctx context.Context, frozen time.Time, call string, err error) {
	t.Helper()
	t.Logf("%s, %v after the engine was frozen: %v", call, time.Since(frozen).Round(time.Second), err)
	_, typed := errors.AsType[*execution.Error](err)
	switch {
	case ctx.Err() != nil:
		t.Errorf("%s hung", call)
	case err == nil:
		t.Errorf("%s succeeded on an engine that is stuck", call)
	case !typed:
		t.Errorf("%s: %q is no *execution.Error", call, err)
	case !errors.Is(err, execution.ErrTimeout) && !errors.Is(err, execution.ErrUnavailable) && !errors.Is(err, execution.ErrLost):
		t.Errorf("%s: %q is of no fitting kind", call, err)
	}
}
