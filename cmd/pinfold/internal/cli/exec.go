package cli

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
)

const execHelp = `Run a command in a sandbox that is there, and pass on its output and its exit code.

Several terminals may do so at once. Signals, terminals, --json and the exit codes
are those of 'pinfold run'. With -d the command is a task, which goes on by itself:
its ID is printed, and 'pinfold tasks', logs, wait and kill take it.

A sandbox that another host holds for itself (one that 'pinfold run' without -d has
made) is refused without --take-over.`

const shellHelp = `Open a terminal in a sandbox that is there, with the best shell that it has: bash,
else sh. Several terminals may be open at once. What a terminal has started ends
with it; 'pinfold exec -d' starts what goes on.`

// bestShell is an interactive shell: its input is a terminal.
const bestShell = "command -v bash >/dev/null 2>&1 && exec bash; exec sh"

func (a *app) execCommand() *cobra.Command {
	var (
		flags commandFlags
		to    attachment
	)
	cmd := &cobra.Command{
		Use:   "exec [flags] ID [--] CMD [ARG...]\n  pinfold exec [flags] ID -c LINE",
		Short: "Run a command in a sandbox that is there",
		Long:  execHelp,
		Example: `  pinfold exec mybox -- make test
  pinfold exec -it mybox -- python3
  pinfold exec -d mybox -c 'make && make check'`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := flagsAfterFirst(cmd.Flags(), args)
			if errors.Is(err, pflag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return cmd.FlagErrorFunc()(cmd, err)
			}
			p, err := flags.execPlan(args, cmd.Flags().Changed, a.lookupEnv)
			if err == nil {
				err = a.checkTerminal(p)
			}
			if err != nil {
				return a.failRun(flags.json, &usageError{cmd.CommandPath(), err})
			}
			to.id, p.attach = p.attach.id, &to
			a.stderr.quiet = p.quiet
			if p.detach {
				return a.execDetached(cmd.Context(), p)
			}
			return a.run(cmd.Context(), p)
		},
	}
	flags.register(cmd.Flags())
	to.register(cmd.Flags())
	cmd.Flags().BoolVarP(&flags.detach, "detach", "d", false, "start the command as a task, and print the task's ID")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// flagsAfterFirst reads the flags between the sandbox's ID and the command. So
// they may stand before the ID, as docker wants it, or behind.
func flagsAfterFirst(flags *pflag.FlagSet, args []string) ([]string, error) {
	if len(args) < 2 || flags.ArgsLenAtDash() == 0 {
		return args, nil
	}
	first := args[0]
	if err := flags.Parse(args[1:]); err != nil {
		return nil, err
	}
	if help, err := flags.GetBool("help"); err == nil && help {
		return nil, pflag.ErrHelp
	}
	return append([]string{first}, flags.Args()...), nil
}

// execPlan makes sense of the flags; args are the sandbox and the command.
func (f *commandFlags) execPlan(args []string, changed func(string) bool,
	lookup func(string) (string, bool),
) (*plan, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, errors.New("no sandbox; " + wantSandbox)
	}
	p := &plan{backend: backendDocker, attach: &attachment{id: args[0]}}
	f.fillPlan(p)
	if err := f.agree(); err != nil {
		return nil, err
	}
	const want = "'pinfold exec [flags] ID -- CMD [ARG…]' or 'pinfold exec ID -c LINE'"
	if err := f.fillCommand(&p.command, args[1:], changed, want); err != nil {
		return nil, err
	}
	var err error
	if p.command.Env, err = f.environment(lookup, true); err != nil {
		return nil, err
	}
	if f.dir != "" {
		p.command.Dir = path.Clean(f.dir)
	}
	return p, p.validate()
}

// execDetached starts a task, and prints its ID.
func (a *app) execDetached(ctx context.Context, p *plan) error {
	var started followUp
	err := a.withSandbox(ctx, *p.attach, func(ctx context.Context, h execution.Handle) (err error) {
		started.ID, started.Name = h.ID(), h.Spec().Name
		started.Task, err = startTask(ctx, h, p.command)
		return err
	})
	if err != nil {
		return a.failRun(p.json, &codeError{exitCode(err), errors.New(explain(err, p))})
	}
	if p.json {
		return writeJSON(a.stdout, started)
	}
	_, err = fmt.Fprintln(a.stdout, printable(started.Task))
	return err
}

func (a *app) shellCommand() *cobra.Command {
	var (
		flags commandFlags
		to    attachment
	)
	cmd := &cobra.Command{
		Use:               "shell [flags] ID",
		Short:             "Open a terminal in a sandbox that is there",
		Long:              shellHelp,
		Args:              sandboxArgs(0, "shell takes one sandbox; to run a command in it: pinfold exec -it ID -- CMD"),
		ValidArgsFunction: a.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.line, flags.interactive, flags.tty = bestShell, true, true
			lineGiven := func(name string) bool { return name == "command" }
			p, err := flags.execPlan(args, lineGiven, a.lookupEnv)
			if err == nil {
				err = a.checkTerminal(p)
			}
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			to.id, p.attach = p.attach.id, &to
			return a.run(cmd.Context(), p)
		},
	}
	flags.registerEnvironment(cmd.Flags())
	to.register(cmd.Flags())
	return cmd
}
