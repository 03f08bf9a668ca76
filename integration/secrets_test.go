//go:build linux

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/pinfold-dev/pinfold/execution"
)

// A canary is a secret that is looked for where it must not be.
const (
	specCanary    = "canary-of-the-spec-4f1d"
	commandCanary = "canary-of-the-command-9c2e"
)

func TestSecretsStayInTheStream(t *testing.T) {
	need(t)
	since := time.Now()
	backend := newBackend(t, dockerOptions())
	h := newSandbox(t, backend, execution.Spec{Env: []string{"SPEC_SECRET=" + specCanary}})
	up := &firstWrite{seen: make(chan struct{})}
	pending := start(t, h, execution.Command{
		Shell: "echo up; sleep 100000", Env: []string{"COMMAND_SECRET=" + commandCanary}, Stdout: up,
	})
	<-up.seen
	// They do arrive, or their absence elsewhere says nothing.
	got, err := execution.Exec(t.Context(), h, execution.Command{
		Shell: `echo "$SPEC_SECRET $COMMAND_SECRET"`, Env: []string{"COMMAND_SECRET=" + commandCanary},
	})
	if err != nil || string(got.Stdout) != specCanary+" "+commandCanary+"\n" {
		t.Fatalf("got %q, %v", got.Stdout, err)
	}

	info := inspect(t, world.engine, h)
	noCanary(t, "inspect", marshal(t, info))
	noCanary(t, "the handle's spec", marshal(t, h.Spec()))
	image, err := world.engine.ImageInspect(t.Context(), info.Image)
	if err != nil {
		t.Fatal(err)
	}
	noCanary(t, "the image", marshal(t, image))
	history, err := world.engine.ImageHistory(t.Context(), info.Image)
	if err != nil {
		t.Fatal(err)
	}
	noCanary(t, "the image's history", marshal(t, history))
	top, err := world.engine.ContainerTop(t.Context(), h.ID(), []string{"-ef"})
	if err != nil {
		t.Fatal(err)
	}
	noCanary(t, "docker top", marshal(t, top))
	noCanary(t, "the logs", logs(t, h.ID()))
	for _, p := range hostProcesses() {
		noCanary(t, "the arguments of a process", []byte(p.args))
	}
	noCanary(t, "the first process's environment", environment(t, info.State.Pid))
	// Another user in the same container, and its root, see no environment of
	// ours: neither that of a command nor the guest's.
	for _, user := range []string{"4711", "0"} {
		text := plainExec(t, h.ID(), user, "for p in /proc/[0-9]*; do cat $p/environ $p/cmdline 2>/dev/null; done; true")
		noCanary(t, "what user "+user+" sees inside", text)
	}
	if err := pending.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	noCanary(t, "the events", marshal(t, eventsSince(t, world.engine, since)))
}

func TestSecretsOfTheCommandLineStayOffTheArguments(t *testing.T) {
	need(t)
	m := mark()
	// The value is the caller's own environment's: only its name is an argument.
	cmd := pinfoldRun(t, m, "-e", "COMMAND_SECRET", "--", "sleep", "100000")
	cmd.Env = append(os.Environ(), "COMMAND_SECRET="+commandCanary)
	startAndWaitFor(t, cmd, m)
	list := marked(t, world.engine, m)
	info, err := world.engine.ContainerInspect(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	noCanary(t, "inspect", marshal(t, info))
	for _, p := range hostProcesses() {
		noCanary(t, "the arguments of a process", []byte(p.args))
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was interrupted
	noContainer(t, m)
}

func noCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, canary := range []string{specCanary, commandCanary} {
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s is in %s", canary, where)
		}
	}
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// environment is what a process was started with. It is empty where even root
// may not look.
func environment(t *testing.T, pid int) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "environ"))
	if err != nil {
		t.Logf("environment of %d: %v", pid, err)
	}
	return data
}

// logs are what the engine keeps of a container's output: nothing.
func logs(t *testing.T, id string) []byte {
	t.Helper()
	stream, err := world.engine.ContainerLogs(t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return []byte(err.Error()) // the log driver keeps nothing to be read
	}
	defer closeNow(t, stream)
	data, err := io.ReadAll(stream)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// plainExec runs a shell line through the engine, as any user.
func plainExec(t *testing.T, id, user, line string) []byte {
	t.Helper()
	ctx := t.Context()
	created, err := world.engine.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: user, Cmd: []string{"/bin/sh", "-c", line}, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := world.engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, stream.Reader); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// eventsSince is everything that an engine has told since.
func eventsSince(t *testing.T, engine *client.Client, since time.Time) []events.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	messages, failed := engine.Events(ctx, events.ListOptions{
		Since: fmt.Sprint(since.Unix()), Until: fmt.Sprint(time.Now().Unix()), Filters: filters.NewArgs(),
	})
	var all []events.Message
	for {
		select {
		case m := <-messages:
			all = append(all, m)
		case err := <-failed:
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return all
		}
	}
}
