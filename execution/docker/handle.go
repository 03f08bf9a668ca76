package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// A handle is one container with its guest; see [execution.Handle].
type handle struct {
	c      *Context
	id     string // of the container, in full
	spec   execution.Spec
	stream *stream // the first connection; nil where it was attached to
	client *guest.Client
	door   door // by which its guest is found again
	shared bool // others may have it too, so it is not ours to end
	gvisor bool // the sandbox's kernel is gVisor's

	destroying semaphore // held by the one that removes the container
	removed    bool      // under destroying
}

var _ execution.Handle = (*handle)(nil)

// ID is the container's, as engines show it.
func (h *handle) ID() string { return shortID(h.id) }

func (h *handle) Dir() string           { return h.client.Dir() }
func (h *handle) Spec() execution.Spec  { return h.spec }
func (h *handle) Done() <-chan struct{} { return h.client.Done() }
func (h *handle) Err() error            { return h.client.Err() }

// checkTerminal refuses a terminal of gVisor's: neither the end of the output nor
// the keys for interrupt and end of input come through.
func (h *handle) checkTerminal(op string, cmd execution.Command) error {
	if !h.gvisor || cmd.TTY == nil || cmd.Validate() != nil {
		return nil
	}
	return &execution.Error{
		Op: op, Backend: Type, Handle: h.ID(),
		Err: fmt.Errorf("terminal: %w under gVisor; run it without one, or under another runtime", execution.ErrUnsupported),
	}
}

// Start runs a command; see [execution.Handle].
func (h *handle) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	if err := h.checkTerminal("start", cmd); err != nil {
		return nil, err
	}
	return h.client.Start(ctx, cmd)
}

func (h *handle) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	if err := h.checkTerminal("start task", cmd); err != nil {
		return nil, err
	}
	return h.client.StartTask(ctx, cmd, opts)
}

func (h *handle) Task(ctx context.Context, id string) (execution.Task, error) {
	return h.client.Task(ctx, id)
}

func (h *handle) Tasks(ctx context.Context) iter.Seq2[execution.TaskInfo, error] {
	return h.client.Tasks(ctx)
}

func (h *handle) Events(ctx context.Context) iter.Seq2[execution.Event, error] {
	return h.client.Events(ctx)
}

func (h *handle) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	return h.client.OpenFile(ctx, path, opts)
}

func (h *handle) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	return h.client.WriteFile(ctx, path, r, opts)
}

func (h *handle) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	return h.client.Stat(ctx, path)
}

func (h *handle) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	return h.client.Lstat(ctx, path)
}

func (h *handle) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	return h.client.List(ctx, dir)
}

func (h *handle) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	return h.client.Glob(ctx, dir, pattern)
}

// Destroy removes the container with all that ran in it, or only ends it when
// it is to be kept. One that another host has taken over is that host's.
func (h *handle) Destroy(ctx context.Context) error {
	if h.client.Replaced() {
		return h.Detach(ctx)
	}
	if h.c.opts.Keep {
		bounded, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		_ = h.client.Shutdown(bounded) // Else its lease ends it, or leave does.
		return h.destroy(ctx, h.leave)
	}
	return h.destroy(ctx, h.undo)
}

func (h *handle) destroy(ctx context.Context, end func(context.Context) error) error {
	if h.stream != nil {
		h.stream.keep()
	}
	err := h.client.Close()
	if err := end(ctx); err != nil {
		return &execution.Error{Op: "destroy", Backend: Type, Handle: h.ID(), Err: err}
	}
	h.c.mu.Lock()
	delete(h.c.handles, h)
	h.c.mu.Unlock()
	return err
}

// undo removes the container and hangs up; stream and client may be missing
// yet.
func (h *handle) undo(ctx context.Context) error {
	if err := h.destroying.lock(ctx); err != nil {
		return err
	}
	defer h.destroying.unlock()
	if h.removed {
		return nil
	}
	err := h.c.removeContainer(ctx, h.id)
	if h.client != nil {
		err = errors.Join(err, h.client.Close())
	}
	if h.stream != nil {
		// Also when the removal failed: then the guest ends by itself. The
		// engine may have hung up before.
		_ = h.stream.release()
	}
	if err == nil {
		h.removed = true
		h.c.watch.forget(h.id)
	}
	return err
}
