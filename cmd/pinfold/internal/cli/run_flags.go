package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// runFlags is what stands on the command line of `pinfold run`.
type runFlags struct {
	line string // -c

	env, envFiles                []string
	dir, user                    string
	volumes, mounts, tmpfs       []string
	memory                       byteSize
	cpus                         float64
	pids                         int64
	network, runtime             string
	readOnly                     bool
	interactive, tty             bool
	image, platform, name        string
	labels, relax                []string
	timeout, grace               span
	outputLimit                  byteSize
	json, keep, quiet            bool
	backend, profile, pullPolicy choice
}

func (f *runFlags) register(flags *pflag.FlagSet) {
	f.backend = choice{backendDocker, []string{backendDocker, backendProcess}}
	f.profile = choice{string(execution.ProfileDefault), []string{string(execution.ProfileDefault), string(execution.ProfileDev)}}
	f.pullPolicy = choice{
		string(execution.PullMissing),
		[]string{string(execution.PullMissing), string(execution.PullAlways), string(execution.PullNever)},
	}

	flags.StringVarP(&f.line, "command", "c", "", "run this `line` in the sandbox's shell instead of CMD")
	flags.Var(&f.backend, "backend", "where to run: in a container, or on this host with no isolation")
	flags.StringVar(&f.image, "image", "", "`image` to start from (default: pinfold's own, see 'pinfold images list')")
	flags.Var(&f.pullPolicy, "pull", "when to fetch the image")
	flags.StringVar(&f.platform, "platform", "", "`os/arch` of the image (default: the engine's)")

	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `NAME=value`, or NAME to its value on this host")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "read environment variables from `file`")
	flags.StringVarP(&f.dir, "workdir", "w", "", "working `directory`; a relative one starts at the sandbox's own")
	flags.StringVarP(&f.user, "user", "u", "", "`user`, uid, user:group or uid:gid (default 1000:1000)")
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "pass standard input on; without it the command reads end of file")
	flags.BoolVarP(&f.tty, "tty", "t", false, "run on a terminal")

	flags.StringArrayVarP(&f.volumes, "volume", "v", nil, "show a `folder:target[:ro]` of this host in the sandbox")
	flags.StringArrayVar(&f.mounts, "mount", nil, "mount by `spec`: type=bind,src=PATH,dst=PATH[,readonly] or\ntype=tmpfs,dst=PATH[,tmpfs-size=SIZE,tmpfs-mode=MODE]")
	flags.StringArrayVar(&f.tmpfs, "tmpfs", nil, "folder in memory: `target[:size=SIZE,mode=MODE,ro]`")
	flags.BoolVar(&f.readOnly, "read-only", false, "make the root file system read-only")

	flags.VarP(&f.memory, "memory", "m", "memory limit such as 512m (default: the profile's); there is no swap")
	flags.Float64Var(&f.cpus, "cpus", 0, "`number` of processors, such as 1.5 (default: the profile's)")
	flags.Int64Var(&f.pids, "pids-limit", 0, "most `processes` and threads (default: the profile's)")
	flags.Var(&f.timeout, "timeout", "kill the command and all it started after this time (default: none)")
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL (default 500ms)")
	flags.Var(&f.outputLimit, "output-limit", "kill the command when it has written more than this (default: none)")

	flags.StringVar(&f.network, "network", "", "connect to the engine's `network` of this name (default none)")
	flags.StringVar(&f.runtime, "runtime", "", "the engine's `runtime`, such as runsc (default: the engine's)")
	flags.Var(&f.profile, "profile", "how much to hold the command down; dev is root inside, enough for apt")
	flags.StringSliceVar(&f.relax, "relax", nil, "lift single `controls`: memory, pids, cpus, seccomp")

	flags.StringVar(&f.name, "name", "", "`name` of the sandbox (default: a unique one)")
	flags.StringArrayVarP(&f.labels, "label", "l", nil, "note `key=value` on the sandbox")
	flags.BoolVar(&f.keep, "keep", false, "do not remove the sandbox; says how to remove it")
	flags.BoolVar(&f.json, "json", false, "print one JSON object and nothing else on standard output")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no notes; errors only")
}

// A plan is what `pinfold run` is to do.
type plan struct {
	backend string
	spec    execution.Spec
	command execution.Command // without its streams and terminal

	interactive, tty  bool
	json, keep, quiet bool
}

// plan makes sense of the flags. changed tells which of them were given.
func (f *runFlags) plan(args []string, changed func(string) bool, lookup func(string) (string, bool)) (*plan, error) {
	p := &plan{
		backend: f.backend.value, interactive: f.interactive, tty: f.tty,
		json: f.json, keep: f.keep, quiet: f.quiet,
	}
	if f.json && f.tty {
		return nil, errors.New("--json and -t exclude each other: a terminal's output is not captured; leave one out")
	}
	if f.keep && f.backend.value == backendProcess {
		return nil, errors.New("--keep needs --backend docker: on this host nothing is made that could be kept")
	}
	if err := f.whole(changed); err != nil {
		return nil, err
	}
	if err := f.fillCommand(&p.command, args, changed, lookup); err != nil {
		return nil, err
	}
	if err := f.fillSpec(&p.spec, changed); err != nil {
		return nil, err
	}
	if path.IsAbs(f.dir) {
		p.spec.Dir = f.dir
	} else {
		p.command.Dir = f.dir
	}
	if err := p.command.Validate(); err != nil {
		return nil, err
	}
	if err := p.spec.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// whole refuses zero where docker takes it for "no limit" and Spec for "the
// default": it must be no accident that a control is off.
func (f *runFlags) whole(changed func(string) bool) error {
	for _, limit := range []struct {
		flag     string
		positive bool
		relax    string
	}{
		{"memory", f.memory > 0, "memory"},
		{"cpus", f.cpus > 0, "cpus"},
		{"pids-limit", f.pids > 0, "pids"},
	} {
		if changed(limit.flag) && !limit.positive {
			return fmt.Errorf("--%s: want more than 0; for no limit use --relax %s", limit.flag, limit.relax)
		}
	}
	return nil
}

func (f *runFlags) fillCommand(c *execution.Command, args []string, changed func(string) bool,
	lookup func(string) (string, bool),
) (err error) {
	switch {
	case changed("command") && len(args) > 0:
		return fmt.Errorf("-c takes one argument, the whole line, but %q follows it; put the line in quotes", args[0])
	case changed("command") && strings.TrimSpace(f.line) == "":
		return errors.New("-c is empty; want a shell line")
	case !changed("command") && len(args) == 0:
		return errors.New("no command; want 'pinfold run [flags] -- CMD [ARG…]' or 'pinfold run -c LINE'")
	case !changed("command") && args[0] == "":
		return errors.New("the command's name is empty")
	}
	c.Args, c.Shell = args, f.line
	c.Timeout, c.OutputLimit = time.Duration(f.timeout), int64(f.outputLimit)
	if c.Grace = time.Duration(f.grace); changed("grace") && f.grace == 0 {
		c.Grace = -1 // 0 is the default there
	}
	env, err := environment(f.envFiles, f.env, lookup)
	if f.tty && f.backend.value == backendDocker {
		env = append([]string{"TERM=xterm"}, env...) // docker's; the host's own stays outside
	}
	c.Env = env
	return err
}

func (f *runFlags) fillSpec(s *execution.Spec, changed func(string) bool) (err error) {
	s.Image, s.Platform, s.Name, s.User = f.image, f.platform, f.name, f.user
	if ours, known := images.Lookup(f.image); known {
		s.Image = ours.Ref // by its short name
	}
	s.Network, s.Runtime, s.ReadOnly = f.network, f.runtime, f.readOnly
	s.Limits = execution.Limits{Memory: int64(f.memory), CPUs: f.cpus, PIDs: f.pids}
	if changed("pull") {
		s.Pull = execution.PullPolicy(f.pullPolicy.value)
	}
	if changed("profile") {
		s.Profile = execution.Profile(f.profile.value)
	}
	for _, name := range f.relax {
		if r := execution.Relaxation(name); !slices.Contains(s.Relax, r) {
			s.Relax = append(s.Relax, r)
		}
	}
	for _, label := range f.labels {
		name, value, _ := strings.Cut(label, "=")
		if name == "" {
			return fmt.Errorf("--label: %q has no key; want key=value", label)
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[name] = value
	}
	s.Mounts, err = mounts(f.volumes, f.mounts, f.tmpfs)
	return err
}
