package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/process"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A backend is the process backend seen through the whole wire: each handle is
// a client whose guest is a server in this same process.
type backend struct {
	inner *process.Context

	mu      sync.Mutex
	closed  bool
	number  int
	handles map[*handle]struct{}
}

func newBackend(tb testing.TB) *backend {
	tb.Helper()
	inner, err := process.New(process.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &backend{inner: inner, handles: map[*handle]struct{}{}}
}

func (b *backend) Type() string                         { return "wire" }
func (b *backend) Capabilities() execution.Capabilities { return b.inner.Capabilities() }

// handle is one end of a wire; end is what came of its guest.
type handle struct {
	*guest.Client
	owner *backend
	id    string
	spec  execution.Spec
	own   string // its directory, if it was made for it
	conn  net.Conn
	end   chan error
	door  *door
	stop  context.CancelFunc // ends the guest, as an engine does
	once  sync.Once          // destroys it
	err   error              // of that
}

func (b *backend) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	fail := func(err error) (execution.Handle, error) {
		return nil, &execution.Error{Op: "spawn", Backend: b.Type(), Err: err}
	}
	if err := errors.Join(spec.Validate(), b.Capabilities().Check(spec)); err != nil {
		return fail(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fail(execution.ErrClosed)
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return fail(err)
	}
	b.number++
	h := &handle{
		owner: b, id: fmt.Sprint("wire-", b.number), spec: spec, conn: ours, end: make(chan error, 1), door: newDoor(),
	}
	if spec.Dir == "" {
		if h.own, err = os.MkdirTemp("", "pinfold-wire-"); err != nil {
			return fail(err)
		}
		spec.Dir = h.own
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	go func() {
		h.end <- server.Run(life, theirs, server.Options{
			Spawn: func(ctx context.Context, cfg *proto.Config) (execution.Handle, error) {
				return b.inner.Spawn(ctx, execution.Spec{Dir: cfg.Dir, Env: cfg.Env})
			},
			Facts:  func() proto.Facts { return proto.Facts{PID: os.Getpid()} },
			Listen: func(*proto.Config) (server.Listener, error) { return h.door, nil },
		})
	}()
	h.Client, err = guest.Dial(ctx, ours, guest.Options{
		Backend: b.Type(), Handle: h.id, Config: guest.Config{Dir: spec.Dir, Env: spec.Env, Key: testKey()},
	})
	if err != nil {
		stop()
		return nil, errors.Join(err, <-h.end)
	}
	h.spec.Env, h.spec.Dir = nil, h.Dir()
	b.handles[h] = struct{}{}
	return h, nil
}

func (h *handle) ID() string           { return h.id }
func (h *handle) Spec() execution.Spec { return h.spec }

func (h *handle) Destroy(context.Context) error {
	h.once.Do(func() {
		h.owner.mu.Lock()
		delete(h.owner.handles, h)
		h.owner.mu.Unlock()
		h.err = h.Close()
		h.stop()
		if err := <-h.end; errors.Is(err, server.ErrExpired) {
			h.err = errors.Join(h.err, err)
		}
		if h.own != "" {
			h.err = errors.Join(h.err, os.RemoveAll(h.own))
		}
	})
	return h.err
}

func (b *backend) Close() error {
	b.mu.Lock()
	b.closed = true
	handles := make([]*handle, 0, len(b.handles))
	for h := range b.handles {
		handles = append(handles, h)
	}
	b.mu.Unlock()
	var errs []error
	for _, h := range handles {
		errs = append(errs, h.Destroy(context.Background()))
	}
	return errors.Join(append(errs, b.inner.Close())...)
}

func testKey() []byte { return []byte("a key that both sides know") }

// A door is where hosts come back to a guest.
type door struct {
	knocking chan io.ReadWriteCloser
	closed   chan struct{}
	once     sync.Once
}

func newDoor() *door {
	return &door{knocking: make(chan io.ReadWriteCloser), closed: make(chan struct{})}
}

// knock returns a new connection to the guest.
func (d *door) knock(context.Context) (io.ReadWriteCloser, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	select {
	case d.knocking <- theirs:
		return ours, nil
	case <-d.closed:
		return nil, errors.Join(net.ErrClosed, ours.Close(), theirs.Close())
	}
}

func (d *door) Accept() (io.ReadWriteCloser, error) {
	select {
	case conn := <-d.knocking:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// socketpair is a connection with two ends.
func socketpair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		conns[i], err = net.FileConn(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, nil, err
		}
	}
	return conns[0], conns[1], nil
}

func TestConformance(t *testing.T) {
	executiontest.Run(t, executiontest.Harness{
		New:  func(tb testing.TB) execution.Context { tb.Helper(); return newBackend(tb) },
		Kill: func(_ testing.TB, h execution.Handle) { _ = h.(*handle).conn.Close() },
	})
}
