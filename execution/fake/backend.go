package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Options say what a fake backend can do. With the zero value it can do
// everything but run commands, of which it knows none.
type Options struct {
	// Programs are what commands can run, by name. In each sandbox they are
	// executable files in /bin, found by way of PATH.
	Programs map[string]Program

	// Shell runs shell lines, its only argument being the line. Without it
	// they fail with ErrNoShell.
	Shell Program

	// Files are in every sandbox from the start: content by path, relative
	// ones to the working directory.
	Files map[string]string

	// Fault is asked before each call is carried out. An error makes the call
	// fail with it; to delay a call, it takes its time. Its context ends with
	// the call's own and with the sandbox.
	Fault func(ctx context.Context, op Op) error

	// Without holds the capabilities that the backend is to lack.
	Without execution.Capabilities

	// Images, Runtimes, Users and Binds are what there is of them: images
	// that need no pull (others are pulled in no time), runtimes beside the
	// default one, users by name beside root, folders of the host that can be
	// bound (nil means any).
	Images   []string
	Runtimes []string
	Users    map[string]uint32
	Binds    []string
}

// An Op is a call that Options.Fault may make fail.
type Op struct {
	Name    string             // as in execution.Error: "spawn", "start", "write file"
	Spec    *execution.Spec    // of a spawn
	Handle  *Handle            // nil for a spawn
	Command *execution.Command // of a start
	Path    string             // of a call about files
}

// What a sandbox is where its spec does not say.
const (
	DefaultImage = "fake"
	DefaultDir   = "/workspace"
	DefaultUser  = "1000:1000"
	NoShellImage = "scratch" // an image without a shell
	defaultPath  = "/usr/local/bin:/usr/bin:/bin"
)

// A Backend is an execution.Context in memory.
type Backend struct {
	opts Options

	// files guards the file trees of all sandboxes, since a folder that is
	// bound into two of them is shared.
	files sync.Mutex
	binds map[string]*node // by source

	mu      sync.Mutex
	closed  bool
	made    int
	handles map[string]*Handle
}

// New makes a backend.
func New(opts Options) *Backend {
	return &Backend{opts: opts, binds: map[string]*node{}, handles: map[string]*Handle{}}
}

// Type is "fake".
func (b *Backend) Type() string { return "fake" }

// Capabilities is everything but what the options leave out.
func (b *Backend) Capabilities() execution.Capabilities {
	w := b.opts.Without
	return execution.Capabilities{
		Isolation: !w.Isolation, Images: !w.Images, Names: !w.Names, Users: !w.Users, Mounts: !w.Mounts,
		ReadOnlyRoot: !w.ReadOnlyRoot, Networks: !w.Networks, Runtimes: !w.Runtimes, Profiles: !w.Profiles,
		Labels: !w.Labels, MemoryLimit: !w.MemoryLimit, CPULimit: !w.CPULimit, PIDLimit: !w.PIDLimit,
		StorageLimit: !w.StorageLimit, TTY: !w.TTY, ProvenKill: !w.ProvenKill,
	}
}

// Handles are the sandboxes that have not been destroyed, in the order of
// their making.
func (b *Backend) Handles() []*Handle {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.handles), func(x, y *Handle) int { return x.number - y.number })
}

// Spawn makes a sandbox, a *Handle. A bind mount is a folder in memory which
// all sandboxes of the backend that bind the same source share.
func (b *Backend) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := b.spawn(ctx, spec)
	if err != nil {
		return nil, &execution.Error{Op: "spawn", Backend: b.Type(), Err: err}
	}
	return h, nil
}

func (b *Backend) spawn(ctx context.Context, spec execution.Spec) (*Handle, error) {
	if b.opts.Fault != nil {
		if err := b.opts.Fault(ctx, Op{Name: "spawn", Spec: &spec}); err != nil {
			return nil, err
		}
	}
	uid, gid, err := b.check(ctx, &spec)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, execution.ErrClosed
	}
	b.made++
	h := &Handle{
		backend: b, number: b.made, id: "fake-" + strconv.Itoa(b.made), uid: uid, gid: gid,
		done: make(chan struct{}), idle: make(chan struct{}), jobs: map[*job]struct{}{}, cancels: map[int]func(){},
	}
	h.tasks = h.newTasks()
	if spec.Name == "" && b.Capabilities().Names {
		spec.Name = h.id
	}
	for _, other := range b.handles {
		if spec.Name != "" && other.spec.Name == spec.Name {
			return nil, fmt.Errorf("name %q: %w", spec.Name, execution.ErrConflict)
		}
	}
	h.env = spec.Env
	spec.Env = nil
	h.spec = cloneSpec(spec)
	if err := h.plant(); err != nil {
		return nil, err
	}
	b.handles[h.id] = h
	return h, nil
}

// check refuses a spec that cannot be honoured and fills in the defaults.
func (b *Backend) check(ctx context.Context, spec *execution.Spec) (uid, gid uint32, err error) {
	can := b.Capabilities()
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := spec.Validate(); err != nil {
		return 0, 0, err
	}
	if err := can.Check(*spec); err != nil {
		return 0, 0, err
	}
	if spec.Image != "" && spec.Pull == execution.PullNever && !slices.Contains(b.opts.Images, spec.Image) {
		return 0, 0, fmt.Errorf("%w: %q is not here and may not be pulled", execution.ErrImage, spec.Image)
	}
	if spec.Runtime != "" && !slices.Contains(b.opts.Runtimes, spec.Runtime) {
		return 0, 0, fmt.Errorf("runtime %q: %w", spec.Runtime, execution.ErrUnsupported)
	}
	for _, m := range spec.Mounts {
		if m.Type != execution.MountBind {
			continue
		}
		if !strings.HasPrefix(m.Source, "/") || b.opts.Binds != nil && !slices.Contains(b.opts.Binds, m.Source) {
			return 0, 0, fmt.Errorf("%w: bind source %q: want the absolute path of a folder", execution.ErrInvalid, m.Source)
		}
	}
	fill := func(field *string, value string, declared bool) {
		if *field == "" && declared {
			*field = value
		}
	}
	fill(&spec.Image, DefaultImage, can.Images)
	fill(&spec.Dir, DefaultDir, true)
	fill(&spec.Network, execution.NetworkNone, can.Networks)
	fill((*string)(&spec.Profile), string(execution.ProfileDefault), can.Profiles)
	fill(&spec.User, DefaultUser, can.Users)
	if spec.User == "" {
		return b.user(DefaultUser)
	}
	return b.user(spec.User)
}

// user reads "name", "uid", "name:group" or "uid:gid".
func (b *Backend) user(text string) (uid, gid uint32, err error) {
	name, group, hasGroup := strings.Cut(text, ":")
	if uid, err = b.userID(name); err != nil || !hasGroup {
		return uid, uid, err
	}
	gid, err = b.userID(group)
	return uid, gid, err
}

func (b *Backend) userID(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	if id, ok := b.opts.Users[name]; ok {
		return id, nil
	}
	if name == "root" {
		return 0, nil
	}
	return 0, fmt.Errorf("%w: %q", execution.ErrUserNotFound, name)
}

// Close destroys what is still alive.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	const deadline = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var errs []error
	for _, h := range b.Handles() {
		errs = append(errs, h.Destroy(ctx))
	}
	return errors.Join(errs...)
}

func cloneSpec(s execution.Spec) execution.Spec {
	s.Mounts, s.Relax, s.Labels = slices.Clone(s.Mounts), slices.Clone(s.Relax), maps.Clone(s.Labels)
	return s
}

var _ execution.Context = (*Backend)(nil)
