//go:build unix

package process

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/tasks"
)

// A handle is a working directory and an environment on this host, with what
// runs in them. It is an [execution.Handle]; it never dies by itself.
type handle struct {
	*tasks.Registry // StartTask, Task, Tasks, Events and NextEvent

	context *Context
	id      string
	spec    execution.Spec // without Env
	env     []string

	mu         sync.Mutex
	closed     bool
	processes  map[*proc]struct{} // with something alive, or output to hand on
	files      map[io.Closer]struct{}
	done       chan struct{}
	doneClosed bool
}

var _ execution.Handle = (*handle)(nil)

func newHandle(c *Context, id string, spec execution.Spec) *handle {
	env := mergeEnv(c.opts.Env, spec.Env)
	spec.Env = nil
	h := &handle{
		context: c, id: id, spec: spec, env: env,
		processes: map[*proc]struct{}{}, files: map[io.Closer]struct{}{}, done: make(chan struct{}),
	}
	h.Registry = tasks.New(h.Start, tasks.Options{
		Backend: backendType, Handle: id, Limit: c.opts.TaskOutput,
	})
	return h
}

// ID is a random name.
func (h *handle) ID() string { return h.id }

// Dir is the absolute working directory.
func (h *handle) Dir() string { return h.spec.Dir }

// Spec is what was given to Spawn, with Dir filled in and without Env.
func (h *handle) Spec() execution.Spec { return h.spec }

// Done is closed when the handle has been destroyed.
func (h *handle) Done() <-chan struct{} { return h.done }

// Err is nil until Destroy is called, and then matches execution.ErrClosed.
func (h *handle) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return h.failure("use", "", execution.ErrClosed)
	}
	return nil
}

// failure makes the error that a method returns.
func (h *handle) failure(op, path string, err error) error {
	return &execution.Error{Op: op, Backend: backendType, Handle: h.id, Path: path, Err: err}
}

// usable reports why an operation cannot go on.
func (h *handle) usable(ctx context.Context) error {
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return execution.ErrClosed
	}
	return ctx.Err()
}

// Destroy kills every process that was started here, with all that descends
// from it, tasks or not. Files stay: they are the host's. A Write or Read of the caller's that
// does not return is left behind after two seconds.
func (h *handle) Destroy(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	processes := make([]*proc, 0, len(h.processes))
	for p := range h.processes {
		processes = append(processes, p)
	}
	files := make([]io.Closer, 0, len(h.files))
	for f := range h.files {
		files = append(files, f)
	}
	h.mu.Unlock()

	for _, f := range files {
		_ = f.Close()
	}
	h.End(h.Err())
	for _, p := range processes {
		p.force()
	}
	for i, p := range processes {
		if err := p.awaitGone(ctx); err != nil {
			err = fmt.Errorf("%w: of %d commands processes may be left", err, len(processes)-i)
			return h.failure("destroy", "", err)
		}
	}

	h.mu.Lock()
	if !h.doneClosed {
		h.doneClosed = true
		close(h.done)
	}
	h.mu.Unlock()
	h.context.forget(h)
	return nil
}

// enter registers a process before it is started, so that Destroy waits for it.
func (h *handle) enter(p *proc) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return execution.ErrClosed
	}
	h.processes[p] = struct{}{}
	return nil
}

// leave is called when nothing is left of a process.
func (h *handle) leave(p *proc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.processes, p)
}
