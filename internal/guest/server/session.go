package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// A session is the service for one host. It outlives its connections, and is
// named by the host so that it can be found again.
type session struct {
	server *server
	mux    *wire.Mux
	mode   wire.KnockMode
	name   [wire.SessionSize]byte // set by the greeting
	broken atomic.Bool            // it has no connection now
	leaves atomic.Bool            // its host is about to hang up, and does not come back
	beats  uint64                 // frames that were heard by the last look; the keeper's
	quiet  atomic.Int64           // for how many looks nothing was heard

	asking chan struct{} // holds a token while its host asks for an event

	mu        sync.Mutex
	processes map[uint64]execution.Process // running, or with leftovers
}

// open begins a session on a connection.
func (s *server) open(ctx context.Context, conn io.ReadWriteCloser, mode wire.KnockMode) *session {
	one := &session{server: s, mode: mode, asking: make(chan struct{}, 1), processes: map[uint64]execution.Process{}}
	one.mux = wire.New(ctx, conn, wire.Config{Serve: one.serve})
	s.mu.Lock()
	s.sessions[one] = struct{}{}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		one.mux.Fail(ErrShutdown) // too late to be ended with the others
	}
	s.crew.Go(func() {
		<-one.mux.Done()
		s.mu.Lock()
		delete(s.sessions, one)
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		select {
		case s.ended <- one:
		case <-ctx.Done():
		}
	})
	return one
}

// survive makes the session outlive its connection.
func (one *session) survive() {
	one.mux.Survive(func(cause error) {
		one.broken.Store(true)
		switch {
		case one.server.cfg.EndWithHost:
			one.server.shutdown(cause)
		case one.leaves.Load():
			one.mux.Fail(cause)
		}
	})
}

// part ends the session, and tells the host why when nobody else could: of a
// signal or a removal it hears from the engine, which knows more.
func (one *session) part(err error) {
	if (IsEnd(err) || errors.Is(err, errReplaced) || errors.Is(err, errExpired)) && !one.broken.Load() {
		one.mux.Farewell(err)
	}
	one.mux.Fail(err)
}

// heard reports whether anything was heard of the host since the last call.
func (one *session) heard() bool {
	now := one.mux.Beats()
	if now == one.beats {
		one.quiet.Add(1)
		return false
	}
	one.beats = now
	one.quiet.Store(0)
	return true
}

// heldFor is how long a host may be quiet for before another one is let in, but
// for those with a short lease: then it is half of that. Hosts say something
// three times in a lease, and several times in heldFor.
const heldFor = 30 * time.Second

// isHeld reports whether a host is at the other end.
func (one *session) isHeld() bool {
	s := one.server
	most := s.clocks.ticks(min(s.cfg.Lease/2, heldFor))
	return !one.broken.Load() && one.quiet.Load() < most && one.mux.Err() == nil
}

// greeting waits for the host's HELLO.
func (one *session) greeting(ctx context.Context) (*proto.Config, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proto.DefaultLease, ErrExpired)
	defer cancel()
	hello, err := one.mux.AwaitHello(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := proto.DecodeConfig(hello)
	if err != nil {
		return nil, refuse(ctx, one.mux, fmt.Errorf("%w: %w", execution.ErrInvalid, err))
	}
	if cfg.Lease <= 0 {
		cfg.Lease = proto.DefaultLease
	}
	one.mu.Lock()
	one.name = cfg.Session
	one.mu.Unlock()
	return cfg, nil
}

func (one *session) hasName(name [wire.SessionSize]byte) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.name == name
}

// refuse answers the greeting with an error, and waits until the host hangs up,
// which it does when it has read that.
func refuse(ctx context.Context, m *wire.Mux, err error) error {
	ctx, cancel := context.WithTimeout(ctx, proto.DefaultLease)
	defer cancel()
	m.Answer(proto.EncodeFailed(err))
	select {
	case <-m.Done():
	case <-ctx.Done():
	}
	return err
}

// Bounds on those who knock, who may be anybody in the sandbox until they have
// proved otherwise.
const (
	maxKnocking = 8
	knockTime   = 10 * time.Second
	acceptPause = 100 * time.Millisecond
)

// accept lets in hosts that come back.
func (s *server) accept(ctx context.Context, l Listener) {
	room := make(chan struct{}, maxKnocking)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			// It is closed, or there is no memory for a socket now.
			<-room
			select {
			case <-ctx.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		s.crew.Go(func() {
			defer func() { <-room }()
			s.admit(ctx, conn)
		})
	}
}

// admit has a host prove itself, and does what it wants.
func (s *server) admit(ctx context.Context, conn io.ReadWriteCloser) {
	bounded, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	knock, answer, err := wire.Admit(bounded, conn, s.cfg.Key)
	if err != nil {
		_ = conn.Close() // whoever it was
		return
	}
	switch knock.Mode {
	case wire.KnockProbe:
		_ = answer(wire.KnockAnswer{Status: wire.KnockOK}) // it finds out
		_ = conn.Close()
	case wire.KnockResume:
		s.resume(conn, knock, answer)
	default:
		s.join(ctx, conn, knock.Mode, answer)
	}
}

// resume goes on with a session.
func (s *server) resume(conn io.ReadWriteCloser, knock wire.Knock, answer func(wire.KnockAnswer) error) {
	for _, one := range s.all() {
		if !one.hasName(knock.Session) {
			continue
		}
		received := one.mux.Park()
		err := answer(wire.KnockAnswer{Status: wire.KnockOK, Received: received})
		if err == nil {
			one.broken.Store(false) // before it can break again
			if err = one.mux.Resume(conn, knock.Received); err == nil {
				return
			}
			one.mux.Fail(err) // the two do not agree on what was said
		}
		_ = conn.Close()
		return
	}
	status := wire.KnockExpired
	if slices.ContainsFunc(s.all(), (*session).isHeld) {
		status = wire.KnockReplaced
	}
	_ = answer(wire.KnockAnswer{Status: status}) // it finds out
	_ = conn.Close()
}

// What a host is told whose session has ended.
var (
	errReplaced = errors.New(proto.Replaced)
	errExpired  = errors.New(proto.Expired)
)

// join begins a session for another host.
func (s *server) join(ctx context.Context, conn io.ReadWriteCloser, mode wire.KnockMode, answer func(wire.KnockAnswer) error) {
	one := s.begin(ctx, conn, mode, answer)
	if one == nil {
		_ = conn.Close()
		return
	}
	cfg, err := one.greeting(ctx)
	if err != nil {
		one.mux.Fail(err)
		return
	}
	if !cfg.EndWithHost {
		one.survive()
	}
	one.mux.Answer(s.facts.Encode())
}

// begin opens a session where there is room for it. Of several hosts that want
// to be alone, one finds it.
func (s *server) begin(ctx context.Context, conn io.ReadWriteCloser, mode wire.KnockMode, answer func(wire.KnockAnswer) error) *session {
	s.joining.Lock()
	defer s.joining.Unlock()
	if !s.makeRoom(mode) {
		_ = answer(wire.KnockAnswer{Status: wire.KnockHeld}) // it finds out
		return nil
	}
	if answer(wire.KnockAnswer{Status: wire.KnockOK}) != nil {
		return nil
	}
	return s.open(ctx, conn, mode)
}

// makeRoom ends the sessions that cannot go on beside one of that mode. It is
// false when somebody holds the sandbox who is not to be disturbed.
func (s *server) makeRoom(mode wire.KnockMode) bool {
	var over []*session
	for _, one := range s.all() {
		switch {
		case mode == wire.KnockShared && one.mode == wire.KnockShared:
			// Both have room. One that is gone ends with its lease.
		case one.isHeld() && mode != wire.KnockTakeOver:
			return false
		default:
			over = append(over, one)
		}
	}
	for _, one := range over {
		one.part(errReplaced)
		one.mux.Close(errReplaced) // what it ran in the foreground has ended
	}
	return true
}

// serve carries out one operation.
func (one *session) serve(ctx context.Context, st *wire.Stream, payload []byte) []byte {
	s := one.server
	select {
	case <-s.ready:
	case <-ctx.Done():
		return proto.EncodeFailed(context.Cause(ctx))
	}
	call, err := proto.DecodeCall(payload)
	if err != nil {
		return proto.EncodeFailed(fmt.Errorf("%w: %w", execution.ErrInvalid, err))
	}
	s.begun.Add(1)
	if !onlyWaits(call) {
		s.active.Add(1)
		defer s.active.Add(-1)
	}
	defer s.rest.Reset(restDelay)
	switch call.Method {
	case proto.MethodStart:
		return one.start(ctx, st, call)
	case proto.MethodSignal, proto.MethodKill, proto.MethodResize:
		return done(one.control(ctx, call))
	case proto.MethodShutdown:
		s.shutdown(ErrShutdown)
		return proto.EncodeDone()
	case proto.MethodLeave:
		one.leaves.Store(true)
		return proto.EncodeDone()
	case proto.MethodStartTask, proto.MethodTask, proto.MethodWaitTask, proto.MethodSignalTask, proto.MethodKillTask,
		proto.MethodOutput, proto.MethodTasks:
		return s.serveTask(ctx, st, call)
	case proto.MethodNextEvent, proto.MethodTold:
		return one.event(ctx, call)
	default:
		return s.serveFile(ctx, st, call)
	}
}

// onlyWaits reports whether an operation does nothing but wait for what happens
// by itself.
func onlyWaits(call *proto.Call) bool {
	switch call.Method {
	case proto.MethodWaitTask, proto.MethodNextEvent:
		return true
	case proto.MethodOutput:
		return call.Follow
	default:
		return false
	}
}

func done(err error) []byte {
	if err != nil {
		return proto.EncodeFailed(err)
	}
	return proto.EncodeDone()
}
