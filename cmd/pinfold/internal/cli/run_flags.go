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
	commandFlags

	user                         string
	volumes, mounts, tmpfs       []string
	memory                       byteSize
	cpus                         float64
	pids                         int64
	network, runtime             string
	readOnly                     bool
	image, platform, name        string
	labels, relax                []string
	lifetime, idle               span
	keep                         bool
	backend, profile, pullPolicy choice
}

func (f *runFlags) register(flags *pflag.FlagSet) {
	f.backend = choice{backendDocker, []string{backendDocker, backendProcess}}
	f.profile = choice{string(execution.ProfileDefault), []string{string(execution.ProfileDefault), string(execution.ProfileDev)}}
	f.pullPolicy = choice{
		string(execution.PullMissing),
		[]string{string(execution.PullMissing), string(execution.PullAlways), string(execution.PullNever)},
	}

	f.commandFlags.register(flags)
	flags.BoolVarP(&f.detach, "detach", "d", false, "leave the sandbox running, print its ID; the command is its first task")
	flags.Var(&f.lifetime, "lifetime", "end the sandbox after this time, whatever it does (default with -d: "+defaultLifetime.String()+")")
	flags.Var(&f.idle, "idle-timeout", "end the sandbox once nothing has run in it for this time (default: none)")
	flags.Var(&f.backend, "backend", "where to run: in a container, or on this host with no isolation")
	flags.StringVar(&f.image, "image", "", "`image` to start from (default: pinfold's own, see 'pinfold images list')")
	flags.Var(&f.pullPolicy, "pull", "when to fetch the image")
	flags.StringVar(&f.platform, "platform", "", "`os/arch` of the image (default: the engine's)")

	flags.StringVarP(&f.user, "user", "u", "", "`user`, uid, user:group or uid:gid (default 1000:1000)")

	flags.StringArrayVarP(&f.volumes, "volume", "v", nil, "show a `folder:target[:ro]` of this host in the sandbox")
	flags.StringArrayVar(&f.mounts, "mount", nil, "mount by `spec`: type=bind,src=PATH,dst=PATH[,readonly] or\ntype=tmpfs,dst=PATH[,tmpfs-size=SIZE,tmpfs-mode=MODE]")
	flags.StringArrayVar(&f.tmpfs, "tmpfs", nil, "folder in memory: `target[:size=SIZE,mode=MODE,ro]`")
	flags.BoolVar(&f.readOnly, "read-only", false, "make the root file system read-only")

	flags.VarP(&f.memory, "memory", "m", "memory limit such as 512m (default: the profile's); there is no swap")
	flags.Float64Var(&f.cpus, "cpus", 0, "`number` of processors, such as 1.5 (default: the profile's)")
	flags.Int64Var(&f.pids, "pids-limit", 0, "most `processes` and threads (default: the profile's)")

	flags.StringVar(&f.network, "network", "", "connect to the engine's `network` of this name (default none)")
	flags.StringVar(&f.runtime, "runtime", "", "the engine's `runtime`, such as runsc (default: the engine's)")
	flags.Var(&f.profile, "profile", "how much to hold the command down; dev is root inside, enough for apt")
	flags.StringSliceVar(&f.relax, "relax", nil, "lift single `controls`: memory, pids, cpus, seccomp")

	flags.StringVar(&f.name, "name", "", "`name` of the sandbox (default: a unique one)")
	flags.StringArrayVarP(&f.labels, "label", "l", nil, "note `key=value` on the sandbox")
	flags.BoolVar(&f.keep, "keep", false, "do not remove the sandbox; says how to remove it")
}

// defaultLifetime is how long a detached sandbox lives where --lifetime does
// not say.
const defaultLifetime = 24 * time.Hour

// A plan is what `pinfold run` or `pinfold exec` is to do.
type plan struct {
	backend string
	spec    execution.Spec
	command execution.Command // without its streams and terminal
	attach  *attachment       // where to run it; nil makes a sandbox

	interactive, tty  bool
	json, keep, quiet bool

	detach    bool // the command is a task, which is not waited for
	noCommand bool // and there is none
}

// plan makes sense of the flags. changed tells which of them were given.
func (f *runFlags) plan(args []string, changed func(string) bool, lookup func(string) (string, bool)) (*plan, error) {
	p := &plan{backend: f.backend.value, keep: f.keep, noCommand: f.detach && len(args) == 0 && !changed("command")}
	f.fillPlan(p)
	if err := f.agree(); err != nil {
		return nil, err
	}
	if err := f.whole(changed); err != nil {
		return nil, err
	}
	if !p.noCommand {
		const want = "'pinfold run [flags] -- CMD [ARG…]' or 'pinfold run -c LINE'"
		if err := f.fillCommand(&p.command, args, changed, want); err != nil {
			return nil, err
		}
	}
	env, err := f.environment(lookup, f.backend.value == backendDocker)
	if err != nil {
		return nil, err
	}
	if err := f.fillSpec(&p.spec, changed); err != nil {
		return nil, err
	}
	if f.detach {
		p.spec.Env = env // as docker has it: also for what is run in it later
	} else {
		p.command.Env = env
	}
	if path.IsAbs(f.dir) || p.noCommand {
		p.spec.Dir = f.dir
	} else {
		p.command.Dir = f.dir
	}
	return p, p.validate()
}

func (p *plan) validate() error {
	if !p.noCommand {
		if err := p.command.Validate(); err != nil {
			return err
		}
	}
	return p.spec.Validate()
}

// agree refuses flags that exclude each other.
func (f *runFlags) agree() error {
	switch {
	case f.keep && f.backend.value == backendProcess:
		return errors.New("--keep needs --backend docker: on this host nothing is made that could be kept")
	case f.detach && f.backend.value == backendProcess:
		return errors.New("-d needs --backend docker: on this host nothing outlives pinfold")
	case f.detach && f.keep:
		return errors.New("-d and --keep exclude each other: a detached sandbox stays until its lifetime ends")
	}
	return f.commandFlags.agree()
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

func (f *runFlags) fillSpec(s *execution.Spec, changed func(string) bool) (err error) {
	s.Image, s.Platform, s.Name, s.User = f.image, f.platform, f.name, f.user
	if ours, known := images.Lookup(f.image); known {
		s.Image = ours.Ref // by its short name
	}
	s.Network, s.Runtime, s.ReadOnly = f.network, f.runtime, f.readOnly
	s.Detach, s.Lifetime, s.IdleTimeout = f.detach, time.Duration(f.lifetime), time.Duration(f.idle)
	if f.detach && !changed("lifetime") {
		s.Lifetime = defaultLifetime
	}
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
