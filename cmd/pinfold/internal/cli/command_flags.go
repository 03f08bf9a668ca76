package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
)

// commandFlags is what `run` and `exec` have in common: what stands on the
// command line of the command rather than of its sandbox.
type commandFlags struct {
	line string // -c

	env, envFiles    []string
	dir              string
	interactive, tty bool
	timeout, grace   span
	outputLimit      byteSize
	json, quiet      bool
	detach           bool
}

func (f *commandFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.line, "command", "c", "", "run this `line` in the sandbox's shell instead of CMD")
	f.registerEnvironment(flags)
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "pass standard input on; without it the command reads end of file")
	flags.BoolVarP(&f.tty, "tty", "t", false, "run on a terminal")
	flags.Var(&f.timeout, "timeout", "kill the command and all it started after this time (default: none)")
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL (default 500ms)")
	flags.Var(&f.outputLimit, "output-limit", "kill the command when it has written more than this (default: none)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object and nothing else on standard output")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no notes; errors only")
}

func (f *commandFlags) registerEnvironment(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `NAME=value`, or NAME to its value on this host")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "read environment variables from `file`")
	flags.StringVarP(&f.dir, "workdir", "w", "", "working `directory`; a relative one starts at the sandbox's own")
}

// agree refuses flags that exclude each other.
func (f *commandFlags) agree() error {
	switch {
	case f.json && f.tty:
		return errors.New("--json and -t exclude each other: a terminal's output is not captured; leave one out")
	case f.detach && f.tty:
		return errors.New("-d and -t exclude each other: a task has no terminal; 'pinfold shell ID' opens one later")
	case f.detach && f.interactive:
		return errors.New("-d and -i exclude each other: a task reads end of file; leave one out")
	}
	return nil
}

// fillPlan hands on what needs no thought.
func (f *commandFlags) fillPlan(p *plan) {
	p.interactive, p.tty, p.json, p.quiet, p.detach = f.interactive, f.tty, f.json, f.quiet, f.detach
}

// fillCommand makes a command of what follows the flags; want is what would
// be right.
func (f *commandFlags) fillCommand(c *execution.Command, args []string, changed func(string) bool, want string) error {
	switch {
	case changed("command") && len(args) > 0:
		return fmt.Errorf("-c takes one argument, the whole line, but %q follows it; put the line in quotes", args[0])
	case changed("command") && strings.TrimSpace(f.line) == "":
		return errors.New("-c is empty; want a shell line")
	case !changed("command") && len(args) == 0:
		return errors.New("no command; want " + want)
	case !changed("command") && args[0] == "":
		return errors.New("the command's name is empty")
	}
	c.Args, c.Shell = args, f.line
	c.Timeout, c.OutputLimit = time.Duration(f.timeout), int64(f.outputLimit)
	if c.Grace = time.Duration(f.grace); changed("grace") && f.grace == 0 {
		c.Grace = -1 // 0 is the default there
	}
	return nil
}

// environment is that of the command. In a container, a terminal is docker's:
// the name of the host's own stays outside.
func (f *commandFlags) environment(lookup func(string) (string, bool), container bool) ([]string, error) {
	env, err := environment(f.envFiles, f.env, lookup)
	if f.tty && container {
		env = append([]string{"TERM=xterm"}, env...)
	}
	return env, err
}
