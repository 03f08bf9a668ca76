package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// A staying backend has one sandbox that one can come back to.
type staying struct {
	*fake.Backend
	handle execution.Handle
	modes  []execution.AttachMode
}

type stayingHandle struct{ execution.Handle }

func (stayingHandle) Detach(context.Context) error { return nil }

func (s *staying) Sandboxes(context.Context) ([]execution.SandboxInfo, error) {
	return []execution.SandboxInfo{{ID: "0123456789ab", Name: "box", State: "running"}}, nil
}

func (s *staying) Attach(_ context.Context, id string, opts execution.AttachOptions) (execution.Handle, error) {
	s.modes = append(s.modes, opts.Mode)
	if id != "box" {
		return nil, fmt.Errorf("%w: did you mean box?", execution.ErrNotFound)
	}
	return stayingHandle{s.handle}, nil
}

func (s *staying) Close() error { return nil }

func newStayingApp(t *testing.T, program fake.Program) (*testApp, *staying) {
	t.Helper()
	app := newTestApp(fake.Options{Shell: program})
	h, err := app.backend.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.backend.Close(); err != nil {
			t.Error(err)
		}
	})
	stays := &staying{Backend: app.backend, handle: h}
	app.backends.open = func(context.Context, string, openOptions) (execution.Context, error) { return stays, nil }
	return app, stays
}

// Attaching is shared unless it is to take over, and leaves the sandbox there.
func TestExecLeavesTheSandbox(t *testing.T) {
	t.Parallel()
	app, stays := newStayingApp(t, say("out", 3))
	if code := app.pinfold(t.Context(), "exec", "box", "-c", "line"); code != 3 || app.out.String() != "out" {
		t.Errorf("exit code %d, %q, %q", code, &app.out, &app.errors)
	}
	if code := app.pinfold(t.Context(), "exec", "--take-over", "box", "-c", "line"); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if want := []execution.AttachMode{execution.AttachShared, execution.AttachTakeOver}; fmt.Sprint(stays.modes) != fmt.Sprint(want) {
		t.Errorf("attached as %q", stays.modes)
	}
	if stays.handle.Err() != nil {
		t.Error("the sandbox has gone")
	}
	if code := app.pinfold(t.Context(), "exec", "bux", "-c", "line"); code != 125 || !strings.Contains(app.errors.String(), "did you mean box?") {
		t.Errorf("exit code %d, %q", code, &app.errors)
	}
}

// parseExec is the command that a command line of exec stands for, or what is
// wrong with it.
func parseExec(args []string) string {
	var flags commandFlags
	set := pflag.NewFlagSet("exec", pflag.ContinueOnError)
	set.SetInterspersed(false)
	flags.register(set)
	set.BoolVarP(&flags.detach, "detach", "d", false, "")
	err := set.Parse(args)
	if err == nil {
		args, err = flagsAfterFirst(set, set.Args())
	}
	var p *plan
	if err == nil {
		p, err = flags.execPlan(args, set.Changed, hostEnv)
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintln(p.command.Args, p.command.Shell, p.attach.id)
}

// The flags of exec stand before the sandbox or behind it, and end at the
// command.
func TestExecFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"box -- a -c b":       "[a -c b]  box\n",
		"box a -c b":          "[a -c b]  box\n",
		"box -c line":         "[] line box\n",
		"-c line box":         "[] line box\n",
		"-w /d box -c line":   "[] line box\n",
		"box -w /d -- a":      "[a]  box\n",
		"-- box a":            "[a]  box\n",
		"-- box -- a":         "[-- a]  box\n",
		"box -c line more":    `-c takes one argument, the whole line, but "more" follows it; put the line in quotes`,
		"box":                 "no command; want 'pinfold exec [flags] ID -- CMD [ARG…]' or 'pinfold exec ID -c LINE'",
		"box -d -t a":         "-d and -t exclude each other: a task has no terminal; 'pinfold shell ID' opens one later",
		"box --json -t -- a":  "--json and -t exclude each other: a terminal's output is not captured; leave one out",
		"box --no-such-flag":  "unknown flag: --no-such-flag",
		"box -d -i -- a":      "-d and -i exclude each other: a task reads end of file; leave one out",
		"box -c line -e =val": "--env: an entry has no name before its value; want NAME=value or NAME",
	} {
		got := parseExec(strings.Fields(args))
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// What a task has written is shown from its last lines on, and what is missing
// is said.
func TestLogs(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	app, stays := newStayingApp(t, func(_ context.Context, p *fake.Proc) int {
		for i := range lines {
			_, _ = fmt.Fprintf(p.Stdout, "line %06d\n", i)
		}
		_, _ = io.WriteString(p.Stderr, "one\ntwo\nthree") // without a line break at the end
		return 0
	})
	task, err := stays.handle.StartTask(t.Context(), execution.Command{Shell: "line"}, execution.TaskOptions{Keep: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	info, err := task.Wait(t.Context())
	if err != nil || info.Stdout.Dropped == 0 {
		t.Fatal(info, err)
	}
	for _, row := range []struct {
		args           []string
		stdout, stderr string
	}{
		{[]string{"--tail", "2"}, "line 199998\nline 199999\n", "two\nthree"},
		{[]string{"--tail", "0"}, "", ""},
		{[]string{"-n", "1", "--stderr"}, "", "three"},
		{[]string{"-n", "100", "--stderr", "-f"}, "", "one\ntwo\nthree"},
		{[]string{"--since-offset", "-12", "--stdout"}, "line 199999\n", ""},
		{[]string{"--since-offset", "4", "--stderr"}, "", "two\nthree"},
	} {
		app.out.Reset()
		app.errors.Reset()
		code := app.pinfold(t.Context(), append([]string{"logs", "box"}, row.args...)...)
		if code != 0 || app.out.String() != row.stdout || app.errors.String() != row.stderr {
			t.Errorf("%q: exit code %d, %q, %q", row.args, code, &app.out, &app.errors)
		}
	}

	// Lines of the end that is kept are found across many reads.
	app.out.Reset()
	if code := app.pinfold(t.Context(), "logs", "box", "--stdout", "--tail", "20000"); code != 0 {
		t.Errorf("exit code %d, %q", code, &app.errors)
	}
	if got := app.out.String(); len(got) != 20000*12 || !strings.HasPrefix(got, "line 180000\n") {
		t.Errorf("%d bytes from %.12q on", len(got), got)
	}

	// More lines than that: what is kept of the end, and no more.
	app.out.Reset()
	if code := app.pinfold(t.Context(), "logs", "box", "--stdout", "--tail", "100000"); code != 0 {
		t.Errorf("exit code %d, %q", code, &app.errors)
	}
	if got := app.out.String(); !strings.HasSuffix(got, "line 199999\n") || strings.HasPrefix(got, "line 000000\n") {
		t.Errorf("%d bytes from %.12q on", len(got), got)
	}

	// All of it: the start, the end, and a word on what is missing.
	app.out.Reset()
	app.errors.Reset()
	if code := app.pinfold(t.Context(), "logs", "box", "--stdout"); code != 0 {
		t.Errorf("exit code %d, %q", code, &app.errors)
	}
	said := fmt.Sprintf("pinfold: %d bytes of stdout are not kept\n", info.Stdout.Dropped)
	if got := int64(app.out.Len()); got+info.Stdout.Dropped != info.Stdout.Bytes || app.errors.String() != said {
		t.Errorf("%d bytes, and said %q, want %q", got, &app.errors, said)
	}
}

// The state and the time of a task are for people.
func TestTaskTable(t *testing.T) {
	t.Parallel()
	app := newTestApp(fake.Options{})
	now := time.Now()
	err := app.printTasks([]execution.TaskInfo{
		{ID: "task-1", Args: []string{"make", "all\x1b[2J"}, Started: now.Add(-2 * time.Hour), Ended: now.Add(-time.Hour), Status: execution.ExitStatus{Ending: execution.EndingExited, Code: 2}},
		{ID: "task-2", Shell: strings.Repeat("é", 80), Started: now.Add(-time.Minute), Stdout: execution.OutputInfo{Bytes: 1 << 20}},
		{ID: "task-3", Shell: "x", Started: now, Ended: now, Status: execution.ExitStatus{Ending: execution.EndingSignalled, Signal: execution.SIGHUP}},
		{ID: "task-4", Shell: "x", Started: now, Ended: now, Status: execution.ExitStatus{Ending: execution.EndingOutOfMemory}},
	}, now)
	want := "TASK     STATE                AGE   RAN   OUTPUT    COMMAND\n" +
		"task-1   exited (2)           2h    1h    0 bytes   make all\\x1b[2J\n" +
		"task-2   running              1m    1m    1 MiB     " + strings.Repeat("é", 59) + "…\n" +
		"task-3   signalled (SIGHUP)   0s    0s    0 bytes   x\n" +
		"task-4   out of memory        0s    0s    0 bytes   x\n"
	if err != nil || app.out.String() != want {
		t.Errorf("%v, table is\n%s\nwant\n%s", err, &app.out, want)
	}
}

func TestPathsInSandboxes(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"box:/a": "box /a", "box:a:b": "box a:b", "box:": "box .", "./box:a": "", "/box:a": "", "-": "", "box": "", "a/b:c": "",
	} {
		p, ok := insidePath(arg)
		if got := strings.TrimSpace(p.id + " " + p.path); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", arg, got, ok)
		}
	}
}

// Waiting that is given up has a timeout's exit code.
func TestWaitTimeout(t *testing.T) {
	t.Parallel()
	app, stays := newStayingApp(t, stubborn)
	task, err := stays.handle.StartTask(t.Context(), execution.Command{Shell: "line"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if code := app.pinfold(t.Context(), "wait", "--timeout", "10ms", "box", "task-1"); code != 124 {
		t.Errorf("exit code %d, %q", code, &app.errors)
	}
	if code := app.pinfold(t.Context(), "kill", "box", "task-1", "task-7"); code != 125 || app.out.String() != "task-1\n" {
		t.Errorf("exit code %d, %q, %q", code, &app.out, &app.errors)
	}
	if info, err := task.Wait(t.Context()); err != nil || info.Status.Ending != execution.EndingCancelled {
		t.Error(info, err)
	}
	if _, err := stays.handle.Task(t.Context(), "task-7"); !errors.Is(err, execution.ErrNotFound) {
		t.Error(err)
	}
}
