package fake

import (
	"context"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/tasks"
)

// newTasks makes what keeps track of the sandbox's tasks.
func (h *Handle) newTasks() *tasks.Registry {
	start := func(ctx context.Context, cmd execution.Command) (execution.Process, error) {
		j, err := h.start(ctx, cmd)
		if err != nil {
			return nil, h.fail("start task", "", err)
		}
		return j, nil
	}
	return tasks.New(start, tasks.Options{Backend: h.backend.Type(), Handle: h.id, InMemory: true})
}

// StartTask starts a command in the background.
func (h *Handle) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	ctx, leave, err := h.enter(ctx, Op{Name: "start task", Command: &cmd})
	if err != nil {
		return nil, h.fail("start task", "", err)
	}
	defer leave()
	t, err := h.tasks.StartTask(ctx, cmd, opts)
	if err != nil {
		return nil, err
	}
	return task{t, h}, nil
}

// Task finds a task.
func (h *Handle) Task(ctx context.Context, id string) (execution.Task, error) {
	ctx, leave, err := h.enter(ctx, Op{Name: "find task"})
	if err != nil {
		return nil, h.fail("find task", "", err)
	}
	defer leave()
	t, err := h.tasks.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	return task{t, h}, nil
}

// Tasks lists the tasks.
func (h *Handle) Tasks(ctx context.Context) iter.Seq2[execution.TaskInfo, error] {
	return func(yield func(execution.TaskInfo, error) bool) {
		ctx, leave, err := h.enter(ctx, Op{Name: "list tasks"})
		if err != nil {
			yield(execution.TaskInfo{}, h.fail("list tasks", "", err))
			return
		}
		defer leave()
		h.tasks.Tasks(ctx)(yield)
	}
}

// Events tells what happens. A pause does not end it.
func (h *Handle) Events(ctx context.Context) iter.Seq2[execution.Event, error] {
	return func(yield func(execution.Event, error) bool) {
		if err := h.fault(ctx, Op{Name: "events"}); err != nil {
			yield(execution.Event{}, h.fail("events", "", err))
			return
		}
		h.tasks.Events(ctx)(yield)
	}
}

// NextEvent is the step of which Events is made; see [tasks.Registry].
func (h *Handle) NextEvent(ctx context.Context, told uint64) (event execution.Event, seq uint64, err error) {
	if err := h.fault(ctx, Op{Name: "events"}); err != nil {
		return event, 0, h.fail("events", "", err)
	}
	return h.tasks.NextEvent(ctx, told)
}

// A task is one of the registry's, whose calls can be made to fail.
type task struct {
	execution.Task
	handle *Handle
}

// Info tells of the task.
func (t task) Info(ctx context.Context) (execution.TaskInfo, error) {
	ctx, leave, err := t.handle.enter(ctx, Op{Name: "look at task"})
	if err != nil {
		return execution.TaskInfo{}, t.handle.fail("look at task", "", err)
	}
	defer leave()
	return t.Task.Info(ctx)
}

// OpenOutput reads the task's output.
func (t task) OpenOutput(ctx context.Context, stream execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
	_, leave, err := t.handle.enter(ctx, Op{Name: "read output"})
	if err != nil {
		return nil, t.handle.fail("read output", "", err)
	}
	defer leave()
	return t.Task.OpenOutput(ctx, stream, opts)
}
