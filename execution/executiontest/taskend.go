package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskEndCases() []check {
	return []check{
		{"endings", taskEndings},
		{"closed_output_is_no_end", taskMute},
		{"own_timeout", taskTimeout},
		{"own_timeout_kills_only_its_tree", taskTimeoutOnlyOwn},
		{"wait_gives_up", taskWaitGivesUp},
		{"wait_by_many", taskWaitMany},
		{"signal", taskSignal},
		{"kill_tree", taskKillTree},
		{"kill_what_has_ended", taskKillEnded},
		{"leftovers", taskLeftovers},
		{"leftovers_that_write_for_ever", taskLeftoverFlood},
		{"end_with_destroy", taskDestroy},
		{"end_with_the_sandbox", taskDeath},
	}
}

func taskEndings(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	limited := e.command(Flood)
	limited.OutputLimit = 1000
	timed := e.command(Sleep)
	timed.Timeout = 100 * time.Millisecond
	killed := e.task(ctx, h, Sleep)
	for _, row := range []struct {
		task execution.Task
		want execution.Ending
		code int
	}{
		{e.task(ctx, h, Print, "", "", "0"), execution.EndingExited, 0},
		{e.task(ctx, h, Print, "", "", "42"), execution.EndingExited, 42},
		{e.task(ctx, h, Raise, "9"), execution.EndingSignalled, -1},
		{e.startTask(ctx, h, limited, execution.TaskOptions{}), execution.EndingOutputLimit, -1},
		{e.startTask(ctx, h, timed, execution.TaskOptions{}), execution.EndingTimedOut, -1},
		{killed, execution.EndingCancelled, -1},
	} {
		if row.task == killed {
			e.killTask(ctx, killed)
		}
		info := e.taskEnd(ctx, row.task)
		if info.Status.Ending != row.want || info.Status.Code != row.code || info.State() != string(row.want) {
			e.Errorf("%s ended as %+v, want %q with code %d", info.ID, info.Status, row.want, row.code)
		}
		again := e.taskInfo(ctx, row.task)
		if again.Status.Ending != row.want || !again.Ended.Equal(info.Ended) {
			e.Errorf("later %s is told as %+v", info.ID, again)
		}
	}
}

// taskMute has a task that is silent: closed streams, no input, some time.
func taskMute(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Mute, "9")
	if got := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true}); got != "" {
		e.Errorf("a task that is silent wrote %q", got)
	}
	info := e.taskInfo(ctx, t)
	if info.Running() {
		e.Error("following has ended, and the task is told to run")
	}
	e.wantExit(info.Status, 9)
}

func taskTimeout(ctx context.Context, e *env) {
	script, size := Group, 2
	if e.can().ProvenKill {
		script, size = Tree, TreeSize
	}
	h := e.sandbox(ctx)
	cmd := e.command(script)
	cmd.Timeout = 2 * time.Second
	t, pids := e.growTask(ctx, h, cmd, size)
	info := e.taskEnd(ctx, t)
	e.wantDead(ctx, h, pids, "after the task's timeout")
	e.wantEnding(info.Status, execution.EndingTimedOut)
}

func taskTimeoutOnlyOwn(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	beside, pids := e.growTask(ctx, h, e.command(Group), 2)
	cmd := e.command(Sleep)
	cmd.Timeout = 100 * time.Millisecond
	e.wantEnding(e.taskEnd(ctx, e.startTask(ctx, h, cmd, execution.TaskOptions{})).Status, execution.EndingTimedOut)
	e.wantAlive(ctx, h, pids, "after the timeout of another task")
	if info := e.taskInfo(ctx, beside); !info.Running() {
		e.Errorf("a task ended as %v with the timeout of another", info.Status)
	}
	e.killTask(ctx, beside)
	e.wantDead(ctx, h, pids, "after Kill")
}

func taskWaitGivesUp(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	e.follow(ctx, t, "ready\n")
	limited, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if info, err := t.Wait(limited); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("Wait whose context ended: %+v, %v", info, err)
	}
	if info := e.taskInfo(ctx, t); !info.Running() {
		e.Errorf("a task ended as %v with the wait for it", info.Status)
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Errorf("Signal: %v", err)
	}
	e.wantExit(e.taskEnd(ctx, t).Status, 7)
}

func taskWaitMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	e.follow(ctx, t, "ready\n")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if info, err := t.Wait(ctx); err != nil || info.Status.Code != 7 {
				e.Errorf("Wait by one of many: %+v, %v", info, err)
			}
		})
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Errorf("Signal: %v", err)
	}
	group.Wait()
	for range 3 { // long after the end
		e.wantExit(e.taskEnd(ctx, t).Status, 7)
	}
}

func taskSignal(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	e.follow(ctx, t, "ready\n")
	for _, sig := range []execution.Signal{0, -1, 65} {
		e.wantError(t.Signal(ctx, sig), execution.ErrInvalid, fmt.Sprintf("Signal %d", int(sig)))
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	e.wantExit(e.taskEnd(ctx, t).Status, 7)
	e.wantError(t.Signal(ctx, execution.SIGTERM), execution.ErrFinished, "Signal after the end of the task")
	second := e.task(ctx, h, Sleep)
	if err := second.Signal(ctx, execution.SIGKILL); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	info := e.taskEnd(ctx, second)
	e.wantEnding(info.Status, execution.EndingSignalled)
	if info.Status.Signal != execution.SIGKILL {
		e.Errorf("the signal is %v", info.Status.Signal)
	}
}

func taskKillTree(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	t, pids := e.growTask(ctx, h, e.command(Tree), TreeSize)
	other, spared := e.growTask(ctx, h, e.command(Group), 2)
	e.wantAlive(ctx, h, pids, "before the kill")
	if err := t.Kill(ctx); err != nil {
		e.Fatalf("Kill: %v", err)
	}
	e.wantDead(ctx, h, pids, "when Kill returned")
	e.wantAlive(ctx, h, spared, "after the kill of another task")
	e.wantEnding(e.taskEnd(ctx, t).Status, execution.EndingCancelled)
	e.killTask(ctx, other)
}

func taskKillEnded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, t := range []execution.Task{e.task(ctx, h, Print, "", "", "4"), e.task(ctx, h, Sleep)} {
		before := execution.TaskInfo{}
		if t.ID() == "task-1" {
			before = e.taskEnd(ctx, t)
		} else {
			before = e.killTask(ctx, t)
		}
		for range 2 {
			if err := t.Kill(ctx); err != nil {
				e.Errorf("Kill of a task that has ended: %v", err)
			}
		}
		if after := e.taskInfo(ctx, t); after.State() != before.State() || after.Status.Code != before.Status.Code {
			e.Errorf("a task that ended as %v is told as %v after Kill", before.Status, after.Status)
		}
	}
}

func taskLeftovers(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Leave, "text")
	info := e.taskEnd(ctx, t)
	e.wantExit(info.Status, 3)
	line, text, _ := strings.Cut(e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true}), "\n")
	pids := e.pids(line)
	if len(pids) != 1 || text != "text" {
		e.Fatalf("the task wrote %q and %q, want a process ID and \"text\"", line, text)
	}
	if !slices.ContainsFunc(info.Status.Leftovers, func(p execution.ProcessInfo) bool { return p.PID == pids[0] }) {
		e.Errorf("process %d was left behind and is not among the leftovers %v", pids[0], info.Status.Leftovers)
	}
	e.wantAlive(ctx, h, pids, "after the task's end")
	if err := t.Kill(ctx); err != nil {
		e.Errorf("Kill of a task's leftovers: %v", err)
	}
	e.wantDead(ctx, h, pids, "after Kill")
	e.wantExit(e.taskInfo(ctx, t).Status, 3)
}

// taskLeftoverFlood has a child hold the output of a task that has ended, and
// write to it for ever.
func taskLeftoverFlood(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(LeaveFlood)
	cmd.Timeout = time.Hour
	t := e.startTask(ctx, h, cmd, execution.TaskOptions{Keep: 64 << 10})
	r := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
	if _, err := io.Copy(io.Discard, r); err != nil {
		e.Errorf("following: %v", err)
	}
	info := e.taskEnd(ctx, t)
	e.wantExit(info.Status, 3)
	if len(info.Status.Leftovers) == 0 {
		e.Error("a child that writes for ever is not among the leftovers")
	}
	if after := e.taskInfo(ctx, t); after.Stdout != info.Stdout {
		e.Errorf("the output of what is left running is kept: it grew from %+v to %+v", info.Stdout, after.Stdout)
	}
	if err := t.Kill(ctx); err != nil {
		e.Errorf("Kill: %v", err)
	}
}

// pendingOnTasks has calls wait that only the end of the sandbox lets go, and
// returns what awaits them.
func (e *env) pendingOnTasks(ctx context.Context, t execution.Task, target error) (awaitAll func()) {
	e.Helper()
	r := e.follow(ctx, t, "\n")
	var group sync.WaitGroup
	group.Go(func() {
		_, err := io.Copy(io.Discard, r)
		if !errors.Is(err, target) {
			e.Errorf("following ended with %v, want %v", err, target)
		}
	})
	group.Go(func() {
		if info, err := t.Wait(ctx); !errors.Is(err, target) {
			e.Errorf("Wait for a task ended with %+v, %v, want %v", info, err, target)
		}
	})
	return group.Wait
}

// wantTasksGone fails the case unless nothing about tasks works any more.
func (e *env) wantTasksGone(ctx context.Context, h execution.Handle, t execution.Task, target error) {
	e.Helper()
	_, err := h.StartTask(ctx, e.command(Print, "", "", "0"), execution.TaskOptions{})
	e.wantError(err, target, "StartTask")
	_, err = h.Task(ctx, t.ID())
	e.wantError(err, target, "Task")
	yields := 0
	for _, err := range h.Tasks(ctx) {
		yields++
		e.wantError(err, target, "Tasks")
	}
	if yields != 1 {
		e.Errorf("Tasks yields %d times, want one error", yields)
	}
	_, err = t.Info(ctx)
	e.wantError(err, target, "Task.Info")
	_, err = t.Wait(ctx)
	e.wantError(err, target, "Task.Wait")
	_, err = t.OpenOutput(ctx, execution.Stdout, execution.OutputOptions{})
	e.wantError(err, target, "Task.OpenOutput")
}

func taskDestroy(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t, pids := e.growTask(ctx, h, e.command(Group), 2)
	ended := e.task(ctx, h, Leave, "")
	e.taskEnd(ctx, ended)
	pids = append(pids, e.pids(e.taskOutput(ctx, ended, execution.Stdout, execution.OutputOptions{}))...)
	awaitAll := e.pendingOnTasks(ctx, t, execution.ErrClosed)
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	awaitAll()
	for _, pid := range pids {
		if e.harness.Alive != nil && e.harness.Alive(e, h, pid) {
			e.Errorf("process %d of a task is alive after Destroy", pid)
		}
	}
	e.wantTasksGone(ctx, h, t, execution.ErrClosed)
	e.wantTasksGone(ctx, h, ended, execution.ErrClosed)
}

func taskDeath(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	t := e.task(ctx, h, Trap)
	awaitAll := e.pendingOnTasks(ctx, t, execution.ErrLost)
	e.killSandbox(h)
	awaitAll()
	await(ctx, e, h.Done(), "Done is closed")
	e.wantTasksGone(ctx, h, t, execution.ErrLost)
}
