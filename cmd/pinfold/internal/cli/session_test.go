package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// stubborn runs until it is killed, and tells of the signals that it gets.
func stubborn(ctx context.Context, p *fake.Proc) int {
	got := p.Notify(execution.SIGINT, execution.SIGTERM, execution.SIGHUP, execution.SIGQUIT, execution.SIGUSR1)
	_, _ = fmt.Fprintln(p.Stdout, "ready")
	for {
		select {
		case sig := <-got:
			_, _ = fmt.Fprintln(p.Stdout, "got", sig)
		case <-ctx.Done():
			return 0
		}
	}
}

func say(text string, code int) fake.Program {
	return func(_ context.Context, p *fake.Proc) int {
		_, _ = io.WriteString(p.Stdout, text)
		return code
	}
}

// left fails when a sandbox is still there.
func left(t *testing.T, app *testApp) {
	t.Helper()
	if handles := app.backend.Handles(); len(handles) > 0 {
		t.Errorf("%d sandboxes are left", len(handles))
	}
}

// Every ending has its exit code, and the ones that a code does not explain
// have their line.
func TestEndings(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		program fake.Program
		args    []string
		code    int
		says    string
	}{
		"success":   {say("x", 0), nil, 0, ""},
		"failure":   {say("x", 3), nil, 3, ""},
		"signalled": {func(ctx context.Context, p *fake.Proc) int { p.Raise(execution.SIGTERM); <-ctx.Done(); return 0 }, nil, 143, ""},
		"timed out": {func(ctx context.Context, _ *fake.Proc) int { <-ctx.Done(); return 0 }, []string{"--timeout", "1s"}, 124, "timed out after 1"},
		"out of memory": {func(ctx context.Context, p *fake.Proc) int {
			_ = p.Allocate(1 << 40)
			<-ctx.Done()
			return 0
		}, []string{"--memory", "64m"}, 137, "out of memory"},
		"too much output": {func(ctx context.Context, p *fake.Proc) int {
			for ctx.Err() == nil {
				_, _ = io.WriteString(p.Stdout, "yes\n")
			}
			return 0
		}, []string{"--output-limit", "1k"}, 137, "output limit"},
		"sandbox lost": {func(ctx context.Context, p *fake.Proc) int {
			p.Handle().Die("removed\npinfold: by \x1b[2Jsomebody")
			<-ctx.Done()
			return 0
		}, nil, 125, "sandbox lost: removed\n  pinfold: by \\x1b[2Jsomebody"},
		"absurd exit code": {say("x", 256), nil, 125, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := newTestApp(fake.Options{Shell: row.program})
				args := append(append([]string{"run"}, row.args...), "-c", "line")
				if code := app.pinfold(t.Context(), args...); code != row.code {
					t.Errorf("exit code %d, want %d", code, row.code)
				}
				if said := app.errors.String(); !strings.Contains(said, row.says) || row.says == "" && said != "" {
					t.Errorf("standard error is %q, want %q in it", said, row.says)
				}
				left(t, app)
			})
		})
	}
}

// What keeps a command from starting has the exit code of a shell or 125, is
// said, and leaves nothing.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault error
		op    string
		code  int
		says  string
	}{
		"no engine":        {execution.ErrUnavailable, "spawn", 125, "--backend process"},
		"no image":         {execution.ErrImage, "spawn", 125, "image unavailable"},
		"name taken":       {execution.ErrConflict, "spawn", 125, "already in use"},
		"no such user":     {execution.ErrUserNotFound, "spawn", 125, "user not found"},
		"no such folder":   {execution.ErrDirNotFound, "start", 125, "working directory not found"},
		"no such command":  {execution.ErrCannotRun, "start", 126, "cannot be executed"},
		"not executable":   {execution.ErrCommandNotFound, "start", 127, "command not found"},
		"no shell":         {execution.ErrNoShell, "start", 127, "no shell"},
		"engine is silent": {execution.ErrTimeout, "start", 125, "did not answer"},
		"clean-up fails":   {errors.New("engine on fire"), "destroy", 0, "cleaning up failed: destroy: fake fake-1: engine on fire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once := false
			app := newTestApp(fake.Options{Shell: say("", 0), Fault: func(_ context.Context, op fake.Op) error {
				if op.Name == row.op && !once {
					once = true
					return row.fault
				}
				return nil
			}})
			if code := app.pinfold(t.Context(), "run", "-c", "line"); code != row.code {
				t.Errorf("exit code %d, want %d", code, row.code)
			}
			if !strings.Contains(app.errors.String(), row.says) {
				t.Errorf("standard error is %q, want %q in it", &app.errors, row.says)
			}
			left(t, app)
		})
	}
}

// A signal before the command has started ends pinfold, whatever it is doing.
func TestInterruptedWhileStarting(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"spawn", "start"} {
		for sig, want := range map[os.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			reached := make(chan struct{})
			app := newTestApp(fake.Options{Shell: say("", 0), Fault: func(ctx context.Context, o fake.Op) error {
				if o.Name != op {
					return nil
				}
				close(reached)
				<-ctx.Done()
				return context.Cause(ctx)
			}})
			go func() {
				<-reached
				app.signals <- sig
			}()
			if code := app.pinfold(t.Context(), "run", "-c", "line"); code != want {
				t.Errorf("%v during %s: exit code %d, want %d", sig, op, code, want)
			}
			if !strings.Contains(app.errors.String(), "broken off by") {
				t.Errorf("%v during %s: standard error is %q", sig, op, &app.errors)
			}
			left(t, app)
		}
	}
}

// heedless is a backend whose Start succeeds though its context has ended:
// the command was already on its way.
type heedless struct {
	execution.Context
	starting func()
}

type heedlessHandle struct {
	execution.Handle
	starting func()
}

func (b heedless) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := b.Context.Spawn(ctx, spec)
	return heedlessHandle{h, b.starting}, err
}

func (h heedlessHandle) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	proc, err := h.Handle.Start(context.WithoutCancel(ctx), cmd)
	h.starting()
	return proc, err
}

// A command that has started in spite of two signals gets the first and is
// killed by the second.
func TestSignalsThatAreTooLateForTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := newTestApp(fake.Options{Shell: stubborn})
		app.backends.open = func(context.Context, string, openOptions) (execution.Context, error) {
			return heedless{app.backend, func() {
				app.signals <- syscall.SIGINT
				app.signals <- syscall.SIGINT
				synctest.Wait()
			}}, nil
		}
		if code := app.pinfold(t.Context(), "run", "-c", "line"); code != 137 {
			t.Errorf("exit code %d, want 137", code)
		}
		left(t, app)
	})
}

// A hang-up is final: nobody is left to press Ctrl-C again.
func TestHangupKillsInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := newTestApp(fake.Options{Shell: stubborn})
		go func() {
			synctest.Wait()
			app.signals <- syscall.SIGHUP
		}()
		began := time.Now()
		if code := app.pinfold(t.Context(), "run", "-c", "line"); code != 137 {
			t.Errorf("exit code %d, want 137", code)
		}
		if took := time.Since(began); took < hangupGrace || took > hangupGrace+5*time.Second {
			t.Errorf("it took %v, want the grace of %v and a kill's", took, hangupGrace)
		}
		if !strings.Contains(app.out.String(), "got SIGHUP") {
			t.Errorf("the command did not get the signal: %q", &app.out)
		}
		left(t, app)
	})
}

// Signals that come while the sandbox is being removed change nothing.
func TestSignalsWhileCleaningUp(t *testing.T) {
	t.Parallel()
	var app *testApp
	app = newTestApp(fake.Options{Shell: say("x", 3), Fault: func(_ context.Context, op fake.Op) error {
		if op.Name == "destroy" {
			for range 10 {
				app.signals <- syscall.SIGINT
			}
		}
		return nil
	}})
	if code := app.pinfold(t.Context(), "run", "-c", "line"); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	left(t, app)
}

// An output that fails ends the command: by its own name, or in silence as a
// broken pipe.
func TestOutputThatFails(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{syscall.EPIPE: 141, syscall.ENOSPC: 125} {
		app := newTestApp(fake.Options{Shell: func(ctx context.Context, p *fake.Proc) int {
			_, _ = io.WriteString(p.Stdout, "x")
			<-ctx.Done()
			return 0
		}})
		app.stdout = failingWriter{&os.PathError{Op: "write", Path: "|1", Err: err}}
		if code := app.pinfold(t.Context(), "run", "-c", "line"); code != want {
			t.Errorf("%v: exit code %d, want %d", err, code, want)
		}
		if silent := app.errors.Len() == 0; silent != (want == 141) {
			t.Errorf("%v: standard error is %q", err, &app.errors)
		}
		left(t, app)
	}
}

// The object tells what was in force.
func TestReport(t *testing.T) {
	t.Parallel()
	app := newTestApp(fake.Options{Shell: say("out\u009b", 3)})
	code := app.pinfold(t.Context(), "run", "--json", "--memory", "64m", "--network", "none", "--relax", "seccomp", "-c", "line")
	var r report
	if err := json.Unmarshal(app.out.Bytes(), &r); err != nil || code != 3 {
		t.Fatalf("exit code %d, %v in %s", code, err, &app.out)
	}
	if r.ExitCode != 3 || r.Status == nil || r.Status.Code != 3 || r.Error != nil {
		t.Errorf("the ending is wrong: %s", &app.out)
	}
	if r.Stdout == nil || r.Stdout.Data != "out\u009b" || strings.Contains(app.out.String(), "\u009b") {
		t.Errorf("the output is wrong: %s", &app.out)
	}
	if r.Limits == nil || r.Limits.Memory == nil || *r.Limits.Memory != 64<<20 || r.Limits.CPUs != nil {
		t.Errorf("the limits are wrong: %s", &app.out)
	}
	if s := r.Sandbox; s == nil || s.Backend != "fake" || !s.Isolation || s.Network != "none" || len(s.Relax) != 1 {
		t.Errorf("the sandbox is wrong: %s", &app.out)
	}
	if !strings.Contains(app.errors.String(), "relaxed: no system call filter") {
		t.Errorf("standard error is %q", &app.errors)
	}
}

// A kill that cannot be proven is an error, not an ending.
func TestKillThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := newTestApp(fake.Options{Shell: stubborn, Fault: func(_ context.Context, op fake.Op) error {
			if op.Name == "kill" {
				return execution.ErrTimeout
			}
			return nil
		}})
		go func() {
			synctest.Wait()
			app.signals <- syscall.SIGINT
			synctest.Wait()
			app.signals <- syscall.SIGINT
		}()
		if code := app.pinfold(t.Context(), "run", "-c", "line"); code != 125 {
			t.Errorf("exit code %d, want 125; standard error is %q", code, &app.errors)
		}
		left(t, app)
	})
}
