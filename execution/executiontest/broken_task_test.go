package executiontest_test

import (
	"context"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
)

// taskHooks are where the tasks of a world can be broken. A hook that is nil
// lets the call through.
type taskHooks struct {
	start  func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error)
	find   func(ctx context.Context, h execution.Handle, id string) (execution.Task, error)
	list   func(all []execution.TaskInfo) []execution.TaskInfo
	events func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error]

	id     func(t execution.Task) string
	info   func(info execution.TaskInfo) execution.TaskInfo // of Info and of Wait
	wait   func(ctx context.Context, t execution.Task) (execution.TaskInfo, error)
	open   func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error)
	signal func(ctx context.Context, t execution.Task, sig execution.Signal) error
	kill   func(ctx context.Context, t *brokenTask) error
}

func (h *brokenHandle) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	var t execution.Task
	var err error
	if h.w.task.start != nil {
		t, err = h.w.task.start(ctx, h, cmd, opts)
	} else {
		t, err = h.Handle.StartTask(ctx, cmd, opts)
	}
	return h.wrapTask(t, err)
}

func (h *brokenHandle) Task(ctx context.Context, id string) (execution.Task, error) {
	if h.w.task.find != nil {
		return h.wrapTask(h.w.task.find(ctx, h.Handle, id))
	}
	return h.wrapTask(h.Handle.Task(ctx, id))
}

func (h *brokenHandle) wrapTask(t execution.Task, err error) (execution.Task, error) {
	if err != nil {
		return nil, err
	}
	return &brokenTask{Task: t, handle: h}, nil
}

func (h *brokenHandle) Tasks(ctx context.Context) iter.Seq2[execution.TaskInfo, error] {
	if h.w.task.list == nil {
		return h.Handle.Tasks(ctx)
	}
	return func(yield func(execution.TaskInfo, error) bool) {
		var all []execution.TaskInfo
		for info, err := range h.Handle.Tasks(ctx) {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		for _, info := range h.w.task.list(all) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (h *brokenHandle) Events(ctx context.Context) iter.Seq2[execution.Event, error] {
	if h.w.task.events != nil {
		return h.w.task.events(ctx, h)
	}
	return h.Handle.Events(ctx)
}

type brokenTask struct {
	execution.Task
	handle *brokenHandle
}

func (t *brokenTask) ID() string {
	if id := t.handle.w.task.id; id != nil {
		return id(t.Task)
	}
	return t.Task.ID()
}

func (t *brokenTask) Info(ctx context.Context) (execution.TaskInfo, error) {
	return t.change(t.Task.Info(ctx))
}

func (t *brokenTask) change(info execution.TaskInfo, err error) (execution.TaskInfo, error) {
	if change := t.handle.w.task.info; err == nil && change != nil {
		info = change(info)
	}
	return info, err
}

func (t *brokenTask) Wait(ctx context.Context) (execution.TaskInfo, error) {
	if wait := t.handle.w.task.wait; wait != nil {
		return wait(ctx, t.Task)
	}
	return t.change(t.Task.Wait(ctx))
}

func (t *brokenTask) OpenOutput(ctx context.Context, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
	if open := t.handle.w.task.open; open != nil {
		return open(ctx, t.Task, s, opts)
	}
	return t.Task.OpenOutput(ctx, s, opts)
}

func (t *brokenTask) Signal(ctx context.Context, sig execution.Signal) error {
	if signal := t.handle.w.task.signal; signal != nil {
		return signal(ctx, t.Task, sig)
	}
	return t.Task.Signal(ctx, sig)
}

func (t *brokenTask) Kill(ctx context.Context) error {
	if kill := t.handle.w.task.kill; kill != nil {
		return kill(ctx, t)
	}
	return t.Task.Kill(ctx)
}

// A brokenReader is an output reader that reads otherwise.
type brokenReader struct {
	execution.OutputReader
	read func(r execution.OutputReader, p []byte) (int, error)
}

func (r brokenReader) Read(p []byte) (int, error) { return r.read(r.OutputReader, p) }

// reads breaks the readers of a world.
func reads(read func(r execution.OutputReader, p []byte) (int, error)) func(*world) {
	return func(w *world) {
		w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
			r, err := t.OpenOutput(ctx, s, opts)
			if err != nil {
				return nil, err
			}
			return brokenReader{r, read}, nil
		}
	}
}

// opens changes what is asked of a task's output.
func opens(change func(s *execution.OutputStream, opts *execution.OutputOptions)) func(*world) {
	return func(w *world) {
		w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
			change(&s, &opts)
			return t.OpenOutput(ctx, s, opts)
		}
	}
}

// starts changes what is started as a task.
func starts(change func(cmd *execution.Command, opts *execution.TaskOptions)) func(*world) {
	return func(w *world) {
		w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
			change(&cmd, &opts)
			return h.Handle.StartTask(ctx, cmd, opts)
		}
	}
}

func tells(change func(info *execution.TaskInfo)) func(*world) {
	return func(w *world) {
		w.task.info = func(info execution.TaskInfo) execution.TaskInfo {
			change(&info)
			return info
		}
	}
}

// stubborn is a context that does not end before the test.
func (w *world) stubborn(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-w.stop:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}
