package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/tasks"
)

// A Handle is a sandbox in memory. Its methods beyond those of
// execution.Handle make it misbehave and tell what goes on inside.
type Handle struct {
	backend  *Backend
	number   int
	id       string
	spec     execution.Spec
	env      []string
	uid, gid uint32

	tree  *tree // guarded by Backend.files
	tasks *tasks.Registry

	done chan struct{} // closed at the end of the sandbox
	idle chan struct{} // closed when, after that, no process is left

	mu      sync.Mutex
	err     error // why it ended
	resumed chan struct{}
	jobs    map[*job]struct{} // those that have processes
	live    int               // processes
	memory  int64             // bytes that processes have allocated
	lastPID int
	cancels map[int]func() // of the calls that are under way
	calls   int
}

// ID names the sandbox.
func (h *Handle) ID() string { return h.id }

// Dir is the working directory.
func (h *Handle) Dir() string { return h.spec.Dir }

// Spec is what is in force.
func (h *Handle) Spec() execution.Spec { return cloneSpec(h.spec) }

// Done is closed when the sandbox has ended.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Err says why the sandbox has ended.
func (h *Handle) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Die ends the sandbox as if it had died by itself, for the reason given.
func (h *Handle) Die(reason string) {
	h.end(&execution.Error{
		Backend: h.backend.Type(), Handle: h.id, Err: fmt.Errorf("%w: %s", execution.ErrLost, reason),
	}, reason)
}

// Pause freezes the sandbox: calls fail with ErrPaused, and programs stop at
// their next read or write.
func (h *Handle) Pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resumed == nil {
		h.resumed = make(chan struct{})
	}
}

// Resume ends a pause.
func (h *Handle) Resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resumed != nil {
		close(h.resumed)
		h.resumed = nil
	}
}

// Processes are those alive in the sandbox, in order of their IDs.
func (h *Handle) Processes() []execution.ProcessInfo {
	h.mu.Lock()
	jobs := slices.Collect(maps.Keys(h.jobs))
	h.mu.Unlock()
	var all []execution.ProcessInfo
	for _, j := range jobs {
		all = append(all, j.alive()...)
	}
	slices.SortFunc(all, func(a, b execution.ProcessInfo) int { return a.PID - b.PID })
	return all
}

// Destroy ends the sandbox. It waits for the programs that run in it to see
// that and return.
func (h *Handle) Destroy(ctx context.Context) error {
	faultErr := h.fault(ctx, Op{Name: "destroy"})
	if faultErr != nil {
		return h.fail("destroy", "", faultErr)
	}
	h.end(&execution.Error{Backend: h.backend.Type(), Handle: h.id, Err: execution.ErrClosed}, "")
	select {
	case <-h.idle:
	default:
		select {
		case <-h.idle:
		case <-ctx.Done():
			return h.fail("destroy", "", fmt.Errorf("%w: programs are still running", ctx.Err()))
		}
	}
	h.backend.mu.Lock()
	defer h.backend.mu.Unlock()
	delete(h.backend.handles, h.id)
	return nil
}

// end ends the sandbox, for good and only once. A reason means that it died.
func (h *Handle) end(err error, reason string) {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return
	}
	h.err = err
	close(h.done)
	if h.live == 0 {
		close(h.idle)
	}
	jobs, cancels := slices.Collect(maps.Keys(h.jobs)), slices.Collect(maps.Values(h.cancels))
	h.mu.Unlock()
	h.tasks.End(err)
	for _, cancel := range cancels {
		cancel()
	}
	for _, j := range jobs {
		j.sandboxEnded(err, reason)
	}
}

// enter is the beginning of every call: it fails when the sandbox has ended or
// is paused, when the context has, or when the script of faults says so. The
// context that it returns ends with the sandbox; leave must be called.
func (h *Handle) enter(ctx context.Context, op Op) (_ context.Context, leave func(), err error) {
	if err := h.usable(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	h.calls++
	n := h.calls
	h.cancels[n] = cancel
	h.mu.Unlock()
	leave = func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.cancels, n)
	}
	if err := h.fault(ctx, op); err != nil {
		leave()
		return nil, nil, cmp.Or(h.Err(), err) // the end of the sandbox says more
	}
	if err := h.ended(ctx); err != nil {
		leave()
		return nil, nil, err
	}
	return ctx, leave, nil
}

func (h *Handle) usable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil && h.resumed != nil {
		return execution.ErrPaused
	}
	return h.err
}

// ended is why a call cannot go on, if it cannot.
func (h *Handle) ended(ctx context.Context) error {
	if err := h.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return cmp.Or(h.Err(), err) // its end may have come in between, and says more
	}
	return nil
}

func (h *Handle) fault(ctx context.Context, op Op) error {
	if h.backend.opts.Fault == nil {
		return nil
	}
	op.Handle = h
	return h.backend.opts.Fault(ctx, op)
}

// waitResumed blocks while the sandbox is paused.
func (h *Handle) waitResumed(stop <-chan struct{}) {
	h.mu.Lock()
	resumed := h.resumed
	h.mu.Unlock()
	if resumed == nil {
		return
	}
	select {
	case <-resumed:
	case <-stop:
	}
}

// fail makes the error of a call.
func (h *Handle) fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if own := (*execution.Error)(nil); errors.As(err, &own) && own.Handle == h.id && own.Op == "" {
		err = own.Err // the end of the sandbox, which names it already
	}
	return &execution.Error{Op: op, Backend: h.backend.Type(), Handle: h.id, Path: path, Err: err}
}

var _ execution.Handle = (*Handle)(nil)
