package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/images"
)

const runHelp = `Run a command in a sandbox made for it, pass on its output and its exit code,
and remove the sandbox. With -d the sandbox stays, until its lifetime ends or it is
removed: its ID is printed, and the command, if there is one, is its first task.
'pinfold exec', shell, logs, wait, kill and cp go on from there.

Flags end at the first word that is none: what follows is the command's own.
With -c the line goes to the sandbox's shell (bash where there is one, else sh).

A command run with --backend process is not isolated at all: it has this host's
files, network and user. That is never chosen in silence.

SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGQUIT go to the command. A second one kills it
and everything it started. With -it, Ctrl-C is a key like any other.

When standard output is a terminal and -t is not given, control sequences other
than colours are taken out of the output; in a pipe or a file every byte stays.

With --json nothing is streamed: standard output gets one object at the end, also
when pinfold failed. It holds the exit status, both outputs (the first and last
512 KiB of each, in base64 when not UTF-8), the durations and the limits in force.`

const runExitCodes = `Exit codes:
  0-255  the command's own
  124    --timeout has run out
  125    pinfold or the engine failed, or the arguments are wrong
  126    the command cannot be executed
  127    the command does not exist, or there is no shell for -c
  128+n  signal n ended the command, or pinfold before the command had started
  137    also: out of memory, --output-limit exceeded, or killed by a second Ctrl-C;
         a line on standard error says which
  141    whoever read the output has closed it`

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]\n  pinfold run [flags] -c LINE\n  pinfold run -d [flags] [--] [CMD [ARG...]]",
		Short: "Run a command in a sandbox",
		Long:  runHelp + "\n\n" + runExitCodes,
		Example: `  pinfold run -- make test
  pinfold run -v .:/workspace:ro --timeout 5m -m 1g -c 'cp -r . /tmp/w && cd /tmp/w && make'
  pinfold run -it -- bash
  ID=$(pinfold run -d --lifetime 8h); pinfold exec $ID -- make; pinfold rm -f $ID
  pinfold run --json -- python3 -c 'print(1)' | jq .status.code`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := flags.plan(args, cmd.Flags().Changed, a.lookupEnv)
			if err == nil {
				err = a.checkTerminal(p)
			}
			if err != nil {
				return a.failRun(flags.json, &usageError{cmd.CommandPath(), err})
			}
			a.stderr.quiet = p.quiet
			if p.detach {
				return a.runDetached(cmd.Context(), p, cmd.Flags().Changed("lifetime"))
			}
			return a.run(cmd.Context(), p)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	for name, words := range map[string][]string{
		"backend": flags.backend.words, "profile": flags.profile.words, "pull": flags.pullPolicy.words,
		"relax": {"memory", "pids", "cpus", "seccomp"}, "image": knownImages(),
	} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	}
	return cmd
}

// must is for calls that fail only when this program is written wrongly.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// checkTerminal refuses -t where there is no terminal.
func (a *app) checkTerminal(p *plan) error {
	if p.tty && !isTerminal(a.stdin) {
		return errors.New("the input device is not a terminal; leave out -t, or run it from one")
	}
	return nil
}

// failRun reports an error that kept a run from starting.
func (a *app) failRun(asJSON bool, err error) error {
	if asJSON {
		return errors.Join(err, a.writeReport(&report{ExitCode: exitCode(err), Error: newReportError(err)}))
	}
	return err
}

// run carries out a plan. Its error is nil or a codeError: the exit code is
// the command's.
func (a *app) run(ctx context.Context, p *plan) error {
	s := &session{app: a, plan: p, signals: a.listen()}
	defer s.signals.stop()
	s.openStreams()
	result := s.run(ctx)
	a.explainEnding(&result, p)
	if p.keep && s.handle != nil && result.undone == nil {
		a.sayKept(s.handle)
	}
	if p.json {
		if err := a.writeReport(s.report(&result)); err != nil {
			return err
		}
	}
	if result.code == exitOK {
		return nil
	}
	return &codeError{code: result.code}
}

// sayKept says where the sandbox is, and how to go on. It is stopped, since
// what runs without a host would run for ever.
func (a *app) sayKept(h execution.Handle) {
	a.stderr.say("kept sandbox %[1]s (%[2]s), stopped\n"+
		"what has changed in it:  docker diff %[1]s\n"+
		"to look around in it:    docker commit %[1]s pinfold-kept && pinfold run --image pinfold-kept -it -- sh\n"+
		"to remove it:            pinfold rm %[1]s", h.ID(), h.Spec().Name)
}

// An outcome is how a run went.
type outcome struct {
	code   int
	status execution.ExitStatus // Ending is "" when the command was never started
	err    error                // what went wrong; may come with a status
	undone error                // clean-up that failed
}

// endingCode is the exit code for a command that ended with status and err.
func endingCode(status execution.ExitStatus, err error) int {
	if err != nil && status.Ending != execution.EndingLost {
		return exitCode(err)
	}
	if code := status.ShellCode(); code >= 0 && code <= 255 {
		return code
	}
	return exitFailed // a larger one would be cut to another number, possibly 0
}

// explainEnding says on standard error what the exit code alone does not.
func (a *app) explainEnding(o *outcome, p *plan) {
	say := a.stderr.say
	switch {
	case errors.Is(o.err, syscall.EPIPE):
	case o.err != nil && o.status.Ending != execution.EndingLost:
		say("%s", explain(o.err, p))
	case o.status.Ending == execution.EndingLost:
		say("sandbox lost: %s", lostReason(o))
	case o.status.Ending == execution.EndingTimedOut:
		say("timed out after %v; the command and all it had started were killed", p.command.Timeout)
	case o.status.Ending == execution.EndingOutOfMemory:
		say("out of memory%s; --memory sets the limit", reason(o.status))
	case o.status.Ending == execution.EndingOutputLimit:
		say("output limit exceeded%s; the command was killed; --output-limit sets the limit", reason(o.status))
	case o.status.Ending == execution.EndingSignalled && o.status.Reason != "":
		say("ended by %s%s", o.status.Signal, reason(o.status))
	case o.status.Ending == execution.EndingCancelled:
		say("killed%s", reason(o.status))
	}
	if n := len(o.status.Leftovers); n > 0 {
		var names []string
		for _, left := range o.status.Leftovers[:min(n, 3)] {
			names = append(names, left.Command)
		}
		a.stderr.note("%s left running, now killed: %s", count(n, "process was", "processes were"), strings.Join(names, ", "))
	}
	if o.undone != nil {
		say("cleaning up failed: %v", o.undone)
	}
}

func reason(status execution.ExitStatus) string {
	if status.Reason == "" {
		return ""
	}
	return " (" + status.Reason + ")"
}

// lostReason is why a sandbox was lost, without saying again that it was.
func lostReason(o *outcome) string {
	why := o.status.Reason
	if why == "" && o.err != nil {
		why = o.err.Error()
	}
	if why = strings.TrimPrefix(why, execution.ErrLost.Error()+": "); why == "" {
		why = "no reason is known"
	}
	return why
}

// relaxed lists how spec differs from the default profile in what the command
// may do.
func relaxed(spec execution.Spec) []string {
	var list []string
	if spec.Profile == execution.ProfileDev {
		list = append(list, "profile dev (root inside, for apt and useradd)")
	}
	for _, r := range spec.Relax {
		list = append(list, map[execution.Relaxation]string{
			execution.RelaxMemory: "no memory limit", execution.RelaxPIDs: "no limit on processes",
			execution.RelaxCPUs: "no limit on processors", execution.RelaxSeccomp: "no system call filter",
		}[r])
	}
	if spec.Limits.Memory > docker.DefaultMemory {
		list = append(list, showSize(spec.Limits.Memory)+" of memory")
	}
	if spec.Limits.PIDs > docker.DefaultPIDs {
		list = append(list, fmt.Sprintf("%d processes", spec.Limits.PIDs))
	}
	if spec.Limits.CPUs > docker.DefaultCPUs {
		list = append(list, fmt.Sprintf("%v processors", spec.Limits.CPUs))
	}
	if spec.Network != "" && spec.Network != execution.NetworkNone {
		list = append(list, "network "+spec.Network)
	}
	if user, _, _ := strings.Cut(spec.User, ":"); user == "root" || user == "0" {
		list = append(list, "user "+user)
	}
	for _, m := range spec.Mounts {
		if m.Type == execution.MountBind && !m.ReadOnly {
			list = append(list, fmt.Sprintf("may write to %s of this host", m.Source))
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// announce says before a run what holds the command down less than usual.
func (a *app) announce(p *plan) {
	if p.backend == backendProcess {
		a.stderr.say("WARNING: --backend process is NO SANDBOX: the command runs on this host as you, with your files and network")
		return
	}
	if list := relaxed(p.spec); len(list) > 0 {
		a.stderr.note("relaxed: %s", strings.Join(list, "; "))
	}
}

func knownImages() []string {
	var names []string
	for _, image := range images.Known() {
		names = append(names, image.Name)
	}
	return names
}

// isTerminal reports whether file is a terminal.
func isTerminal(file *os.File) bool { return file != nil && terminalFD(int(file.Fd())) }
