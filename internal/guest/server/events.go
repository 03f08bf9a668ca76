package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
)

// An eventer is a handle that numbers its events: NextEvent waits for the first
// one after told, and forgets those up to it.
type eventer interface {
	NextEvent(ctx context.Context, told uint64) (event execution.Event, number uint64, err error)
}

// event tells the host the next event, or is told by it that one was handled.
// The host follows the events from the first one that it gets until it says that
// it has handled the last.
func (one *session) event(ctx context.Context, call *proto.Call) []byte {
	events, ok := one.server.handle.(eventer)
	if !ok {
		return proto.EncodeFailed(fmt.Errorf("%w: events", execution.ErrUnsupported))
	}
	// What the host has cancelled before may be about to end.
	select {
	case one.asking <- struct{}{}:
		defer func() { <-one.asking }()
	case <-ctx.Done():
		return proto.EncodeFailed(context.Cause(ctx))
	}
	if err := one.follow(); err != nil {
		return proto.EncodeFailed(err)
	}
	if call.Method == proto.MethodTold {
		defer one.unfollow()
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, _, err := events.NextEvent(over, call.Told) // does not wait
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return done(err)
	}
	event, number, err := events.NextEvent(ctx, call.Told)
	switch {
	case err != nil:
		one.unfollow()
		return proto.EncodeFailed(err)
	case event.Kind != execution.EventTaskEnded:
		return proto.EncodeFailed(event.Err) // the end of this guest: its host learns of that otherwise
	}
	return proto.EncodeEvent(number, event.Task)
}

// follow makes the host the one that is told of events, where no other is.
func (one *session) follow() error {
	s := one.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.follower; other != nil && other != one && other.isHeld() {
		return fmt.Errorf("%w: another host follows the events", execution.ErrConflict)
	}
	s.follower = one
	return nil
}

func (one *session) unfollow() {
	s := one.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follower == one {
		s.follower = nil
	}
}
