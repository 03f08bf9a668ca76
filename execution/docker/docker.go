package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/guestbin"
)

// Type is what [Context.Type] returns.
const Type = "docker"

// Options says how to reach an engine and what sandboxes are like. The zero
// value works.
type Options struct {
	// Host is the engine's address as in DOCKER_HOST; "" finds it as the
	// docker command does: DOCKER_HOST, DOCKER_CONTEXT, the current context of
	// its configuration, and else the usual places of Docker (also rootless
	// and Desktop), Colima and Podman.
	Host string

	// Image is used where a spec names none; "" is [images.Sandbox].
	Image string

	// Progress, when not nil, is told how an image comes along. It may be
	// called from several goroutines when several sandboxes are made at once.
	Progress images.Progress

	// Owner says whose sandboxes these are, as a label that [Context.List]
	// shows; "" is the name of the process's user and host.
	Owner string

	// Lease is how long a sandbox lives on when nothing is heard of its host;
	// 0 is a minute, and less than a second is refused. The host renews it
	// three times as often. One that is attached to keeps the lease that it has.
	Lease time.Duration

	// EndWithHost ends a sandbox as soon as its guest sees that the host has
	// gone, and not only when the lease has run out; of one that was attached to,
	// what this host runs in the foreground ends so. It is for hosts that do not
	// come back.
	EndWithHost bool

	// Keep makes Destroy leave the container, stopped and with its files, for
	// somebody to look at; so does the end of a sandbox by itself. List shows
	// it, and Remove removes it. A Spawn that fails keeps nothing.
	Keep bool

	// Guest returns the static binary that runs inside, by the engine's
	// architecture as Go names it; nil takes the one built into this program.
	Guest func(goarch string) ([]byte, error)
}

// A Context makes sandboxes on one engine. It implements [execution.Context].
type Context struct {
	opts    Options
	engine  engine
	info    engineInfo
	caps    execution.Capabilities
	guard   guard
	id      string // of this Context, on every container of it
	process string // of this process, likewise
	watch   *watcher

	removing sync.WaitGroup // of strays; Add only under mu while not closed

	stopCollecting context.CancelFunc

	mu      sync.Mutex
	closed  bool
	making  sync.WaitGroup                        // Spawns under way; Add only under mu while not closed
	cancels map[*context.CancelCauseFunc]struct{} // theirs
	handles map[*handle]struct{}
	locks   map[string]chan struct{}  // of what is being found out; see remember
	guests  map[string]guestbin.Guest // by architecture
	strays  map[string]createRequest  // by labelSandbox
	derived map[string]derivedImage   // by key
	users   map[string]identity       // by image ID and name
}

// New finds an engine and asks what it can do. It leaves nothing there; only
// where the engine does not tell whether it can limit storage, a container is
// made to see, never started, and removed.
//
// It fails with execution.ErrUnavailable when none answers, or only one that
// is too old or runs no Linux containers; the error then tells each place that
// was tried and what to do.
func New(ctx context.Context, opts Options) (*Context, error) {
	env := systemEnvironment()
	found, err := env.discover(ctx, opts.Host)
	if err == nil {
		var c *Context
		if c, err = newContext(ctx, found, opts, env); err == nil {
			return c, nil
		}
		err = errors.Join(err, found.close())
	}
	return nil, &execution.Error{Op: "connect to the engine", Backend: Type, Err: err}
}

// minLease leaves a host that is held up for a moment the time to renew it.
const minLease = time.Second

func newContext(ctx context.Context, e engine, opts Options, env environment) (*Context, error) {
	info, err := e.info(ctx)
	if err != nil {
		return nil, err
	}
	if info.System != "linux" {
		return nil, fmt.Errorf("%w: the engine at %s runs %s containers; switch it to Linux containers",
			execution.ErrUnavailable, e.where(), info.System)
	}
	if opts.Image == "" {
		opts.Image = images.Sandbox
	}
	switch {
	case opts.Lease == 0:
		opts.Lease = guest.DefaultLease
	case opts.Lease < minLease:
		return nil, fmt.Errorf("%w: a lease of %v: want at least %v", execution.ErrInvalid, opts.Lease, minLease)
	}
	if opts.Owner == "" {
		opts.Owner = processOwner()
	}
	c := &Context{
		opts: opts, engine: e, info: info, guard: newGuard(e.where(), e.local(), info.RootDir, env),
		id: newID(), process: processID(),
		guests: map[string]guestbin.Guest{}, handles: map[*handle]struct{}{},
		derived: map[string]derivedImage{}, users: map[string]identity{},
		cancels: map[*context.CancelCauseFunc]struct{}{}, locks: map[string]chan struct{}{},
	}
	c.caps = info.capabilities(e.local())
	c.caps.StorageLimit = c.caps.StorageLimit || probeStorage(ctx, e, info)
	c.watch = newWatcher(e, labelVersion+"="+labelsVersion)
	c.watch.created = c.created
	c.collectAtStart(ctx)
	return c, nil
}

// Type is "docker", also where the engine is Podman.
func (c *Context) Type() string { return Type }

// Capabilities says what this engine can do and enforce.
func (c *Context) Capabilities() execution.Capabilities { return c.caps }

// Engine describes the engine, for people: where it is, and its version.
func (c *Context) Engine() string {
	name := "Docker"
	if c.info.Podman {
		name = "Podman"
	}
	return fmt.Sprintf("%s %s at %s", name, c.info.Version, c.engine.where())
}

// Images is the engine as package images wants it.
func (c *Context) Images() images.Engine { return c.engine }

// closeLimit bounds what Close does.
const closeLimit = 60 * time.Second

// destroysAtOnce is how many sandboxes Close removes at the same time.
const destroysAtOnce = 16

// Close destroys the sandboxes that are still alive, waits for what is under
// way, and lets go of the engine. Those that live without a host, or that are
// shared with others, are detached from.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for cancel := range c.cancels {
		(*cancel)(execution.ErrClosed)
	}
	c.mu.Unlock()
	c.stopCollecting()
	c.making.Wait()

	c.mu.Lock()
	left := make([]*handle, 0, len(c.handles))
	for h := range c.handles {
		left = append(left, h)
	}
	c.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	errs := make([]error, len(left))
	var group errgroup.Group
	group.SetLimit(destroysAtOnce)
	for i, h := range left {
		group.Go(func() error {
			if h.spec.Detach || h.shared {
				errs[i] = h.Detach(ctx)
			} else {
				errs[i] = h.Destroy(ctx)
			}
			return nil
		})
	}
	err := errors.Join(group.Wait(), errors.Join(errs...))
	c.watch.stop()
	return errors.Join(err, c.removeStrays(ctx), c.engine.close())
}

// begin counts a Spawn as under way; Close ends its context and waits for done.
func (c *Context) begin(ctx context.Context) (_ context.Context, done func(), _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, execution.ErrClosed
	}
	c.making.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	c.cancels[&cancel] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.cancels, &cancel)
		c.mu.Unlock()
		cancel(nil)
		c.making.Done()
	}, nil
}

// guestFor returns the guest for an architecture, and its digest.
func (c *Context) guestFor(ctx context.Context, goarch string) (guestbin.Guest, error) {
	return remember(ctx, c, c.guests, "guest "+goarch, func() (g guestbin.Guest, err error) {
		if c.opts.Guest == nil {
			g, err = guestbin.Binary(goarch)
		} else if g.Data, err = c.opts.Guest(goarch); err == nil {
			sum := sha256.Sum256(g.Data)
			g.Digest = hex.EncodeToString(sum[:])
		}
		if err != nil {
			err = fmt.Errorf("guest for %s: %w", goarch, err)
		}
		return g, err
	})
}

// remember returns what cache holds for key, or finds it out with f and keeps
// it. Of several that ask at once, one finds it out; when it fails or is
// cancelled, the next one tries.
func remember[T any](ctx context.Context, c *Context, cache map[string]T, key string, f func() (T, error)) (T, error) {
	c.mu.Lock()
	lock := c.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		c.locks[key] = lock
	}
	found, ok := cache[key]
	c.mu.Unlock()
	if ok {
		return found, nil
	}
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
	c.mu.Lock()
	found, ok = cache[key]
	c.mu.Unlock()
	if ok {
		return found, nil
	}
	found, err := f()
	if err == nil {
		c.mu.Lock()
		cache[key] = found
		c.mu.Unlock()
	}
	return found, err
}
