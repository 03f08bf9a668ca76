package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one invocation of pinfold: its standard streams, what it knows of
// the host, and how it gets at backends.
type app struct {
	stdin  *os.File
	stdout io.Writer
	stderr *console

	lookupEnv func(string) (string, bool)
	listen    func() *listener // for signals
	backends  backends
}

// Main runs pinfold with args, which do not hold the program's name, and
// returns its exit code.
func Main(args []string) int {
	if len(args) == 1 && args[0] == guardArgument {
		return guardTerminal(os.Stdin)
	}
	ignorePipeSignal()
	a := &app{
		stdin:     os.Stdin,
		stdout:    os.Stdout,
		stderr:    &console{w: os.Stderr, terminal: isTerminal(os.Stderr)},
		lookupEnv: os.LookupEnv,
		listen:    listen,
		backends:  realBackends(),
	}
	return a.main(context.Background(), args)
}

func (a *app) main(ctx context.Context, args []string) int {
	root := a.rootCommand() //nolint:contextcheck // Its commands get ctx from cobra.
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	var coded *codeError
	silent := errors.As(err, &coded) && coded.err == nil || code == exitSignal+sigpipe
	if !silent {
		a.stderr.say("%v", err)
	}
	return code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pinfold",
		Short: "Run untrusted commands in a sandbox",
		Long: `Pinfold runs commands that nobody has looked at in a container of their own:
no network, no privileges, bounded memory, processes and processor time. It
returns their exit code and leaves nothing behind.`,
		Example: `  pinfold run -- make test
  pinfold run -v .:/workspace --timeout 5m -c './configure && make check'
  pinfold doctor`,
		Args:          a.subcommandOnly,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr.w)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{cmd.CommandPath(), dockerHint(err)}
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(a.runCommand(), a.execCommand(), a.shellCommand(), a.tasksCommand(), a.logsCommand(),
		a.waitCommand(), a.killCommand(), a.psCommand(), a.inspectCommand(), a.statsCommand(), a.cpCommand(), a.rmCommand(), a.gcCommand(),
		a.doctorCommand(), a.imagesCommand(), a.versionCommand())
	return root
}

// subcommandOnly refuses arguments of a command that only has subcommands,
// and names those that are near.
func (a *app) subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + orList(near) + "?"
	}
	return &usageError{cmd.CommandPath(), errors.New(text)}
}

// positional makes a cobra argument check into one whose error is a usage
// error that says want.
func positional(check cobra.PositionalArgs, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{cmd.CommandPath(), errors.New(want)}
		}
		return nil
	}
}

// dockerHint says what to use in place of a flag that docker has and pinfold
// has not.
func dockerHint(err error) error {
	text := err.Error()
	for _, flag := range []struct{ names, hint string }{
		{"--rm", "a sandbox is always removed; leave it out"},
		{"--privileged", "a sandbox never is; see --profile dev and --relax"},
		{"--cap-add|--cap-drop|--security-opt", "a sandbox has no capabilities to begin with; see --profile dev and --relax"},
		{"--user|'u'", "commands run as the sandbox's user, which 'pinfold run --user' sets"},
		{"--publish|'p'", "a sandbox has no ports to publish"},
		{"--entrypoint", "an image's entry point is never used; write the command itself"},
		{"--memory-swap", "a sandbox never swaps"},
		{"--gpus|--device", "a sandbox has no devices"},
		{"--net", "write --network"},
		{"--version", "write pinfold version"},
	} {
		for name := range strings.SplitSeq(flag.names, "|") {
			if strings.HasSuffix(text, "unknown flag: "+name) || strings.Contains(text, "unknown shorthand flag: "+name) {
				return fmt.Errorf("%w (%s)", err, flag.hint)
			}
		}
	}
	return err
}
