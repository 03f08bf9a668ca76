// Package server is the guest's side: it serves a sandbox's handle, whatever
// that is, to the host at the other end of a stream.
//
// [Run] waits for the host's greeting, makes the handle that it asks for,
// answers with what the guest finds around it, and then carries out one
// operation for each stream until the host goes, or is not heard of for the
// lease. Then it destroys the handle, which ends everything that was started.
//
// The host is trusted. What the operations do is the handle's; nothing here
// knows how a command is run.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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

	// Rest is called when the guest has come to rest after work: no operation
	// runs, and none has for restDelay. It may be nil.
	Rest func()

	// Ticks is how many ticks a lease has; 0 means defaultTicks. The time
	// between two ticks of a frozen guest is not counted.
	Ticks int
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

// ErrExpired says that the host was not heard of for the lease.
var ErrExpired = errors.New("host was silent for the lease")

// Run serves until the host has gone or ctx ends, and returns why. It closes
// conn.
func Run(ctx context.Context, conn io.ReadWriteCloser, opts Options) error {
	s := &session{
		ready: make(chan struct{}), rest: time.NewTimer(restDelay), processes: map[uint64]execution.Process{},
	}
	defer s.rest.Stop()
	m := wire.New(ctx, conn, wire.Config{Serve: s.serve})
	err := s.run(ctx, m, opts)
	m.Fail(err)
	if s.handle != nil {
		// What is still running ends at once, so that the operations do.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyDeadline)
		defer cancel()
		err = errors.Join(err, s.handle.Destroy(end))
	}
	m.Close(err)
	return err
}

// A session is the service for one host.
type session struct {
	ready  chan struct{} // closed when handle is set
	handle execution.Handle
	rest   *time.Timer // runs from the end of the last operation

	mu        sync.Mutex
	processes map[uint64]execution.Process // running, or with leftovers
}

func (s *session) run(ctx context.Context, m *wire.Mux, opts Options) error {
	cfg, err := greeting(ctx, m)
	if err != nil {
		return err
	}
	s.handle, err = opts.Spawn(ctx, cfg)
	if err != nil {
		return refuse(ctx, m, err)
	}
	close(s.ready)
	facts := opts.Facts()
	facts.Dir = s.handle.Dir()
	m.Answer(facts.Encode())
	return s.keep(ctx, m, opts, cfg.Lease)
}

// greeting waits for the host's HELLO.
func greeting(ctx context.Context, m *wire.Mux) (*proto.Config, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proto.DefaultLease, ErrExpired)
	defer cancel()
	hello, err := m.AwaitHello(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := proto.DecodeConfig(hello)
	if err != nil {
		return nil, refuse(ctx, m, fmt.Errorf("%w: %w", execution.ErrInvalid, err))
	}
	if cfg.Lease <= 0 {
		cfg.Lease = proto.DefaultLease
	}
	return cfg, nil
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

// keep counts the ticks during which nothing was heard of the host.
func (s *session) keep(ctx context.Context, m *wire.Mux, opts Options, lease time.Duration) error {
	ticks := opts.Ticks
	if ticks <= 0 {
		ticks = defaultTicks
	}
	ticker := time.NewTicker(max(lease/time.Duration(ticks), time.Millisecond))
	defer ticker.Stop()
	silent := 0
	last := m.Beats()
	for {
		select {
		case <-m.Done():
			return m.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.rest.C:
			if m.Streams() > 0 {
				break // its end sets the timer again
			}
			m.Trim()
			if opts.Rest != nil {
				opts.Rest()
			}
		case <-ticker.C:
			if beats := m.Beats(); beats != last {
				last, silent = beats, 0
			} else if silent++; silent > ticks {
				return fmt.Errorf("%w of %v", ErrExpired, lease)
			}
		}
	}
}

// serve carries out one operation.
func (s *session) serve(ctx context.Context, st *wire.Stream, payload []byte) []byte {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return proto.EncodeFailed(context.Cause(ctx))
	}
	defer s.rest.Reset(restDelay)
	call, err := proto.DecodeCall(payload)
	if err != nil {
		return proto.EncodeFailed(fmt.Errorf("%w: %w", execution.ErrInvalid, err))
	}
	switch call.Method {
	case proto.MethodStart:
		return s.start(ctx, st, call)
	case proto.MethodSignal, proto.MethodKill, proto.MethodResize:
		return done(s.control(ctx, call))
	case proto.MethodOpen:
		return done(s.open(ctx, st, call))
	case proto.MethodWrite:
		return done(s.handle.WriteFile(ctx, call.Path, &input{st}, execution.WriteOptions{Mode: call.Mode}))
	case proto.MethodStat:
		return described(s.handle.Stat(ctx, call.Path))
	case proto.MethodLstat:
		return described(s.handle.Lstat(ctx, call.Path))
	case proto.MethodList:
		return done(list(st, s.handle.List(ctx, call.Path)))
	case proto.MethodGlob:
		return done(list(st, s.handle.Glob(ctx, call.Path, call.Pattern)))
	default:
		return proto.EncodeFailed(fmt.Errorf("%w: method %d", execution.ErrUnsupported, call.Method))
	}
}

func done(err error) []byte {
	if err != nil {
		return proto.EncodeFailed(err)
	}
	return proto.EncodeDone()
}

func described(info execution.FileInfo, err error) []byte {
	if err != nil {
		return proto.EncodeFailed(err)
	}
	return proto.EncodeInfo(info)
}
