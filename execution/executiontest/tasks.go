package executiontest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskCases() []check {
	return slices.Concat(taskStartCases(), taskOutputCases(), taskEndCases(), taskEventCases())
}

func taskStartCases() []check {
	return []check{
		{"ids_in_order_of_start", taskIDs},
		{"info", taskInfo},
		{"found_by_id", taskFound},
		{"unknown_ids", taskUnknown},
		{"long_commands_are_cut", taskCut},
		{"no_streams_of_the_callers", taskStreams},
		{"start_fails_as_a_command_does", taskStartFails},
		{"start_context_bounds_the_start", taskStartContext},
		{"stdin_is_empty", taskStdin},
		{"dir_and_env", taskDirEnv},
		{"many_at_once", taskManyAtOnce},
		{"many_in_sequence", taskManyInSequence},
		{"block_nobody", taskBlockNobody},
	}
}

func taskIDs(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.wantTasks(ctx, h)
	first := e.task(ctx, h, Sleep)
	second := e.task(ctx, h, Print, "", "", "0")
	if _, err := h.StartTask(ctx, execution.Command{Args: []string{"/no/such/program"}}, execution.TaskOptions{}); err == nil {
		e.Fatal("a program that is missing was started")
	}
	third := e.task(ctx, h, Sleep)
	for i, t := range []execution.Task{first, second, third} {
		if want := []string{"task-1", "task-2", "task-3"}[i]; t.ID() != want {
			e.Errorf("the task that was started as number %d is %q, want %q", i+1, t.ID(), want)
		}
	}
	e.killTask(ctx, third)
	e.killTask(ctx, first)
	e.taskEnd(ctx, second)
	e.wantTasks(ctx, h, "task-1", "task-2", "task-3")
	if t := e.task(ctx, h, Print, "", "", "0"); t.ID() != "task-4" {
		e.Errorf("after three tasks have ended the next one is %q, want task-4", t.ID())
	}
	other := e.sandbox(ctx)
	if t := e.task(ctx, other, Print, "", "", "0"); t.ID() != "task-1" {
		e.Errorf("the first task of another sandbox is %q, want task-1", t.ID())
	}
}

func taskInfo(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.run(ctx, h, MakeDir, "sub")
	cmd := e.command(Trap)
	cmd.Dir = "sub"
	t := e.startTask(ctx, h, cmd, execution.TaskOptions{})
	e.follow(ctx, t, "ready\n")
	info := e.taskInfo(ctx, t)
	if info.ID != t.ID() || info.Shell != cmd.Shell || !slices.Equal(info.Args, cmd.Args) || info.Dir != "sub" {
		e.Errorf("of the command %s in sub is told %+v", describe(cmd), info)
	}
	if !info.Running() || info.State() != "running" || !info.Ended.IsZero() || info.Started.IsZero() {
		e.Errorf("a task that runs is told as %+v", info)
	}
	if info.Stdout != (execution.OutputInfo{Bytes: 6}) || info.Stderr != (execution.OutputInfo{}) {
		e.Errorf("of 6 bytes of output are told %+v and %+v", info.Stdout, info.Stderr)
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	end := e.taskEnd(ctx, t)
	e.wantExit(end.Status, 7)
	if end.Ended.Before(end.Started) || !end.Started.Equal(info.Started) {
		e.Errorf("started at %v, at first told as %v, ended at %v", end.Started, info.Started, end.Ended)
	}
	if end.Stdout.Bytes != end.Status.StdoutBytes || end.Stdout.Bytes != int64(len("ready\nterm\n")) {
		e.Errorf("told of %+v, in the status %d bytes", end.Stdout, end.Status.StdoutBytes)
	}
}

func taskFound(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	ended, running := e.task(ctx, h, Print, "text", "", "5"), e.task(ctx, h, Sleep)
	e.taskEnd(ctx, ended)
	for _, t := range []execution.Task{ended, running} {
		found, err := h.Task(ctx, t.ID())
		if err != nil {
			e.Fatalf("Task(%q): %v", t.ID(), err)
		}
		if found.ID() != t.ID() || e.taskInfo(ctx, found).State() != e.taskInfo(ctx, t).State() {
			e.Errorf("%s was found as %+v", t.ID(), e.taskInfo(ctx, found))
		}
	}
	found, _ := h.Task(ctx, ended.ID())
	if got := e.taskOutput(ctx, found, execution.Stdout, execution.OutputOptions{}); got != "text" {
		e.Errorf("the output of a task that was found is %q", got)
	}
	e.wantExit(e.taskEnd(ctx, found).Status, 5)
	found, _ = h.Task(ctx, running.ID())
	e.wantEnding(e.killTask(ctx, found).Status, execution.EndingCancelled)
	e.wantEnding(e.taskInfo(ctx, running).Status, execution.EndingCancelled)
}

func taskUnknown(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	_, err := h.Task(ctx, "task-1")
	e.wantError(err, execution.ErrNotFound, "Task in a sandbox without tasks")
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	for _, id := range []string{"", "1", "task", "task-0", "task-01", "task-2", "task--1", "Task-1", "task-1 ", "\x00", strings.Repeat("task-1", 10_000)} {
		_, err := h.Task(ctx, id)
		e.wantError(err, execution.ErrNotFound, "Task of an unknown ID")
		if text := err.Error(); !strings.Contains(text, "task-1") || len(text) > 2000 {
			e.Errorf("the error for the ID %.40q has %d bytes and should name task-1: %.300s", id, len(text), text)
		}
	}
}

func taskCut(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	long := strings.Repeat("x", 50_000)
	t := e.task(ctx, h, Print, long, "", "0")
	info := e.taskEnd(ctx, t)
	if total := len(info.Shell) + len(strings.Join(info.Args, "")); total > execution.MaxTaskCommand || total < execution.MaxTaskCommand/2 {
		e.Errorf("of a long command %d bytes are told, want %d at most", total, execution.MaxTaskCommand)
	}
	if got := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{}); got != long {
		e.Errorf("the command itself got %d bytes of an argument of %d", len(got), len(long))
	}
}

func taskStreams(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for what, change := range map[string]func(*execution.Command){
		"a Stdin":       func(c *execution.Command) { c.Stdin = strings.NewReader("") },
		"a Stdout":      func(c *execution.Command) { c.Stdout = io.Discard },
		"a Stderr":      func(c *execution.Command) { c.Stderr = io.Discard },
		"bad timeout":   func(c *execution.Command) { c.Timeout = -1 },
		"no command":    func(c *execution.Command) { *c = execution.Command{} },
		"a bad setting": func(c *execution.Command) { c.Env = []string{"NAME"} },
	} {
		cmd := e.command(Print, "", "", "0")
		change(&cmd)
		_, err := h.StartTask(ctx, cmd, execution.TaskOptions{})
		e.wantError(err, execution.ErrInvalid, "StartTask with "+what)
	}
	for _, keep := range []int64{-1, execution.MaxTaskOutput + 1} {
		_, err := h.StartTask(ctx, e.command(Print, "", "", "0"), execution.TaskOptions{Keep: keep})
		e.wantError(err, execution.ErrInvalid, "StartTask with a bad Keep")
	}
	e.wantTasks(ctx, h)
}

func taskStartFails(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Print, "", "", "0")
	cmd.Dir = "no/such/dir"
	_, err := h.StartTask(ctx, cmd, execution.TaskOptions{})
	e.wantError(err, execution.ErrDirNotFound, "StartTask in a missing directory")
	_, err = h.StartTask(ctx, execution.Command{Args: []string{"no-such-program-anywhere"}}, execution.TaskOptions{})
	e.wantError(err, execution.ErrCommandNotFound, "StartTask of a missing program")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.StartTask(ended, e.command(Print, "", "", "0"), execution.TaskOptions{}); !errors.Is(err, context.Canceled) {
		e.Errorf("StartTask with an ended context: %v", err)
	}
	e.wantTasks(ctx, h)
}

func taskStartContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	limited, cancel := context.WithCancel(ctx)
	t := e.startTask(limited, h, e.command(Trap), execution.TaskOptions{})
	e.follow(ctx, t, "ready\n")
	cancel()
	short, stop := context.WithTimeout(ctx, soon)
	defer stop()
	if info, err := t.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("after the end of the context that the task was started with: %+v, %v", info, err)
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal after the end of the context that the task was started with: %v", err)
	}
	e.wantExit(e.taskEnd(ctx, t).Status, 7)
}

func taskStdin(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Cat)
	info := e.taskEnd(ctx, t)
	e.wantExit(info.Status, 0)
	if info.Stdout.Bytes != 0 {
		e.Errorf("a task read %d bytes of input from nowhere", info.Stdout.Bytes)
	}
}

func taskDirEnv(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.run(ctx, h, MakeDir, "sub")
	cmd := e.command(PrintDir)
	cmd.Dir = "sub"
	where := e.startTask(ctx, h, cmd, execution.TaskOptions{})
	cmd = e.command(PrintEnv, "TASK_VARIABLE")
	cmd.Env = []string{"TASK_VARIABLE=a secret"}
	value := e.startTask(ctx, h, cmd, execution.TaskOptions{})
	e.taskEnd(ctx, where)
	e.taskEnd(ctx, value)
	if got, want := e.taskOutput(ctx, where, execution.Stdout, execution.OutputOptions{}), e.run(ctx, h, PrintDir); got != strings.TrimSuffix(want, "\n")+"/sub\n" {
		e.Errorf("a task in sub of %q ran in %q", want, got)
	}
	if got := e.taskOutput(ctx, value, execution.Stdout, execution.OutputOptions{}); got != "a secret\n" {
		e.Errorf("a variable of a task is %q", got)
	}
}

func taskManyAtOnce(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	n := quantity(120, 50) // each is up to three processes, and a sandbox has 512
	var all []execution.Task
	var ids []string
	for range n {
		t := e.task(ctx, h, Trap)
		all, ids = append(all, t), append(ids, t.ID())
	}
	for _, t := range all {
		e.follow(ctx, t, "ready\n")
	}
	e.wantTasks(ctx, h, ids...)
	for _, info := range e.tasks(ctx, h) {
		if !info.Running() {
			e.Errorf("%s is %s, and should run with %d others", info.ID, info.State(), n-1)
		}
	}
	for _, t := range all {
		if err := t.Signal(ctx, execution.SIGTERM); err != nil {
			e.Errorf("Signal of %s: %v", t.ID(), err)
		}
	}
	for _, t := range all {
		e.wantExit(e.taskEnd(ctx, t).Status, 7)
	}
	e.wantTasks(ctx, h, ids...)
}

func taskManyInSequence(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	var ids []string
	for range quantity(1000, 100) {
		t := e.task(ctx, h, Print, "x", "", "127")
		info := e.taskEnd(ctx, t)
		if info.Status.Ending != execution.EndingExited || info.Status.Code != 127 || info.Stdout.Bytes != 1 {
			e.Fatalf("%s ended as %v with %d bytes of output, want code 127 and one", t.ID(), info.Status, info.Stdout.Bytes)
		}
		ids = append(ids, t.ID())
	}
	e.wantTasks(ctx, h, ids...)
	for _, id := range []string{ids[0], ids[len(ids)-1]} {
		t, err := h.Task(ctx, id)
		if err != nil {
			e.Fatalf("Task(%q): %v", id, err)
		}
		if got := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{}); got != "x" {
			e.Errorf("the output of %s of many is %q, want \"x\"", id, got)
		}
	}
}

// taskBlockNobody has tasks that are stuck, that flood, and that nobody reads.
func taskBlockNobody(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Flood)
	cmd.OutputLimit = 64 << 20 // a safety catch
	stuck, flood := e.task(ctx, h, Sleep), e.startTask(ctx, h, cmd, execution.TaskOptions{Keep: 64 << 10})
	for range 10 {
		e.run(ctx, h, Print, "x", "", "0")
		e.wantExit(e.taskEnd(ctx, e.task(ctx, h, Print, "x", "", "0")).Status, 0)
	}
	e.wantTasksEnded(ctx, h, 10)
	if err := flood.Kill(ctx); err != nil {
		e.Errorf("Kill of a task that floods: %v", err)
	}
	e.killTask(ctx, stuck)
}

func (e *env) wantTasksEnded(ctx context.Context, h execution.Handle, n int) {
	e.Helper()
	ended := 0
	for _, info := range e.tasks(ctx, h) {
		if info.State() == "exited" {
			ended++
		}
	}
	if ended != n {
		e.Errorf("%d tasks are told to have exited, want %d", ended, n)
	}
}
