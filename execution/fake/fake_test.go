package fake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// spawn makes a sandbox that ends with the test.
func spawn(t *testing.T, opts fake.Options) *fake.Handle {
	t.Helper()
	backend := fake.New(opts)
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	h, err := backend.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return h.(*fake.Handle)
}

func sleep(ctx context.Context, _ *fake.Proc) int {
	<-ctx.Done()
	return 1
}

func TestZeroValueCanDoEverythingButRunCommands(t *testing.T) {
	h := spawn(t, fake.Options{})
	if err := execution.WriteFile(t.Context(), h, "file", []byte("content")); err != nil {
		t.Error(err)
	}
	if _, err := h.Start(t.Context(), execution.Command{Shell: "true"}); !errors.Is(err, execution.ErrNoShell) {
		t.Errorf("a shell line: %v", err)
	}
	if _, err := h.Start(t.Context(), execution.Command{Args: []string{"true"}}); !errors.Is(err, execution.ErrCommandNotFound) {
		t.Errorf("a command: %v", err)
	}
	if h.Spec().Image != fake.DefaultImage || h.Dir() != fake.DefaultDir || h.Spec().User != fake.DefaultUser {
		t.Errorf("the defaults are %+v", h.Spec())
	}
}

// calls makes every call of a handle, by the name of its operation.
func calls(ctx context.Context, h *fake.Handle) map[string]error {
	first := func(seq func(func(execution.FileInfo, error) bool)) (err error) {
		for _, err = range seq {
			break
		}
		return err
	}
	all := map[string]error{}
	_, all["start"] = h.Start(ctx, execution.Command{Shell: "true"})
	_, all["open file"] = h.OpenFile(ctx, "file", execution.ReadOptions{})
	all["write file"] = execution.WriteFile(ctx, h, "file", nil)
	_, all["stat"] = h.Stat(ctx, "file")
	_, all["lstat"] = h.Lstat(ctx, "file")
	_, all["start task"] = h.StartTask(ctx, execution.Command{Shell: "true"}, execution.TaskOptions{})
	_, all["find task"] = h.Task(ctx, "task-1")
	for _, all["list tasks"] = range h.Tasks(ctx) {
		break
	}
	all["list"] = first(h.List(ctx, "."))
	all["glob"] = first(h.Glob(ctx, ".", "*"))
	return all
}

func TestFaultFailsAnyCall(t *testing.T) {
	errFull := fmt.Errorf("%w: the disk of the engine", execution.ErrNoSpace)
	var mu sync.Mutex
	var failing string
	var seen []fake.Op
	fault := func(_ context.Context, op fake.Op) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, op)
		if op.Name == failing {
			return errFull
		}
		return nil
	}
	script := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		failing = name
	}
	shell := func(context.Context, *fake.Proc) int { return 0 }
	h := spawn(t, fake.Options{Fault: fault, Shell: shell, Files: map[string]string{"file": "x"}})
	for name := range calls(t.Context(), h) {
		script(name)
		for call, err := range calls(t.Context(), h) {
			if call == name && !errors.Is(err, errFull) || call != name && err != nil {
				t.Errorf("with a fault in %q, %q fails with %v", name, call, err)
			}
			typed, ok := errors.AsType[*execution.Error](err)
			if call == name && (!ok || typed.Op != name || typed.Handle != h.ID()) {
				t.Errorf("the error of %q is %#v", call, typed)
			}
		}
	}
	script("destroy")
	if err := h.Destroy(t.Context()); !errors.Is(err, errFull) || h.Err() != nil {
		t.Errorf("Destroy: %v, Err: %v", err, h.Err())
	}
	script("")
	if seen[0].Name != "spawn" || seen[0].Spec == nil || seen[0].Handle != nil {
		t.Errorf("the spawn showed as %+v", seen[0])
	}
	for _, op := range seen[1:] {
		if op.Handle != h || op.Name == "stat" && op.Path != "file" || op.Name == "start" && op.Command.Shell != "true" {
			t.Errorf("a call showed as %+v", op)
		}
	}
}

func TestFaultFailsSpawn(t *testing.T) {
	backend := fake.New(fake.Options{Fault: func(context.Context, fake.Op) error { return execution.ErrUnavailable }})
	h, err := backend.Spawn(t.Context(), execution.Spec{})
	if !errors.Is(err, execution.ErrUnavailable) || h != nil || len(backend.Handles()) > 0 {
		t.Errorf("got %v, %v; %d sandboxes", h, err, len(backend.Handles()))
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
}

func TestFaultDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := spawn(t, fake.Options{Fault: func(_ context.Context, op fake.Op) error {
			if op.Name == "stat" {
				time.Sleep(time.Hour)
			}
			return nil
		}})
		begin := time.Now()
		if _, err := h.Stat(t.Context(), "."); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("Stat took %v, %v", time.Since(begin), err)
		}
	})
}

// A fault that blocks is let go by the end of the call's context and by the
// end of the sandbox.
func TestFaultBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := spawn(t, fake.Options{Fault: func(ctx context.Context, op fake.Op) error {
			if op.Name != "stat" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Stat(ctx, "."); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stat: %v", err)
		}
		time.AfterFunc(time.Second, func() { h.Die("the engine is gone") })
		if _, err := h.Stat(t.Context(), "."); !errors.Is(err, execution.ErrLost) {
			t.Errorf("Stat in a sandbox that died: %v", err)
		}
	})
}

func TestDieSaysWhy(t *testing.T) {
	h := spawn(t, fake.Options{Shell: sleep})
	proc, err := h.Start(t.Context(), execution.Command{Shell: "sleep"})
	if err != nil {
		t.Fatal(err)
	}
	h.Die("removed by somebody")
	h.Die("and again")
	status, err := proc.Wait(t.Context())
	if !errors.Is(err, execution.ErrLost) || status.Ending != execution.EndingLost || status.Reason != "removed by somebody" {
		t.Errorf("Wait: %+v, %v", status, err)
	}
	if want := "fake fake-1: sandbox lost: removed by somebody"; h.Err().Error() != want {
		t.Errorf("Err is %q, want %q", h.Err(), want)
	}
	if want := "stat: fake fake-1: \"file\": sandbox lost: removed by somebody"; calls(t.Context(), h)["stat"].Error() != want {
		t.Errorf("Stat says %q, want %q", calls(t.Context(), h)["stat"], want)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := spawn(t, fake.Options{Files: map[string]string{"file": "x"}, Shell: func(_ context.Context, p *fake.Proc) int {
			for range 5 {
				time.Sleep(time.Second)
				_, _ = io.WriteString(p.Stdout, "tick ")
			}
			return 0
		}})
		var out bytes.Buffer
		proc, err := h.Start(t.Context(), execution.Command{Shell: "tick", Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		h.Pause()
		h.Pause()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := out.String(); got != "tick " {
			t.Errorf("a paused command wrote %q", got)
		}
		for call, err := range calls(t.Context(), h) {
			if !errors.Is(err, execution.ErrPaused) {
				t.Errorf("%s in a paused sandbox: %v", call, err)
			}
		}
		h.Resume()
		h.Resume()
		if status, err := proc.Wait(t.Context()); err != nil || !status.Success() || out.String() != "tick tick tick tick tick " {
			t.Errorf("after the pause: %q, %v, %v", out.String(), status, err)
		}
	})
}

func TestDestroyAPausedSandbox(t *testing.T) {
	h := spawn(t, fake.Options{Shell: func(_ context.Context, p *fake.Proc) int {
		_, _ = p.Stdin.Read(make([]byte, 1))
		return 1
	}})
	h.Pause()
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

// A program that does not end is told about, not waited for without end.
func TestDestroyWithAProgramThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := spawn(t, fake.Options{Shell: func(context.Context, *fake.Proc) int {
			<-release
			return 0
		}})
		if _, err := h.Start(t.Context(), execution.Command{Shell: "hang"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Destroy(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Destroy: %v", err)
		}
		close(release)
		if err := h.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy again: %v", err)
		}
	})
}

func TestOptionsFiles(t *testing.T) {
	backend := fake.New(fake.Options{Files: map[string]string{"src/main.go": "package main", "/etc/hosts": ""}})
	for range 2 { // each sandbox has files of its own
		h, err := backend.Spawn(t.Context(), execution.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := execution.ReadFile(t.Context(), h, "/workspace/src/main.go", 0)
		if err != nil || string(data) != "package main" {
			t.Errorf("got %q, %v", data, err)
		}
		if err := execution.WriteFile(t.Context(), h, "src/main.go", nil); err != nil {
			t.Error(err)
		}
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
}

func TestAddFile(t *testing.T) {
	h := spawn(t, fake.Options{})
	if err := h.AddFile("dir", fs.ModeDir|0o700, ""); err != nil {
		t.Error(err)
	}
	if err := h.AddFile("dir/link", fs.ModeSymlink|0o777, "nowhere"); err != nil {
		t.Error(err)
	}
	if info, err := h.Lstat(t.Context(), "dir/link"); err != nil || info.Target != "nowhere" {
		t.Errorf("Lstat: %+v, %v", info, err)
	}
	if err := h.AddFile("dir", fs.ModeDir|0o700, ""); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("AddFile over another: %v", err)
	}
}

func TestForkAtTheLimitOfProcesses(t *testing.T) {
	backend := fake.New(fake.Options{Shell: func(ctx context.Context, p *fake.Proc) int {
		n := 0
		for {
			if _, err := p.Fork(ctx, fake.Fork{Program: sleep}); err != nil {
				return n
			}
			n++
		}
	}})
	defer func() { _ = backend.Close() }()
	h, err := backend.Spawn(t.Context(), execution.Spec{Limits: execution.Limits{PIDs: 40}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "bomb"})
	if err != nil || result.Code != 39 || len(result.Leftovers) != 39 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestProcessesInOrder(t *testing.T) {
	h := spawn(t, fake.Options{Shell: sleep})
	var procs []execution.Process
	for range 3 {
		proc, err := h.Start(t.Context(), execution.Command{Shell: "sleep"})
		if err != nil {
			t.Fatal(err)
		}
		procs = append(procs, proc)
	}
	want := []execution.ProcessInfo{{PID: 1, Command: "sleep"}, {PID: 2, Command: "sleep"}, {PID: 3, Command: "sleep"}}
	if got := h.Processes(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, proc := range procs {
		if err := proc.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := h.Processes(); len(got) > 0 {
		t.Errorf("still there: %v", got)
	}
}

// A shared bind is one folder in memory, whoever mounts it.
func TestBindsAreShared(t *testing.T) {
	backend := fake.New(fake.Options{})
	defer func() { _ = backend.Close() }()
	mount := func(readOnly bool) execution.Handle {
		h, err := backend.Spawn(t.Context(), execution.Spec{Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: "/home/me/src", Target: "/src", ReadOnly: readOnly},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	writer, reader := mount(false), mount(true)
	if err := execution.WriteFile(t.Context(), writer, "/src/file", []byte("shared")); err != nil {
		t.Fatal(err)
	}
	if data, err := execution.ReadFile(t.Context(), reader, "/src/file", 0); err != nil || string(data) != "shared" {
		t.Errorf("got %q, %v", data, err)
	}
	if err := execution.WriteFile(t.Context(), reader, "/src/file", nil); !errors.Is(err, execution.ErrPermission) {
		t.Errorf("WriteFile on a read-only mount: %v", err)
	}
}
