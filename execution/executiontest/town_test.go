package executiontest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A town is what Contexts that are Attachers share: the sandboxes of all of
// them. Each of its faults breaks a promise about attaching.
type town struct {
	undeclared    bool // the capability is denied
	hides         bool // the list leaves out what others have made
	claims        bool // the list tells everybody that all is theirs
	knowsNoNear   bool // an unknown name is answered with nothing more
	wantsAll      bool // nothing but a whole ID will do
	keepsDead     bool // what was destroyed stays on the list
	careless      bool // who holds a sandbox does not matter
	lenient       bool // a host that was put out notices nothing
	vengeful      bool // a host that was put out destroys what it had
	unsociable    bool // sharing is refused
	forgetsTasks  bool // letting go kills the tasks
	forgetsFiles  bool // letting go removes files
	forgetsEvents bool // attaching drops what was not told
	keepsRunning  bool // letting go leaves commands in the foreground

	mu    sync.Mutex
	boxes []*box
}

// A box is one sandbox.
type box struct {
	inner   execution.Handle
	maker   *citizen
	tenants []*tenant
	dead    bool
}

// A citizen is a Context of a town.
type citizen struct {
	execution.Context
	town *town
}

var _ execution.Attacher = (*citizen)(nil)

func (t *town) wrap(backend execution.Context) execution.Context {
	return &citizen{Context: backend, town: t}
}

func (c *citizen) Capabilities() execution.Capabilities {
	can := c.Context.Capabilities()
	can.Attach = !c.town.undeclared
	return can
}

func (c *citizen) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := c.Context.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.town.mu.Lock()
	defer c.town.mu.Unlock()
	b := &box{inner: h, maker: c}
	c.town.boxes = append(c.town.boxes, b)
	return c.town.let(b, execution.AttachExclusive), nil
}

func (c *citizen) Sandboxes(context.Context) ([]execution.SandboxInfo, error) {
	c.town.mu.Lock()
	defer c.town.mu.Unlock()
	var all []execution.SandboxInfo
	for _, b := range c.town.boxes {
		spec := b.inner.Spec()
		if b.dead && !c.town.keepsDead || c.town.hides && b.maker != c {
			continue
		}
		all = append(all, execution.SandboxInfo{
			ID: b.inner.ID(), Name: spec.Name, Image: spec.Image, State: "running", Created: time.Now(),
			Mine: b.maker == c || c.town.claims, Labels: spec.Labels,
		})
	}
	return all, nil
}

func (c *citizen) Attach(ctx context.Context, id string, opts execution.AttachOptions) (execution.Handle, error) {
	h, err := c.attach(ctx, id, opts.Mode)
	if err != nil {
		return nil, &execution.Error{Op: "attach", Backend: c.Type(), Handle: id, Err: err}
	}
	return h, nil
}

func (c *citizen) attach(ctx context.Context, id string, mode execution.AttachMode) (execution.Handle, error) {
	t := c.town
	if !slices.Contains([]execution.AttachMode{execution.AttachExclusive, execution.AttachTakeOver, execution.AttachShared}, mode) {
		return nil, fmt.Errorf("%w: mode %q", execution.ErrInvalid, mode)
	}
	b, err := t.find(id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	var over []*tenant
	for _, other := range b.tenants {
		switch {
		case mode == execution.AttachShared && other.mode == mode && !t.unsociable, t.careless:
		case mode != execution.AttachTakeOver:
			t.mu.Unlock()
			return nil, fmt.Errorf("%w: another host holds it", execution.ErrConflict)
		default:
			over = append(over, other)
		}
	}
	h := t.let(b, mode)
	t.mu.Unlock()
	for _, other := range over {
		if !t.lenient {
			other.end(ctx, fmt.Errorf("%w: another host has taken over", execution.ErrLost))
		}
	}
	if t.forgetsEvents {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, err := range b.inner.Events(limited) { // nobody hears them
			if err != nil {
				break
			}
		}
	}
	return h, nil
}

func (t *town) find(name string) (*box, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var near []string
	for _, b := range t.boxes {
		id := b.inner.ID()
		if b.dead && !t.keepsDead {
			continue
		}
		if name == id || !t.wantsAll && (name == b.inner.Spec().Name || strings.HasPrefix(id, name)) {
			return b, nil
		}
		near = append(near, id)
	}
	if t.knowsNoNear {
		near = nil
	}
	return nil, fmt.Errorf("%w: there are %q", execution.ErrNotFound, near)
}

// let makes a handle of a box. mu is held.
func (t *town) let(b *box, mode execution.AttachMode) *tenant {
	h := &tenant{Handle: b.inner, town: t, box: b, mode: mode, done: make(chan struct{})}
	b.tenants = append(b.tenants, h)
	return h
}

// A tenant is a host's handle of a box.
type tenant struct {
	execution.Handle
	town *town
	box  *box
	mode execution.AttachMode
	done chan struct{}

	mu    sync.Mutex
	err   error
	procs []execution.Process
}

func (h *tenant) Done() <-chan struct{}    { return h.done }
func (h *tenant) Unwrap() execution.Handle { return h.Handle }

func (h *tenant) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// end ends the handle, and what it ran in the foreground.
func (h *tenant) end(ctx context.Context, err error) {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return
	}
	h.err = &execution.Error{Backend: "town", Handle: h.ID(), Err: err}
	procs := h.procs
	h.mu.Unlock()
	close(h.done)
	h.town.mu.Lock()
	h.box.tenants = slices.DeleteFunc(h.box.tenants, func(other *tenant) bool { return other == h })
	h.town.mu.Unlock()
	for _, p := range procs {
		if !h.town.keepsRunning {
			_ = p.Kill(ctx) // the sandbox may be gone, and it with it
		}
	}
}

func (h *tenant) Detach(ctx context.Context) error {
	if h.Err() != nil {
		return nil
	}
	if h.town.forgetsTasks {
		for info, err := range h.Tasks(ctx) {
			if t, findErr := h.Handle.Task(ctx, info.ID); errors.Join(err, findErr) == nil {
				_ = t.Kill(ctx) // it is broken anyway
			}
		}
	}
	if h.town.forgetsFiles {
		_ = h.Handle.WriteFile(ctx, "kept", strings.NewReader(""), execution.WriteOptions{})
	}
	h.end(ctx, execution.ErrClosed)
	return nil
}

func (h *tenant) Destroy(ctx context.Context) error {
	if h.Err() != nil && !h.town.vengeful {
		return nil
	}
	err := h.Handle.Destroy(ctx)
	h.town.mu.Lock()
	h.box.dead = true
	h.town.mu.Unlock()
	h.end(ctx, execution.ErrClosed)
	return err
}

func (h *tenant) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	if err := h.Err(); err != nil {
		return nil, err
	}
	p, err := h.Handle.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs = append(h.procs, p)
	return &tenantProcess{p, h}, nil
}

func (h *tenant) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	if err := h.Err(); err != nil {
		return nil, err
	}
	return h.Handle.StartTask(ctx, cmd, opts)
}

func (h *tenant) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	if err := h.Err(); err != nil {
		return execution.FileInfo{}, err
	}
	return h.Handle.Stat(ctx, path)
}

func (h *tenant) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	if err := h.Err(); err != nil {
		return nil, err
	}
	return h.Handle.OpenFile(ctx, path, opts)
}

// A tenantProcess is lost with its host's handle.
type tenantProcess struct {
	execution.Process
	handle *tenant
}

func (p *tenantProcess) Wait(ctx context.Context) (execution.ExitStatus, error) {
	status, err := p.Process.Wait(ctx)
	if ended := p.handle.Err(); ended != nil && status.Ending == execution.EndingCancelled {
		return execution.ExitStatus{Ending: execution.EndingLost, Code: -1, Reason: ended.Error()}, ended
	}
	return status, err
}
