// Package server is the guest's side: it serves a sandbox's handle, whatever
// that is, to the hosts at the other ends of its streams.
//
// [Run] waits for the first host's greeting, makes the handle that it asks for,
// answers with what the guest finds around it, and then carries out one
// operation for each stream. A host that has lost its connection, and another
// one where the first has died, come back over a socket (see [Options].Listen)
// and prove that they know the sandbox's key. When no host was heard of for the
// lease, or the sandbox's lifetime is over, the handle is destroyed, which ends
// everything that was started.
//
// Hosts are trusted. What the operations do is the handle's; nothing here knows
// how a command is run.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// Options says what to serve.
type Options struct {
	// Spawn makes the handle that is served. Its error is what the host's
	// greeting fails with. Required.
	Spawn func(ctx context.Context, cfg *proto.Config) (execution.Handle, error)

	// Facts tells about the guest's surroundings; Dir is filled in from the
	// handle. Required.
	Facts func() proto.Facts

	// Listen opens the socket over which hosts come back; see Config.Socket.
	// Without it a connection that ends takes the guest with it.
	Listen func(cfg *proto.Config) (Listener, error)

	// Rest is called when the guest has come to rest after work: no operation
	// runs but those that wait for what happens by itself, and none has for
	// restDelay. It may be nil.
	Rest func()

	// Ticks is how many ticks a lease has; 0 means defaultTicks. The time
	// between two ticks of a frozen guest is not counted.
	Ticks int
}

// A Listener waits for hosts that come back.
type Listener interface {
	// Accept waits for one. It fails once the listener is closed.
	Accept() (io.ReadWriteCloser, error)
	Close() error
}

const (
	defaultTicks = 12

	// destroyDeadline bounds the end. Where the guest is a container's first
	// process, the kernel then kills what is left.
	destroyDeadline = 5 * time.Second

	// killDeadline bounds the killing of a command that the host cancelled.
	killDeadline = 30 * time.Second

	// restDelay is how long nothing has to run before it counts as rest.
	restDelay = time.Second
)

// Why a guest ends by itself.
var (
	ErrExpired  = errors.New("host was silent for the lease")
	ErrLifetime = errors.New("lifetime is over")
	ErrIdle     = errors.New("idle for too long")
	ErrShutdown = errors.New("shut down by the host")
)

// IsEnd reports whether an error of Run says that the guest came to its own
// end, without its host.
func IsEnd(err error) bool {
	return errors.Is(err, ErrExpired) || errors.Is(err, ErrLifetime) || errors.Is(err, ErrIdle)
}

// A server is one guest.
type server struct {
	opts   Options
	cfg    *proto.Config // of the first host
	clocks *clocks
	facts  proto.Facts
	ready  chan struct{} // closed when handle is set
	handle execution.Handle
	rest   *time.Timer   // runs from the end of the last operation
	ended  chan *session // those whose connection has ended
	stop   chan error    // why to end; the first counts
	crew   sync.WaitGroup

	active atomic.Int64  // operations that run, but for those that only wait
	begun  atomic.Uint64 // operations so far

	joining sync.Mutex // held while a session is found room for, and begun

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
	follower *session // whose host handles events; nil for none
}

// Run serves until no host is left, or what the first host has set is over, and
// returns why. It closes conn.
func Run(ctx context.Context, conn io.ReadWriteCloser, opts Options) error {
	s := &server{
		opts: opts, ready: make(chan struct{}), rest: time.NewTimer(restDelay),
		ended: make(chan *session), stop: make(chan error, 1), sessions: map[*session]struct{}{},
	}
	defer s.rest.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := s.open(ctx, conn, wire.KnockExclusive)
	err := s.run(ctx, first)
	cancel()
	return s.close(ctx, err)
}

func (s *server) run(ctx context.Context, first *session) error {
	cfg, err := first.greeting(ctx)
	if err != nil {
		return err
	}
	s.cfg, s.clocks = cfg, newClocks(cfg, s.opts.Ticks)
	s.handle, err = s.opts.Spawn(ctx, cfg)
	if err != nil {
		return refuse(ctx, first.mux, err)
	}
	s.facts = s.opts.Facts()
	s.facts.Dir, s.facts.Lease = s.handle.Dir(), s.cfg.Lease
	if err := s.listen(ctx, first); err != nil {
		return refuse(ctx, first.mux, err)
	}
	close(s.ready)
	first.mux.Answer(s.facts.Encode())
	return s.keep(ctx)
}

// listen lets hosts come back, where the first one wants that.
func (s *server) listen(ctx context.Context, first *session) error {
	if len(s.cfg.Key) == 0 || s.opts.Listen == nil {
		return nil
	}
	l, err := s.opts.Listen(s.cfg)
	if err != nil {
		return fmt.Errorf("listen for hosts that come back: %w", err)
	}
	first.survive()
	s.crew.Go(func() { s.accept(ctx, l) })
	s.crew.Go(func() {
		<-ctx.Done()
		_ = l.Close() // nobody comes any more
	})
	return nil
}

// lasts reports whether the guest outlives its connections.
func (s *server) lasts() bool { return len(s.cfg.Key) > 0 && s.opts.Listen != nil }

// close ends everything.
func (s *server) close(ctx context.Context, err error) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	sessions := s.all()
	var parting sync.WaitGroup
	for _, one := range sessions {
		parting.Go(func() { one.part(err) })
	}
	parting.Wait()
	if s.handle != nil {
		// What is still running ends at once, so that the operations do.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyDeadline)
		defer cancel()
		err = errors.Join(err, s.handle.Destroy(end))
	}
	for _, one := range sessions {
		one.mux.Close(err)
	}
	s.crew.Wait()
	return err
}

func (s *server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.sessions))
	for one := range s.sessions {
		list = append(list, one)
	}
	return list
}

// shutdown makes the guest end because of err.
func (s *server) shutdown(err error) {
	select {
	case s.stop <- err:
	default: // it already ends
	}
}

// keep lives until it is time to end.
func (s *server) keep(ctx context.Context) error {
	c := s.clocks
	ticker := time.NewTicker(c.tick)
	defer ticker.Stop()
	for {
		select {
		case one := <-s.ended:
			if !s.lasts() {
				return one.mux.Err()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-s.stop:
			return err
		case <-s.rest.C:
			s.comeToRest()
		case <-ticker.C:
			if err := c.count(s.heard(), s.isBusy()); err != nil {
				return err
			}
			s.dropSilent(c.ticks(s.cfg.Lease))
		}
	}
}

// heard reports whether anything was heard of a host since the last call.
func (s *server) heard() bool {
	heard := false
	for _, one := range s.all() {
		heard = one.heard() || heard
	}
	return heard
}

// dropSilent ends the sessions of hosts that have been silent for more ticks
// than their lease has: what those run in the foreground ends with it, also
// where the guest lives on.
func (s *server) dropSilent(ticks int64) {
	for _, one := range s.all() {
		if one.quiet.Load() > ticks && one.mux.Err() == nil {
			one.part(errExpired)
			s.crew.Go(func() { one.mux.Close(errExpired) }) // which waits for a kill
		}
	}
}

// isBusy reports whether something runs, or was asked since the last call.
func (s *server) isBusy() bool {
	if s.begun.Swap(0) > 0 || s.active.Load() > 0 {
		return true
	}
	tasks, ok := s.handle.(interface{ RunningTasks() int })
	return ok && tasks.RunningTasks() > 0
}

// comeToRest gives back what is only needed for work.
func (s *server) comeToRest() {
	if s.active.Load() > 0 {
		return // its end sets the timer again
	}
	for _, one := range s.all() {
		one.mux.Trim()
	}
	if s.opts.Rest != nil {
		s.opts.Rest()
	}
}

// clocks count the ticks that what limits a guest's life has left.
type clocks struct {
	tick              time.Duration
	cfg               *proto.Config
	age, silent, idle time.Duration
}

// finestTick and coarsestTick bound how often a guest wakes up.
const (
	finestTick   = 10 * time.Millisecond
	coarsestTick = 10 * time.Second
)

func newClocks(cfg *proto.Config, ticks int) *clocks {
	if ticks <= 0 {
		ticks = defaultTicks
	}
	shortest := cfg.Lease
	for _, d := range []time.Duration{cfg.Lifetime, cfg.IdleTimeout} {
		if d > 0 {
			shortest = min(shortest, d)
		}
	}
	tick := min(max(shortest/time.Duration(ticks), finestTick), coarsestTick)
	return &clocks{tick: tick, cfg: cfg}
}

// ticks is how many of them a time has, at least one.
func (c *clocks) ticks(d time.Duration) int64 { return max(1, int64(d/c.tick)) }

// count takes one tick, and says why the guest has to end.
func (c *clocks) count(heard, busy bool) error {
	c.age += c.tick
	c.silent += c.tick
	c.idle += c.tick
	if heard {
		c.silent = 0
	}
	if busy {
		c.idle = 0
	}
	switch {
	case !c.cfg.Detach && c.silent > c.cfg.Lease:
		return fmt.Errorf("%w of %v", ErrExpired, c.cfg.Lease)
	case c.cfg.Lifetime > 0 && c.age >= c.cfg.Lifetime:
		return fmt.Errorf("its %w: %v", ErrLifetime, c.cfg.Lifetime)
	case c.cfg.IdleTimeout > 0 && c.idle >= c.cfg.IdleTimeout:
		return fmt.Errorf("%w: %v", ErrIdle, c.cfg.IdleTimeout)
	}
	return nil
}
