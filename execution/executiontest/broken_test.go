package executiontest_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
	"github.com/pinfold-dev/pinfold/execution/internal/fakekit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fault is a backend that breaks one promise, and the cases that must notice.
type fault struct {
	name   string
	cases  []string
	make   func(w *world) // breaks w
	told   string         // what the kit's complaint must hold
	opts   fake.Options
	change func(*executiontest.Harness)
}

// TestBrokenBackends lets the kit loose on backends of which each breaks one
// promise. It must fail each of them in the right case.
func TestBrokenBackends(t *testing.T) {
	var all []fault
	for _, some := range [][]fault{
		outputFaults(), endingFaults(), killFaults(), inputFaults(), fileFaults(), treeFaults(), lifeFaults(), limitFaults(),
		taskFaults(),
	} {
		all = append(all, some...)
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			for _, name := range f.cases {
				t.Run(name, func(t *testing.T) { mustFail(t, f, name) })
			}
		})
	}
}

// TestSoundBackend makes sure that it is the fault which fails the cases, and
// not what the faults are built with.
func TestSoundBackend(t *testing.T) {
	for _, name := range []string{"output/separate", "kill/tree", "files/roundtrip", "tree/glob", "destroy/idempotent", "tasks/kill_tree", "tasks/output_is_live", "tasks/events_once"} {
		t.Run(name, func(t *testing.T) {
			if said := runBroken(t, fault{make: func(*world) {}}, name); said != "" {
				t.Errorf("the kit found fault with a sound backend: %s", said)
			}
		})
	}
}

func mustFail(t *testing.T, f fault, name string) {
	t.Helper()
	said := runBroken(t, f, name)
	if said == "" {
		t.Fatal("the kit found no fault")
	}
	if !strings.Contains(said, f.told) {
		t.Errorf("the kit said %q, which does not hold %q", said, f.told)
	}
}

// runBroken runs one case and tells what the kit complained about.
func runBroken(t *testing.T, f fault, name string) (said string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{stop: make(chan struct{})}
		// Whatever a broken backend holds on to is let go in the end.
		t.Cleanup(func() { close(w.stop) })
		f.make(w)
		harness := fakekit.Harness(f.opts, w.wrap)
		if f.change != nil {
			f.change(&harness)
		}
		rec := &recorder{TB: t}
		executiontest.RunCase(rec, harness, name)
		said = strings.Join(rec.said, "\n")
	})
	return said
}

// A recorder is a test whose failing is only noted down.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Log(...any)   {}
func (r *recorder) Failed() bool { return len(r.said) > 0 }

// A world is a fake backend with hooks at which it can be broken. A hook that
// is nil lets the call through.
type world struct {
	stop chan struct{} // closed at the end of the test

	can     func(execution.Capabilities) execution.Capabilities
	spawn   func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error)
	close   func(next func() error) error
	spec    func(execution.Spec) execution.Spec
	start   func(ctx context.Context, h execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error)
	wait    func(ctx context.Context, p *brokenProcess) (execution.ExitStatus, error)
	signal  func(ctx context.Context, p *brokenProcess, sig execution.Signal) error
	kill    func(ctx context.Context, p *brokenProcess) error
	open    func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error)
	write   func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error
	stat    func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error)
	lstat   func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error)
	list    func(ctx context.Context, h execution.Handle, dir string) iter.Seq2[execution.FileInfo, error]
	glob    func(ctx context.Context, h execution.Handle, dir, pattern string) iter.Seq2[execution.FileInfo, error]
	done    func(h execution.Handle) <-chan struct{}
	err     func(h execution.Handle) error
	destroy func(ctx context.Context, h *brokenHandle) error
	task    taskHooks

	started []execution.Task // that recordTasks has noted down
	seen    uint64           // the last event that a fault has seen
}

type (
	spawnFunc = func(context.Context, execution.Spec) (execution.Handle, error)
	startFunc = func(context.Context, execution.Command) (execution.Process, error)
)

func (w *world) wrap(backend execution.Context) execution.Context {
	return &brokenContext{Context: backend, w: w}
}

type brokenContext struct {
	execution.Context
	w *world
}

func (c *brokenContext) Capabilities() execution.Capabilities {
	can := c.Context.Capabilities()
	if c.w.can != nil {
		can = c.w.can(can)
	}
	return can
}

func (c *brokenContext) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	next := c.Context.Spawn
	if c.w.spawn != nil {
		next = func(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
			return c.w.spawn(ctx, spec, c.Context.Spawn)
		}
	}
	h, err := next(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &brokenHandle{Handle: h, w: c.w}, nil
}

func (c *brokenContext) Close() error {
	if c.w.close != nil {
		return c.w.close(c.Context.Close)
	}
	return c.Context.Close()
}

type brokenHandle struct {
	execution.Handle
	w *world

	mu        sync.Mutex
	destroyed bool
	started   []execution.Process
}

func (h *brokenHandle) Unwrap() execution.Handle { return h.Handle }

func (h *brokenHandle) Spec() execution.Spec {
	if h.w.spec != nil {
		return h.w.spec(h.Handle.Spec())
	}
	return h.Handle.Spec()
}

func (h *brokenHandle) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	next := h.Handle.Start
	if h.w.start != nil {
		next = func(ctx context.Context, cmd execution.Command) (execution.Process, error) {
			return h.w.start(ctx, h.Handle, cmd, h.Handle.Start)
		}
	}
	p, err := next(ctx, cmd)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, p)
	return &brokenProcess{Process: p, handle: h, cmd: cmd}, nil
}

func (h *brokenHandle) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	if h.w.open != nil {
		return h.w.open(ctx, h.Handle, path, opts)
	}
	return h.Handle.OpenFile(ctx, path, opts)
}

func (h *brokenHandle) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	if h.w.write != nil {
		return h.w.write(ctx, h.Handle, path, r, opts)
	}
	return h.Handle.WriteFile(ctx, path, r, opts)
}

func (h *brokenHandle) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	if h.w.stat != nil {
		return h.w.stat(ctx, h.Handle, path)
	}
	return h.Handle.Stat(ctx, path)
}

func (h *brokenHandle) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	if h.w.lstat != nil {
		return h.w.lstat(ctx, h.Handle, path)
	}
	return h.Handle.Lstat(ctx, path)
}

func (h *brokenHandle) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	if h.w.list != nil {
		return h.w.list(ctx, h.Handle, dir)
	}
	return h.Handle.List(ctx, dir)
}

func (h *brokenHandle) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	if h.w.glob != nil {
		return h.w.glob(ctx, h.Handle, dir, pattern)
	}
	return h.Handle.Glob(ctx, dir, pattern)
}

func (h *brokenHandle) Done() <-chan struct{} {
	if h.w.done != nil {
		return h.w.done(h.Handle)
	}
	return h.Handle.Done()
}

func (h *brokenHandle) Err() error {
	if h.w.err != nil {
		return h.w.err(h.Handle)
	}
	return h.Handle.Err()
}

func (h *brokenHandle) Destroy(ctx context.Context) error {
	if h.w.destroy != nil {
		return h.w.destroy(ctx, h)
	}
	return h.Handle.Destroy(ctx)
}

type brokenProcess struct {
	execution.Process
	handle *brokenHandle
	cmd    execution.Command

	mu     sync.Mutex
	waited bool
}

func (p *brokenProcess) Wait(ctx context.Context) (execution.ExitStatus, error) {
	if p.handle.w.wait != nil {
		return p.handle.w.wait(ctx, p)
	}
	return p.Process.Wait(ctx)
}

func (p *brokenProcess) Signal(ctx context.Context, sig execution.Signal) error {
	if p.handle.w.signal != nil {
		return p.handle.w.signal(ctx, p, sig)
	}
	return p.Process.Signal(ctx, sig)
}

func (p *brokenProcess) Kill(ctx context.Context) error {
	if p.handle.w.kill != nil {
		return p.handle.w.kill(ctx, p)
	}
	return p.Process.Kill(ctx)
}

// Resize keeps the embedding from hiding that the process can.
func (p *brokenProcess) Resize(ctx context.Context, size execution.TerminalSize) error {
	return p.Process.(execution.Resizer).Resize(ctx, size)
}
