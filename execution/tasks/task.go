package tasks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// idPrefix and a number make a task's ID.
const idPrefix = "task-"

func taskID(number int64) string { return idPrefix + strconv.FormatInt(number, 10) }

// A task is one that was started. It is an [execution.Task].
type task struct {
	registry *Registry
	number   int64
	args     []string
	shell    string
	dir      string
	started  time.Time
	out      [2]stream
	done     chan struct{} // closed when the status is final

	// Guarded by Registry.mu.
	ended  time.Time
	status execution.ExitStatus
	proc   execution.Process // nil when nothing of it is alive
	cancel func()            // ends follow; nil when that has ended
}

// newTask makes a task that keeps so many bytes of output.
func newTask(r *Registry, cmd execution.Command, keep int64) *task {
	t := &task{registry: r, dir: cmd.Dir, done: make(chan struct{})}
	t.args, t.shell = describe(cmd)
	each := keep / 2
	for i := range t.out {
		t.out[i] = stream{spool: r.spool, head: each - each/2, tail: each / 2}
	}
	return t
}

// describe is as much of a command as is told of it.
func describe(cmd execution.Command) (args []string, shell string) {
	shell = strings.Clone(cmd.Shell[:min(len(cmd.Shell), execution.MaxTaskCommand)])
	room := execution.MaxTaskCommand
	for _, arg := range cmd.Args {
		if room <= 0 {
			break
		}
		args = append(args, strings.Clone(arg[:min(len(arg), room)]))
		room -= len(arg) + 1
	}
	return args, shell
}

// follow waits for the end of a task.
func (t *task) follow(ctx context.Context, proc execution.Process) {
	defer t.registry.crew.Done()
	status, err := proc.Wait(ctx)
	if status.Ending == "" && ctx.Err() != nil {
		return // the handle has ended
	}
	if status.Ending == "" {
		status.Ending, status.Code = execution.EndingLost, -1
		status.Reason = fmt.Sprintf("nobody knows how it ended: %v", err)
	}
	for i := range t.out {
		if err := t.out[i].failure(); err != nil && status.Ending == execution.EndingCancelled {
			status.Reason = fmt.Sprintf("its output could not be kept: %v", err)
		}
	}
	status.Leftovers = slices.Clone(status.Leftovers)
	for i := range t.out {
		t.out[i].seal() // what is taken from ended tasks is taken under the registry's lock
	}
	t.registry.finish(t, status)
	for i := range t.out {
		t.out[i].end()
	}
	close(t.done)
}

// kept is how many bytes of the spool the task takes, and empty gives them up.
func (t *task) kept() int64 { return t.out[0].kept() + t.out[1].kept() }

func (t *task) empty() {
	t.out[0].empty()
	t.out[1].empty()
}

// ID is execution.Task's.
func (t *task) ID() string { return taskID(t.number) }

func (t *task) info() execution.TaskInfo {
	t.registry.mu.Lock()
	info := execution.TaskInfo{
		ID: t.ID(), Args: slices.Clone(t.args), Shell: t.shell, Dir: t.dir,
		Started: t.started, Ended: t.ended, Status: t.status,
	}
	t.registry.mu.Unlock()
	info.Status.Leftovers = slices.Clone(info.Status.Leftovers)
	info.Stdout, info.Stderr = t.out[0].info(), t.out[1].info()
	return info
}

// Info is execution.Task's.
func (t *task) Info(ctx context.Context) (execution.TaskInfo, error) {
	if err := cmp.Or(t.registry.failure(), ctx.Err()); err != nil {
		return execution.TaskInfo{}, t.registry.fail("look at task", err)
	}
	return t.info(), nil
}

// Wait is execution.Task's.
func (t *task) Wait(ctx context.Context) (execution.TaskInfo, error) {
	select {
	case <-t.done:
	default:
		select {
		case <-t.done:
		case <-t.registry.gone:
		case <-ctx.Done():
			return execution.TaskInfo{}, t.registry.fail("wait for task", ctx.Err())
		}
	}
	if err := t.registry.failure(); err != nil {
		return execution.TaskInfo{}, t.registry.fail("wait for task", err)
	}
	return t.info(), nil
}

// process is what runs of the task: nil when nothing does.
func (t *task) process() (proc execution.Process, ended bool, err error) {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	return t.proc, t.status.Ending != "", t.registry.err
}

// Signal is execution.Task's.
func (t *task) Signal(ctx context.Context, sig execution.Signal) error {
	proc, ended, err := t.process()
	switch {
	case err != nil:
	case !sig.Valid():
		err = fmt.Errorf("%w: signal %d: want 1 to 64", execution.ErrInvalid, int(sig))
	case ended:
		err = execution.ErrFinished
	default:
		return proc.Signal(ctx, sig)
	}
	return t.registry.fail("signal task", err)
}

// Kill is execution.Task's. It returns once the end is known, too.
func (t *task) Kill(ctx context.Context) error {
	proc, _, err := t.process()
	if err != nil {
		return t.registry.fail("kill task", err)
	}
	if proc == nil {
		return nil
	}
	if err := proc.Kill(ctx); err != nil {
		return err
	}
	select {
	case <-t.done:
	case <-t.registry.gone:
	case <-ctx.Done(): // it is dead all the same
	}
	return nil
}
