//go:build unix

package process

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// closeDeadline bounds Close.
const closeDeadline = 10 * time.Second

// A Context runs commands on this host. It is an [execution.Context].
type Context struct {
	opts     Options
	launcher launcher
	null     int       // a descriptor of /dev/null
	buffers  sync.Pool // of *[bufferSize]byte

	giveUp chan struct{} // closed when Close does not wait any longer

	mu      sync.Mutex
	handles map[*handle]struct{}
	closed  bool
}

var _ execution.Context = (*Context)(nil)

// New makes a Context. It must be closed.
//
// On Linux it forks the nursery (see the package comment), and fails with
// execution.ErrUnavailable where that cannot be: where /proc is not mounted, or
// no process can be made.
func New(opts Options) (*Context, error) {
	c, err := newContext(opts)
	if err != nil {
		err = fmt.Errorf("%w: %w", execution.ErrUnavailable, err)
		return nil, &execution.Error{Op: "new", Backend: backendType, Err: err}
	}
	return c, nil
}

func newContext(opts Options) (*Context, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	l, err := newLauncher(null, opts.FirstProcess)
	if err != nil {
		_ = unix.Close(null)
		return nil, err
	}
	c := &Context{
		opts: opts, launcher: l, null: null,
		handles: map[*handle]struct{}{}, giveUp: make(chan struct{}),
	}
	c.buffers.New = func() any { return new([bufferSize]byte) }
	return c, nil
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return o, err
		}
		o.Dir = dir
	}
	if o.Env == nil {
		o.Env = CleanEnv(os.Environ())
	}
	o.Env = slices.Clip(slices.Clone(o.Env))
	return o, nil
}

// Type is "process".
func (c *Context) Type() string { return backendType }

// Capabilities are TTY and ProvenKill on Linux, and nothing else: there is no
// isolation, and there are no limits.
func (c *Context) Capabilities() execution.Capabilities {
	return execution.Capabilities{TTY: canTTY, ProvenKill: c.launcher.provenKill()}
}

// Spawn makes a handle, which is a working directory and an environment.
func (c *Context) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := c.spawn(ctx, spec)
	if err != nil {
		e := &execution.Error{Op: "spawn", Backend: backendType, Err: err}
		if isAboutDir(err) {
			e.Path = spec.Dir
		}
		return nil, e
	}
	return h, nil
}

func (c *Context) spawn(ctx context.Context, spec execution.Spec) (*handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := c.Capabilities().Check(spec); err != nil {
		return nil, err
	}
	if spec.Dir == "" {
		spec.Dir = c.opts.Dir
	}
	if err := checkDir(spec.Dir); err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	h := newHandle(c, hex.EncodeToString(random[:]), spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, execution.ErrClosed
	}
	c.handles[h] = struct{}{}
	return h, nil
}

// forget is called by a handle that has been destroyed.
func (c *Context) forget(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.handles, h)
}

// Close destroys all handles and ends the supervisors. It takes some ten
// seconds at most, and as long only when a process cannot be killed.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	handles := make([]*handle, 0, len(c.handles))
	for h := range c.handles {
		handles = append(handles, h)
	}
	c.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), closeDeadline)
	defer cancel()
	errs := make([]error, len(handles))
	var group sync.WaitGroup
	for i, h := range handles {
		group.Go(func() { errs[i] = h.Destroy(ctx) })
	}
	group.Wait()
	close(c.giveUp)
	c.launcher.close()
	return errors.Join(append(errs, unix.Close(c.null))...)
}
