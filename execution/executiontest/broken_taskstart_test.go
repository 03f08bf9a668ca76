package executiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskFaults() []fault {
	return slices.Concat(taskStartFaults(), taskOutputFaults(), taskEndFaults(), taskEventFaults())
}

func taskStartFaults() []fault {
	return []fault{
		{
			name: "task IDs are given again", cases: []string{"tasks/ids_in_order_of_start"},
			make: func(w *world) {
				w.task.id = func(t execution.Task) string {
					if t.ID() == "task-4" {
						return "task-1"
					}
					return t.ID()
				}
			},
		},
		{
			name: "tasks are counted over all sandboxes", cases: []string{"tasks/ids_in_order_of_start"},
			make: func(w *world) {
				n := 0
				w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
					if n++; n == 6 {
						_, _ = h.Handle.StartTask(ctx, cmd, opts)
					}
					return h.Handle.StartTask(ctx, cmd, opts)
				}
			},
		},
		{
			name: "ended tasks are not listed", cases: []string{"tasks/ids_in_order_of_start", "tasks/many_at_once", "tasks/many_in_sequence"},
			make: func(w *world) {
				w.task.list = func(all []execution.TaskInfo) []execution.TaskInfo {
					return slices.DeleteFunc(all, func(i execution.TaskInfo) bool { return !i.Running() })
				}
			},
		},
		{
			name: "tasks are listed by name", cases: []string{"tasks/many_at_once", "tasks/many_in_sequence"},
			make: func(w *world) {
				w.task.list = func(all []execution.TaskInfo) []execution.TaskInfo {
					slices.SortFunc(all, func(a, b execution.TaskInfo) int { return strings.Compare(a.ID, b.ID) })
					return all
				}
			},
		},
		{
			name: "the listing says that all have ended", cases: []string{"tasks/many_at_once"}, told: "should run",
			make: func(w *world) {
				w.task.list = func(all []execution.TaskInfo) []execution.TaskInfo {
					for i := range all {
						all[i].Status.Ending = execution.EndingExited
					}
					return all
				}
			},
		},
		{name: "the command is not told", cases: []string{"tasks/info"}, make: tells(func(i *execution.TaskInfo) { i.Shell, i.Args = "", nil })},
		{name: "the directory is not told", cases: []string{"tasks/info"}, make: tells(func(i *execution.TaskInfo) { i.Dir = "" })},
		{name: "the end of what runs is told", cases: []string{"tasks/info"}, make: tells(func(i *execution.TaskInfo) { i.Ended = i.Started })},
		{name: "the output is not counted", cases: []string{"tasks/info", "tasks/output_head_and_tail", "tasks/output_of_both_streams"}, make: tells(func(i *execution.TaskInfo) { i.Stdout = execution.OutputInfo{} })},
		{
			name: "ended tasks are not found", cases: []string{"tasks/found_by_id", "tasks/many_in_sequence"},
			make: func(w *world) {
				w.task.find = func(ctx context.Context, h execution.Handle, id string) (execution.Task, error) {
					t, err := h.Task(ctx, id)
					if err == nil {
						if info, _ := t.Info(ctx); !info.Running() {
							return nil, &execution.Error{Op: "find task", Err: execution.ErrNotFound}
						}
					}
					return t, err
				}
			},
		},
		{
			name: "an unknown task is not explained", cases: []string{"tasks/unknown_ids"}, told: "should name",
			make: func(w *world) {
				w.task.find = func(ctx context.Context, h execution.Handle, id string) (execution.Task, error) {
					t, err := h.Task(ctx, id)
					if err != nil {
						err = &execution.Error{Op: "find task", Err: execution.ErrNotFound}
					}
					return t, err
				}
			},
		},
		{
			name: "any ID is a task's", cases: []string{"tasks/unknown_ids"},
			make: func(w *world) {
				w.task.find = func(ctx context.Context, h execution.Handle, id string) (execution.Task, error) {
					return h.Task(ctx, "task-"+strings.TrimLeft(strings.ToLower(id), "task-0 "))
				}
			},
		},
		{
			name: "long commands are told in full", cases: []string{"tasks/long_commands_are_cut"},
			make: tells(func(i *execution.TaskInfo) { i.Args = append(i.Args, strings.Repeat("x", 50_000)) }),
		},
		{
			name: "the command itself is cut", cases: []string{"tasks/long_commands_are_cut"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) {
				if len(cmd.Args) > 1 {
					cmd.Args[1] = cmd.Args[1][:min(len(cmd.Args[1]), execution.MaxTaskCommand)]
				}
			}),
		},
		{
			name: "streams are dropped in silence", cases: []string{"tasks/no_streams_of_the_callers"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) {
				cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, nil
			}),
		},
		{
			name: "any amount may be kept", cases: []string{"tasks/no_streams_of_the_callers"},
			make: starts(func(_ *execution.Command, opts *execution.TaskOptions) { opts.Keep = 0 }),
		},
		{
			name: "a task that cannot start is one that failed", cases: []string{"tasks/start_fails_as_a_command_does", "tasks/ids_in_order_of_start"},
			make: func(w *world) {
				w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
					t, err := h.Handle.StartTask(ctx, cmd, opts)
					if errors.Is(err, execution.ErrCommandNotFound) {
						return h.Handle.StartTask(ctx, execution.Command{Args: []string{"print", "", "not found", "127"}}, opts)
					}
					return t, err
				}
			},
		},
		{
			name: "a task ends with the context of its start", cases: []string{"tasks/start_context_bounds_the_start"},
			make: func(w *world) {
				w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
					t, err := h.Handle.StartTask(ctx, cmd, opts)
					if err == nil {
						late := context.WithoutCancel(ctx)
						context.AfterFunc(ctx, func() { _ = t.Kill(late) })
					}
					return t, err
				}
			},
		},
		{
			name: "a task waits for input", cases: []string{"tasks/stdin_is_empty"}, told: "hangs",
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) {
				if cmd.Shell == "cat" {
					cmd.Shell = "sleep"
					cmd.Args = nil
				}
			}),
			change: impatient,
		},
		{
			name: "a task has no directory", cases: []string{"tasks/dir_and_env", "tasks/info"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) { cmd.Dir = "" }),
		},
		{
			name: "a task has no environment", cases: []string{"tasks/dir_and_env"},
			make: starts(func(cmd *execution.Command, _ *execution.TaskOptions) { cmd.Env = nil }),
		},
		{
			name: "tasks wait for each other", cases: []string{"tasks/many_at_once", "tasks/block_nobody"}, told: "hangs",
			make: func(w *world) {
				turn := make(chan struct{}, 1)
				w.task.start = func(ctx context.Context, h *brokenHandle, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
					select {
					case turn <- struct{}{}:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					t, err := h.Handle.StartTask(ctx, cmd, opts)
					if err != nil {
						<-turn
						return nil, err
					}
					go func() {
						_, _ = t.Wait(context.WithoutCancel(ctx))
						<-turn
					}()
					return t, nil
				}
			},
		},
	}
}
