package execution

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Bounds on what a Spec may ask for. They are far above what any machine has:
// beyond them a number is a mistake, not a wish.
const (
	MinMemory  = 16 << 20 // bytes; the guest and a shell need that much
	maxMemory  = 1 << 50
	maxCPUs    = 4096
	minCPUs    = 0.01
	MinPIDs    = 32 // the guest, its threads and a shell need that many
	maxPIDs    = 4 << 20
	maxTimeout = 10 * 365 * 24 * time.Hour

	// MinLifetime is the shortest time for which a sandbox can be made.
	MinLifetime = time.Second
)

// Validate reports what is wrong with a command whatever the backend: the
// error matches ErrInvalid, names the field and says what would be right.
func (c Command) Validate() error {
	switch {
	case len(c.Args) == 0 && c.Shell == "":
		return invalid("command is empty: set Args or Shell")
	case len(c.Args) > 0 && c.Shell != "":
		return invalid("command has both Args and Shell: set one of them")
	case len(c.Args) > 0 && c.Args[0] == "":
		return invalid("command's program is an empty string")
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return invalid("timeout %v: want 0 (none) or a positive duration", c.Timeout)
	case c.OutputLimit < 0:
		return invalid("output limit %d: want 0 (none) or a positive number of bytes", c.OutputLimit)
	case c.Grace > maxTimeout:
		return invalid("grace %v: too long", c.Grace)
	case c.TTY != nil && c.Stderr != nil:
		return invalid("command has a TTY and a Stderr: on a terminal all output goes to Stdout")
	}
	for i, arg := range append([]string{c.Shell, c.Dir}, c.Args...) {
		if strings.IndexByte(arg, 0) >= 0 {
			return invalid("%s holds a NUL byte", []string{"shell line", "directory", "argument"}[min(i, 2)])
		}
	}
	return validateEnv(c.Env)
}

// Validate reports what is wrong with a spec whatever the backend, as
// [Command.Validate] does.
func (s Spec) Validate() error {
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return invalid("directory %s: want an absolute path", quotePath(s.Dir))
	}
	for field, text := range map[string]string{
		"image": s.Image, "platform": s.Platform, "name": s.Name, "directory": s.Dir,
		"user": s.User, "network": s.Network, "runtime": s.Runtime,
	} {
		if strings.IndexByte(text, 0) >= 0 {
			return invalid("%s holds a NUL byte", field)
		}
	}
	if !slices.Contains([]PullPolicy{"", PullMissing, PullAlways, PullNever}, s.Pull) {
		return invalid("pull policy %q: want missing, always or never", s.Pull)
	}
	if !slices.Contains([]Profile{"", ProfileDefault, ProfileDev}, s.Profile) {
		return invalid("profile %q: want default or dev", s.Profile)
	}
	for _, r := range s.Relax {
		if !slices.Contains([]Relaxation{RelaxMemory, RelaxPIDs, RelaxCPUs, RelaxSeccomp}, r) {
			return invalid("relaxation %q: want memory, pids, cpus or seccomp", r)
		}
	}
	for name := range s.Labels {
		if name == "" || strings.HasPrefix(name, LabelPrefix) {
			return invalid("label %q: names may not be empty or start with %q, which is reserved", name, LabelPrefix)
		}
	}
	for _, m := range s.Mounts {
		if err := m.validate(); err != nil {
			return err
		}
	}
	if err := s.Limits.validate(s.Relax); err != nil {
		return err
	}
	if err := s.validateLife(); err != nil {
		return err
	}
	return validateEnv(s.Env)
}

func (s Spec) validateLife() error {
	for name, d := range map[string]time.Duration{"lifetime": s.Lifetime, "idle timeout": s.IdleTimeout} {
		if d != 0 && (d < MinLifetime || d > maxTimeout) {
			return invalid("%s %v: want 0 (none) or at least %v", name, d, MinLifetime)
		}
	}
	if s.Detach && s.Lifetime == 0 {
		return invalid("a detached sandbox has no lifetime: set how long it may live")
	}
	return nil
}

// ValidateTask reports what is wrong with a command as a task, as Validate
// does for one in the foreground.
func (c Command) ValidateTask(opts TaskOptions) error {
	switch {
	case c.Stdin != nil:
		return invalid("a task has a Stdin: what it reads is empty")
	case c.Stdout != nil || c.Stderr != nil:
		return invalid("a task has a Stdout or Stderr: its output is kept, and read with Task.OpenOutput")
	case opts.Keep < 0 || opts.Keep > MaxTaskOutput:
		return invalid("output to keep of %d bytes: want 0 (default) or up to %d", opts.Keep, int64(MaxTaskOutput))
	}
	return c.Validate()
}

// Validate reports what is wrong with a choice of a task's output.
func (o OutputOptions) Validate(stream OutputStream) error {
	switch {
	case stream != Stdout && stream != Stderr:
		return invalid("output stream %d: want Stdout or Stderr", stream)
	case o.Length < 0:
		return invalid("length %d: want 0 (no bound) or a positive number of bytes", o.Length)
	}
	return nil
}

func (m Mount) validate() error {
	switch {
	case strings.IndexByte(m.Source+m.Target, 0) >= 0:
		return invalid("mount holds a NUL byte")
	case !path.IsAbs(m.Target) || path.Clean(m.Target) == "/":
		return invalid("mount target %s: want an absolute path other than /", quotePath(m.Target))
	case m.Mode&^(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|0o7777) != 0:
		return invalid("mount mode %v: want permissions only", m.Mode)
	case m.Size < 0 || m.Size > maxMemory:
		return invalid("mount size %d: want 0 (default) or a positive number of bytes", m.Size)
	}
	switch m.Type {
	case MountBind:
		if m.Source == "" {
			return invalid("bind mount on %s has no source", quotePath(m.Target))
		}
		if m.Size != 0 || m.Mode != 0 {
			return invalid("bind mount on %s has a size or mode: only tmpfs has", quotePath(m.Target))
		}
	case MountTmpfs:
		if m.Source != "" {
			return invalid("tmpfs mount on %s has a source: only bind has", quotePath(m.Target))
		}
	default:
		return invalid("mount type %q: want bind or tmpfs", m.Type)
	}
	return nil
}

func (l Limits) validate(relax []Relaxation) error {
	switch {
	case l.Memory != 0 && (l.Memory < MinMemory || l.Memory > maxMemory):
		return invalid("memory limit of %d bytes: want 0 (default) or at least %d", l.Memory, int64(MinMemory))
	case l.CPUs != 0 && !(l.CPUs >= minCPUs && l.CPUs <= maxCPUs):
		return invalid("cpu limit %v: want 0 (default) or %v to %v processors", l.CPUs, minCPUs, maxCPUs)
	case l.PIDs != 0 && (l.PIDs < MinPIDs || l.PIDs > maxPIDs):
		return invalid("pid limit %d: want 0 (default) or at least %d", l.PIDs, MinPIDs)
	case l.Storage < 0 || l.Storage > maxMemory:
		return invalid("storage limit of %d bytes: want 0 (default) or a positive number", l.Storage)
	}
	for name, set := range map[Relaxation]bool{
		RelaxMemory: l.Memory != 0, RelaxCPUs: l.CPUs != 0, RelaxPIDs: l.PIDs != 0,
	} {
		if set && slices.Contains(relax, name) {
			return invalid("%s is both limited and relaxed: choose one", name)
		}
	}
	return nil
}

func validateEnv(env []string) error {
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
			return invalid("environment entry %q: want NAME=value", truncateEntry(name))
		case strings.IndexByte(entry, 0) >= 0:
			return invalid("environment entry %q holds a NUL byte", truncateEntry(name))
		}
	}
	return nil
}

// truncateEntry keeps what may be a secret out of messages.
func truncateEntry(name string) string {
	const limit = 64
	if len(name) > limit {
		return name[:limit] + "…"
	}
	return name
}

// Check reports the first field of spec that a backend with these
// capabilities cannot honour: the error matches ErrUnsupported and names it.
func (c Capabilities) Check(spec Spec) error {
	for _, field := range []struct {
		name     string
		set, can bool
	}{
		{"image", spec.Image != "", c.Images},
		{"platform", spec.Platform != "", c.Images},
		{"pull policy", spec.Pull != "", c.Images},
		{"name", spec.Name != "", c.Names},
		{"user", spec.User != "", c.Users},
		{"mounts", len(spec.Mounts) > 0, c.Mounts},
		{"read-only root", spec.ReadOnly, c.ReadOnlyRoot},
		{"network", spec.Network != "", c.Networks},
		{"runtime", spec.Runtime != "", c.Runtimes},
		{"profile", spec.Profile != "", c.Profiles},
		{"relaxations", len(spec.Relax) > 0, c.Profiles},
		{"labels", len(spec.Labels) > 0, c.Labels},
		{"detach", spec.Detach, c.Attach},
		{"lifetime", spec.Lifetime != 0, c.Lifetimes},
		{"idle timeout", spec.IdleTimeout != 0, c.Lifetimes},
		{"memory limit", spec.Limits.Memory != 0, c.MemoryLimit},
		{"cpu limit", spec.Limits.CPUs != 0, c.CPULimit},
		{"pid limit", spec.Limits.PIDs != 0, c.PIDLimit},
		{"storage limit", spec.Limits.Storage != 0, c.StorageLimit},
	} {
		if field.set && !field.can {
			return fmt.Errorf("%s: %w by this backend", field.name, ErrUnsupported)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
