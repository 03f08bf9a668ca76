package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
)

func (a *app) tasksCommand() *cobra.Command {
	var (
		to              attachment
		asJSON, idsOnly bool
	)
	cmd := &cobra.Command{
		Use:               "tasks [flags] ID",
		Short:             "List the tasks of a sandbox",
		Long:              "List the tasks of a sandbox in the order of their start, those that have ended too.",
		Args:              sandboxArgs(0, "tasks takes one sandbox; for one task's output: pinfold logs ID TASK"),
		ValidArgsFunction: a.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			to.id = args[0]
			return a.withSandbox(cmd.Context(), to, func(ctx context.Context, h execution.Handle) error {
				list, err := allTasks(ctx, h)
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					return writeJSON(a.stdout, list)
				case idsOnly:
					for _, info := range list {
						if _, err := fmt.Fprintln(a.stdout, printable(info.ID)); err != nil {
							return err
						}
					}
					return nil
				}
				return a.printTasks(list, time.Now())
			})
		},
	}
	to.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVarP(&idsOnly, "quiet", "q", false, "print the IDs only")
	return cmd
}

// allTasks is never nil, so that it is [] in JSON.
func allTasks(ctx context.Context, h execution.Handle) ([]execution.TaskInfo, error) {
	list := []execution.TaskInfo{}
	for info, err := range h.Tasks(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (a *app) printTasks(list []execution.TaskInfo, now time.Time) error {
	var rows [][]string
	for _, info := range list {
		end := info.Ended
		if info.Running() {
			end = now
		}
		rows = append(rows, []string{
			info.ID, showState(info), showAge(now.Sub(info.Started)), showAge(end.Sub(info.Started)),
			showSize(info.Stdout.Bytes + info.Stderr.Bytes), showCommand(info),
		})
	}
	return writeTable(a.stdout, []string{"TASK", "STATE", "AGE", "RAN", "OUTPUT", "COMMAND"}, rows)
}

// showState is a task's state, with its exit code or signal.
func showState(info execution.TaskInfo) string {
	switch {
	case info.Status.Ending == execution.EndingExited:
		return "exited (" + strconv.Itoa(info.Status.Code) + ")"
	case info.Status.Ending == execution.EndingSignalled:
		return "signalled (" + info.Status.Signal.String() + ")"
	}
	return strings.ReplaceAll(info.State(), "_", " ")
}

// showCommand is the start of a task's command.
func showCommand(info execution.TaskInfo) string {
	text := info.Shell
	if len(info.Args) > 0 {
		text = strings.Join(info.Args, " ")
	}
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

// pickTask finds the task that name means. "" is the only one, or the first.
func pickTask(ctx context.Context, h execution.Handle, name string) (execution.Task, error) {
	if name != "" {
		return h.Task(ctx, name)
	}
	const first = "task-1"
	var only string
	for info, err := range h.Tasks(ctx) {
		if err != nil {
			return nil, err
		}
		if info.ID == first {
			return h.Task(ctx, first)
		}
		if only != "" {
			return nil, fmt.Errorf("sandbox %s has several tasks, and no %s any more; say which of those that 'pinfold tasks %[1]s' shows",
				h.ID(), first)
		}
		only = info.ID
	}
	if only == "" {
		return nil, fmt.Errorf("sandbox %s has no tasks; 'pinfold exec -d %[1]s -- CMD' starts one", h.ID())
	}
	return h.Task(ctx, only)
}

// second is the argument after the sandbox, where there is one.
func second(args []string) string {
	if len(args) > 1 {
		return args[1]
	}
	return ""
}

const waitHelp = `Wait until a task has ended, print its exit code, and end with it. The code is that
of 'pinfold run': the task's own, 124 when its timeout ran out, 128+n when signal n
ended it, 137 when it was killed. Without TASK it is task-1, or the only one.

When --timeout runs out first, nothing is printed, the exit code is 124, and the task
goes on.`

func (a *app) waitCommand() *cobra.Command {
	var (
		to      attachment
		timeout span
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:               "wait [flags] ID [TASK]",
		Short:             "Wait for the end of a task",
		Long:              waitHelp,
		Args:              sandboxArgs(1, "wait takes one sandbox and one task"),
		ValidArgsFunction: a.completeTask,
		RunE: func(cmd *cobra.Command, args []string) error {
			to.id = args[0]
			return a.withSandbox(cmd.Context(), to, func(ctx context.Context, h execution.Handle) error {
				info, err := waitTask(ctx, h, second(args), time.Duration(timeout))
				if err != nil {
					return err
				}
				return a.tellEnding(info, asJSON)
			})
		},
	}
	to.register(cmd.Flags())
	cmd.Flags().Var(&timeout, "timeout", "give up waiting after this time; the task goes on (default: none)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what is known of the task as a JSON object")
	return cmd
}

const exitTimeout = 124

// errWaited is why waiting was given up.
var errWaited = errors.New("the time to wait is over")

func waitTask(ctx context.Context, h execution.Handle, name string, limit time.Duration) (execution.TaskInfo, error) {
	task, err := pickTask(ctx, h, name)
	if err != nil {
		return execution.TaskInfo{}, err
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		bounded, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
	}
	defer cancel()
	info, err := task.Wait(bounded)
	if err != nil && info.Running() && errors.Is(context.Cause(bounded), errWaited) {
		err = &codeError{exitTimeout, fmt.Errorf("%s still runs after %v, and goes on", task.ID(), limit)}
	}
	return info, err
}

// tellEnding says how a task ended, and returns its exit code as an error.
func (a *app) tellEnding(info execution.TaskInfo, asJSON bool) error {
	code := endingCode(info.Status, nil)
	var err error
	if asJSON {
		err = writeJSON(a.stdout, info)
	} else {
		_, err = fmt.Fprintln(a.stdout, code)
	}
	if err != nil {
		return err
	}
	if ending := info.Status.Ending; ending != execution.EndingExited {
		a.stderr.say("%s: %s", info.ID, info.Status)
	}
	if code == exitOK {
		return nil
	}
	return &codeError{code: code}
}

const killHelp = `Kill tasks with everything that they have started: SIGTERM, their grace, SIGKILL.
The ID of each is printed when nothing of it is alive any more. Killing a task that
has ended kills what it has left running.

With --signal, only that signal is sent, to the task's process group.`

func (a *app) killCommand() *cobra.Command {
	var (
		to   attachment
		name string
	)
	cmd := &cobra.Command{
		Use:               "kill [flags] ID TASK...",
		Short:             "Kill tasks, or send them a signal",
		Long:              killHelp,
		ValidArgsFunction: a.completeManyTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			sig, err := killArgs(args, name)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			to.id = args[0]
			return a.withSandbox(cmd.Context(), to, func(ctx context.Context, h execution.Handle) error {
				return a.killTasks(ctx, h, args[1:], sig)
			})
		},
	}
	to.register(cmd.Flags())
	cmd.Flags().StringVarP(&name, "signal", "s", "", "send only this `signal`, such as HUP, SIGINT or 15")
	return cmd
}

// killArgs checks the arguments of kill. No signal is 0.
func killArgs(args []string, name string) (sig execution.Signal, err error) {
	switch {
	case len(args) == 0:
		return 0, errors.New("no sandbox; " + wantSandbox)
	case len(args) == 1:
		return 0, fmt.Errorf("no task; want those that 'pinfold tasks %s' shows, or 'pinfold rm -f %[1]s' to end the sandbox", args[0])
	case name != "":
		return execution.ParseSignal(name)
	}
	return 0, nil
}

// killTasks kills what it can, prints the IDs of those, and returns the
// reasons for the others.
func (a *app) killTasks(ctx context.Context, h execution.Handle, names []string, sig execution.Signal) error {
	var errs []error
	for _, name := range names {
		task, err := h.Task(ctx, name)
		switch {
		case err != nil:
		case sig != 0:
			err = task.Signal(ctx, sig)
		default:
			err = task.Kill(ctx)
		}
		if err == nil {
			_, err = fmt.Fprintln(a.stdout, printable(task.ID()))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
