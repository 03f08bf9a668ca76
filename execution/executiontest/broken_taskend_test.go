package executiontest_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

func taskEndFaults() []fault {
	become := func(from, to execution.Ending) func(*world) {
		return tells(func(i *execution.TaskInfo) {
			if i.Status.Ending == from {
				i.Status.Ending = to
			}
		})
	}
	lateError := func(from, to error) func(*world) {
		return func(w *world) {
			w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
				info, err := t.Wait(ctx)
				if errors.Is(err, from) {
					err = to
				}
				return info, err
			}
		}
	}
	return []fault{
		{name: "a task's timeout reads as a kill", cases: []string{"tasks/endings", "tasks/own_timeout"}, make: become(execution.EndingTimedOut, execution.EndingCancelled)},
		{name: "a task's signal reads as a kill", cases: []string{"tasks/endings", "tasks/signal"}, make: become(execution.EndingSignalled, execution.EndingCancelled)},
		{name: "a task's kill reads as an exit", cases: []string{"tasks/endings", "tasks/kill_tree"}, make: become(execution.EndingCancelled, execution.EndingExited)},
		{name: "a task's exit code is lost", cases: []string{"tasks/endings", "tasks/info", "tasks/many_in_sequence"}, make: tells(func(i *execution.TaskInfo) { i.Status.Code = min(i.Status.Code, 0) })},
		{
			name: "a task has a hidden timeout", cases: []string{"tasks/closed_output_is_no_end"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) { cmd.Timeout = 200 * time.Millisecond }),
		},
		{
			name: "following ends with the output", cases: []string{"tasks/closed_output_is_no_end"}, told: "told to run",
			make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Follow = false }),
		},
		{
			name: "a task has no timeout", cases: []string{"tasks/own_timeout", "tasks/own_timeout_kills_only_its_tree"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) { cmd.Timeout = 0 }),
		},
		{
			name: "a task's timeout kills all tasks", cases: []string{"tasks/own_timeout_kills_only_its_tree"},
			make: func(w *world) {
				w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
					info, err := t.Wait(ctx)
					if info.Status.Ending == execution.EndingTimedOut {
						w.killTasks(ctx)
					}
					return info, err
				}
				w.recordTasks()
			},
		},
		{
			name: "a task ends with the wait for it", cases: []string{"tasks/wait_gives_up"},
			make: func(w *world) {
				w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
					info, err := t.Wait(ctx)
					if ctx.Err() != nil {
						_ = t.Kill(context.WithoutCancel(ctx))
					}
					return info, err
				}
			},
		},
		{
			name: "waiting for a task cannot give up", cases: []string{"tasks/wait_gives_up"}, told: "hangs", change: impatient,
			make: func(w *world) {
				w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
					ctx, cancel := w.stubborn(ctx)
					defer cancel()
					return t.Wait(ctx)
				}
			},
		},
		{
			name: "one waits for a task", cases: []string{"tasks/wait_by_many"},
			make: func(w *world) {
				var mu sync.Mutex
				waited := false
				w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
					mu.Lock()
					again := waited
					waited = true
					mu.Unlock()
					if again {
						return execution.TaskInfo{}, errors.New("somebody waits already")
					}
					return t.Wait(ctx)
				}
			},
		},
		{
			name: "signals for tasks vanish", cases: []string{"tasks/info", "tasks/output_is_live", "tasks/wait_by_many"}, told: "hangs",
			make: func(w *world) {
				w.task.signal = func(context.Context, execution.Task, execution.Signal) error { return nil }
			},
			change: impatient,
		},
		{
			name: "a signal after the end of a task is no error", cases: []string{"tasks/signal"},
			make: func(w *world) {
				w.task.signal = func(ctx context.Context, t execution.Task, sig execution.Signal) error {
					if err := t.Signal(ctx, sig); !errors.Is(err, execution.ErrFinished) {
						return err
					}
					return nil
				}
			},
		},
		{
			name: "only a task's process group dies", cases: []string{"tasks/kill_tree"}, told: "alive",
			make: func(w *world) {
				w.task.kill = func(ctx context.Context, t *brokenTask) error {
					err := t.Task.Signal(ctx, execution.SIGKILL)
					_, _ = t.Task.Wait(ctx)
					return err
				}
			},
		},
		{
			name: "a task's kill returns too soon", cases: []string{"tasks/kill_tree"}, told: "alive",
			make: func(w *world) {
				w.task.kill = func(ctx context.Context, t *brokenTask) error {
					go func() { _ = t.Task.Kill(ctx) }()
					return nil
				}
			},
		},
		{
			name: "a task's kill hits all", cases: []string{"tasks/kill_tree"},
			make: func(w *world) {
				w.task.kill = func(ctx context.Context, t *brokenTask) error {
					w.killTasks(ctx)
					return nil
				}
				w.recordTasks()
			},
		},
		{
			name: "killing a task twice is an error", cases: []string{"tasks/kill_what_has_ended"},
			make: func(w *world) {
				w.task.kill = func(ctx context.Context, t *brokenTask) error {
					if info, err := t.Task.Info(ctx); err == nil && !info.Running() {
						return &execution.Error{Op: "kill", Err: execution.ErrFinished}
					}
					return t.Task.Kill(ctx)
				}
			},
		},
		{
			name: "a task's leftovers survive its kill", cases: []string{"tasks/leftovers"}, told: "alive",
			make: func(w *world) {
				w.task.kill = func(ctx context.Context, t *brokenTask) error {
					if info, err := t.Task.Info(ctx); err == nil && !info.Running() {
						return nil
					}
					return t.Task.Kill(ctx)
				}
			},
		},
		{
			name: "a task's leftovers are not told", cases: []string{"tasks/leftovers", "tasks/leftovers_that_write_for_ever"},
			make: tells(func(i *execution.TaskInfo) { i.Status.Leftovers = nil }),
		},
		{
			name: "a background child holds a task", cases: []string{"tasks/leftovers", "tasks/leftovers_that_write_for_ever"}, told: "hangs",
			make: func(w *world) {
				w.task.wait = func(ctx context.Context, t execution.Task) (execution.TaskInfo, error) {
					info, err := t.Wait(ctx)
					if len(info.Status.Leftovers) > 0 {
						<-ctx.Done()
					}
					return info, err
				}
			},
			change: impatient,
		},
		{
			name: "a destroyed task reads as cancelled", cases: []string{"tasks/end_with_destroy"},
			make: lateError(execution.ErrClosed, nil),
		},
		{
			name: "a lost task reads as destroyed", cases: []string{"tasks/end_with_the_sandbox"},
			make: lateError(execution.ErrLost, &execution.Error{Op: "wait", Err: execution.ErrClosed}),
		},
		{
			name: "readers outlive the sandbox", cases: []string{"tasks/end_with_destroy", "tasks/end_with_the_sandbox"},
			make: reads(func(r execution.OutputReader, p []byte) (int, error) {
				n, err := r.Read(p)
				if err != nil {
					err = io.EOF
				}
				return n, err
			}),
		},
		{
			name: "tasks are listed after the end", cases: []string{"tasks/end_with_destroy", "tasks/end_with_the_sandbox"},
			make: func(w *world) {
				w.task.find = func(ctx context.Context, h execution.Handle, id string) (execution.Task, error) {
					if h.Err() != nil {
						return &brokenTask{}, nil
					}
					return h.Task(ctx, id)
				}
			},
		},
	}
}

// recordTasks notes down the sandboxes for killTasks.
func (w *world) recordTasks() {
	w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
		t, err := h.Handle.StartTask(ctx, cmd, opts)
		if err == nil {
			w.started = append(w.started, t)
		}
		return t, err
	}
}

func (w *world) killTasks(ctx context.Context) {
	for _, t := range w.started {
		_ = t.Kill(ctx)
	}
}

func taskEventFaults() []fault {
	// events breaks the loop over the events of a sound backend.
	events := func(change func(w *world, event execution.Event, yield func(execution.Event, error) bool) bool) func(*world) {
		return func(w *world) {
			w.task.events = func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error] {
				return func(yield func(execution.Event, error) bool) {
					for event, err := range h.Handle.Events(ctx) {
						if err != nil {
							yield(event, err)
							return
						}
						if !change(w, event, yield) {
							return
						}
					}
				}
			}
		}
	}
	return []fault{
		{
			name: "endings are told twice", cases: []string{"tasks/events_in_order", "tasks/events_before_the_call", "tasks/events_once"},
			make: events(func(_ *world, event execution.Event, yield func(execution.Event, error) bool) bool {
				for range 2 {
					if !yield(event, nil) {
						return false
					}
				}
				return true
			}),
		},
		{
			name: "endings are told in the order of the starts", cases: []string{"tasks/events_in_order"},
			make: func(w *world) {
				n := 0
				events(func(_ *world, event execution.Event, yield func(execution.Event, error) bool) bool {
					n++
					event.Task.ID = "task-" + string(rune('0'+n))
					return yield(event, nil)
				})(w)
			},
		},
		{
			name: "endings before the call are not told", cases: []string{"tasks/events_before_the_call", "tasks/events_once"}, told: "hangs", change: impatient,
			make: func(w *world) {
				w.task.events = func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error] {
					for {
						soon, cancel := context.WithTimeout(ctx, 1)
						_, seq, err := h.own().NextEvent(soon, w.seen)
						cancel()
						if err != nil {
							return h.Handle.Events(ctx)
						}
						w.seen = seq
					}
				}
			},
		},
		{
			name: "what a loop that is left was told is told again", cases: []string{"tasks/events_once", "tasks/events_before_the_call"},
			make: func(w *world) {
				var first execution.Event
				events(func(_ *world, event execution.Event, yield func(execution.Event, error) bool) bool {
					if first.Kind == "" {
						first = event
					} else if !yield(first, nil) {
						return false
					}
					return yield(event, nil)
				})(w)
			},
		},
		{
			name: "events go on without their context", cases: []string{"tasks/events_end_with_their_context"}, told: "hangs", change: impatient,
			make: func(w *world) {
				w.task.events = func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error] {
					return func(yield func(execution.Event, error) bool) {
						ctx, cancel := w.stubborn(ctx)
						defer cancel()
						h.Handle.Events(ctx)(yield)
					}
				}
			},
		},
		{
			name: "what was told as the context ended is told again", cases: []string{"tasks/events_told_as_the_context_ends"},
			make: func(w *world) {
				w.task.events = func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error] {
					return func(yield func(execution.Event, error) bool) {
						for told := uint64(0); ; {
							event, seq, err := h.Handle.(*fake.Handle).NextEvent(ctx, told)
							if !yield(event, err) || err != nil {
								return
							}
							if ctx.Err() != nil {
								yield(execution.Event{}, ctx.Err())
								return
							}
							told = seq
						}
					}
				}
			},
		},
		{
			name: "two loops share the events", cases: []string{"tasks/events_for_one_loop_at_a_time"},
			make: func(w *world) {
				w.task.events = func(ctx context.Context, h *brokenHandle) iter.Seq2[execution.Event, error] {
					return func(yield func(execution.Event, error) bool) {
						for {
							event, seq, err := h.Handle.(*fake.Handle).NextEvent(ctx, w.seen)
							if !yield(event, err) || err != nil {
								return
							}
							w.seen = seq
						}
					}
				}
			},
			change: impatient,
		},
		{
			name: "the end of the sandbox is not told", cases: []string{"tasks/events_tell_of_destroy", "tasks/events_tell_of_death"},
			make: events(func(_ *world, event execution.Event, yield func(execution.Event, error) bool) bool {
				return event.Kind != execution.EventSandboxEnded && yield(event, nil)
			}),
		},
		{
			name: "a death is told as a destruction", cases: []string{"tasks/events_tell_of_death"},
			make: events(func(_ *world, event execution.Event, yield func(execution.Event, error) bool) bool {
				if event.Err != nil {
					event.Err = &execution.Error{Err: execution.ErrClosed}
				}
				return yield(event, nil)
			}),
		},
	}
}
