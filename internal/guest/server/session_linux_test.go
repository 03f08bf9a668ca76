package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

// Of many hosts that want a sandbox for themselves at the same moment, one gets
// it.
func TestOneOfManyHostsGetsTheSandbox(t *testing.T) {
	for range 20 {
		s, c := newStation(t, guest.Config{Detach: true})
		_ = c.Close()
		_ = s.follow(t, execution.AttachExclusive, s.options()).Close()
		const hosts = 6
		got := make(chan *guest.Client, hosts)
		var all sync.WaitGroup
		for range hosts {
			all.Go(func() {
				for range 100 {
					one, err := s.attach(t, execution.AttachExclusive)
					if err == nil {
						got <- one
						return
					}
					if !errors.Is(err, execution.ErrConflict) {
						t.Error(err)
						return
					}
					if len(got) > 0 {
						return
					}
				}
			})
		}
		all.Wait()
		if len(got) != 1 {
			t.Fatalf("%d hosts have it for themselves", len(got))
		}
		if err := (<-got).Err(); err != nil {
			t.Error(err)
		}
	}
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	knocking chan io.ReadWriteCloser
	closed   chan struct{}
}

func (p *pipes) knock() io.ReadWriteCloser {
	ours, theirs := net.Pipe()
	p.knocking <- theirs
	return ours
}

func (p *pipes) Accept() (io.ReadWriteCloser, error) {
	select {
	case conn := <-p.knocking:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// hard is a listener that fails before it lets anybody in.
type hard struct {
	*pipes
	fails int
}

func (h *hard) Accept() (io.ReadWriteCloser, error) {
	if h.fails++; h.fails <= 3 {
		return nil, syscall.ENOMEM
	}
	return h.pipes.Accept()
}

// A moment without memory does not keep hosts out for ever; and who comes early
// is told the same as others.
func TestHostsComeInWhateverHappensAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		doors := &hard{pipes: &pipes{make(chan io.ReadWriteCloser), make(chan struct{})}}
		opts := emptyOptions(&empty{})
		listens := false
		opts.Listen = func(*proto.Config) (server.Listener, error) { listens = true; return doors, nil }
		opts.Facts = func() proto.Facts {
			if listens {
				t.Error("hosts may come in before it is known what to tell them")
			}
			return proto.Facts{PID: 1}
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context(), conn, opts) }()
		cfg := guest.Config{Key: testKey(), Lifetime: time.Minute}
		c, err := guest.Dial(t.Context(), host, guest.Options{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		if err := guest.Probe(t.Context(), doors.knock(), testKey()); err != nil {
			t.Error(err)
		}
		if err := c.Shutdown(t.Context()); err != nil && !errors.Is(err, execution.ErrLost) { // it may be quicker than its answer
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, server.ErrShutdown) {
			t.Error(err)
		}
		_ = c.Close()
	})
}

// A host that renews its lease in time holds the sandbox, also one whose
// lifetime is short.
func TestQuietHostHoldsTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		doors := &pipes{make(chan io.ReadWriteCloser), make(chan struct{})}
		opts := emptyOptions(&empty{})
		opts.Listen = func(*proto.Config) (server.Listener, error) { return doors, nil }
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context(), conn, opts) }()
		cfg := guest.Config{Key: testKey(), Lease: time.Minute, Lifetime: 6 * time.Second}
		c, err := guest.Dial(t.Context(), host, guest.Options{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4900 * time.Millisecond)
		if _, err := guest.Attach(t.Context(), doors.knock(), execution.AttachExclusive, guest.Options{Config: cfg}); !errors.Is(err, execution.ErrConflict) {
			t.Errorf("a second host: %v", err)
		}
		if err := <-ended; !errors.Is(err, server.ErrLifetime) {
			t.Error(err)
		}
		_ = c.Close()
	})
}

// An ending that one host handles is not told to another one that shares the
// sandbox.
func TestSharersAreNotToldTheSame(t *testing.T) {
	s, c := newStation(t, guest.Config{})
	_ = c.Close()
	var hosts [2]*guest.Client
	for i := range hosts {
		hosts[i] = s.follow(t, execution.AttachShared, s.options())
	}
	task, err := hosts[0].StartTask(t.Context(), execution.Command{Shell: "exit 0"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, err := range hosts[0].Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for event, err := range hosts[1].Events(t.Context()) {
			if !errors.Is(err, execution.ErrConflict) {
				t.Errorf("the other host is told %+v, %v", event, err)
			}
			break
		}
		break
	}
	// Now it is the other's turn.
	if _, err := hosts[0].StartTask(t.Context(), execution.Command{Shell: "exit 0"}, execution.TaskOptions{}); err != nil {
		t.Fatal(err)
	}
	for event, err := range hosts[1].Events(t.Context()) {
		if err != nil || event.Task.ID != "task-2" {
			t.Errorf("the other host is told %+v, %v", event, err)
		}
		break
	}
}

// A loop over events that ends with its context makes room for the next one at
// once.
func TestEventsAreFollowedAgainAtOnce(t *testing.T) {
	_, c := newStation(t, guest.Config{})
	for range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		for _, err := range c.Events(ctx) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		cancel()
	}
}

// What was told before the context of a loop ended counts as told.
func TestWhatWasToldIsNotToldAgainWhenTheContextEnds(t *testing.T) {
	_, c := newStation(t, guest.Config{})
	for i := range 2 {
		task, err := c.StartTask(t.Context(), execution.Command{Shell: "exit 0"}, execution.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for event, err := range c.Events(ctx) {
			if err == nil && event.Task.ID != task.ID() {
				t.Fatalf("round %d: told of %s", i, event.Task.ID)
			}
			cancel()
		}
		cancel()
	}
}

// What a host that leaves ran in the foreground ends then, and not with its
// lease.
func TestCommandsEndWithTheHostThatLeaves(t *testing.T) {
	_, c := newStation(t, guest.Config{Detach: true})
	told, tells := io.Pipe()
	if _, err := c.Start(t.Context(), execution.Command{Shell: "echo $$; exec sleep 1000", Stdout: tells}); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(told, &pid); err != nil {
		t.Fatal(err)
	}
	if err := c.Detach(t.Context()); err != nil {
		t.Error(err)
	}
	waitFor(t, "the command to end", func() bool { return syscall.Kill(pid, 0) != nil })
}
