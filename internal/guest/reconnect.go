package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// knockTime bounds one attempt to be let in again.
const knockTime = 15 * time.Second

// Attach is Dial for a guest that runs already, over a connection to its
// socket: mode says what is to become of other hosts. Of Config, Key is
// required, and Dir, Env and what limits the guest's life do not count: they
// are as its first host has set them.
//
// It fails with ErrConflict when another host holds the sandbox; with
// ErrUnsupported when the guest is of another version; with ErrPermission when
// what listens does not know the key.
func Attach(ctx context.Context, conn io.ReadWriteCloser, mode execution.AttachMode, opts Options) (*Client, error) {
	knock := wire.Knock{Mode: wire.KnockExclusive}
	switch mode {
	case execution.AttachExclusive:
	case execution.AttachTakeOver:
		knock.Mode = wire.KnockTakeOver
	case execution.AttachShared:
		knock.Mode = wire.KnockShared
	default:
		return nil, errors.Join(fmt.Errorf("%w: attach mode %q: want none, %q or %q", execution.ErrInvalid, mode,
			execution.AttachTakeOver, execution.AttachShared), conn.Close())
	}
	if err := enter(ctx, conn, knock, opts.Config.Key); err != nil {
		return nil, err
	}
	return Dial(ctx, conn, opts)
}

// Probe finds out, over a connection to its socket, whether a guest lives.
func Probe(ctx context.Context, conn io.ReadWriteCloser, key []byte) error {
	err := enter(ctx, conn, wire.Knock{Mode: wire.KnockProbe}, key)
	_ = conn.Close() // it has said what it can
	return err
}

// enter knocks, and closes the connection when the guest does not open.
func enter(ctx context.Context, conn io.ReadWriteCloser, knock wire.Knock, key []byte) error {
	bounded, cancel := context.WithTimeoutCause(ctx, knockTime, execution.ErrTimeout)
	defer cancel()
	answer, err := knock.Ask(bounded, conn, key)
	switch {
	case errors.Is(err, wire.ErrVersion):
		err = fmt.Errorf("%w: %w", execution.ErrUnsupported, err)
	case errors.Is(err, wire.ErrImposter):
		err = fmt.Errorf("%w: %w", execution.ErrPermission, err)
	case err == nil && answer.Status == wire.KnockHeld:
		err = fmt.Errorf("%w: another host holds the sandbox; take it over, or try again when that has gone", execution.ErrConflict)
	case err == nil && answer.Status != wire.KnockOK:
		err = wire.Violation("answer %d to a knock", answer.Status)
	}
	if err != nil {
		_ = conn.Close() // it is of no more use
	}
	return err
}

// broke is told that the connection has broken.
func (c *Client) broke(cause error) {
	c.away.Store(true)
	select {
	case c.breaks <- cause:
	default: // it is being looked at
	}
}

// reconnectAll goes on over new connections until the client ends.
func (c *Client) reconnectAll(life context.Context) {
	for {
		select {
		case cause := <-c.breaks:
			if err := c.reconnect(life, cause); err != nil {
				c.mux.Fail(explained{err})
				return
			}
		case <-life.Done():
			return
		case <-c.mux.Done():
			return
		}
	}
}

// How long to wait before it is tried again.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// reconnect finds the guest again. It gives up when the sandbox is known to be
// lost, or when the guest's patience with a silent host has run out.
func (c *Client) reconnect(life context.Context, cause error) error {
	var waited time.Duration // added up, so that a host that was suspended does not give up
	pause := firstRetry
	for {
		began := time.Now()
		if c.explain != nil {
			if err := c.ask(life, cause); errors.Is(err, execution.ErrLost) {
				return err
			}
		}
		err := c.resume(life)
		if err == nil || errors.Is(err, execution.ErrLost) {
			return err
		}
		if waited > c.lease {
			return lost(fmt.Errorf("%w, and it could not be reached again: %w", cause, err))
		}
		select {
		case <-time.After(pause):
		case <-life.Done():
			return lost(cause)
		case <-c.mux.Done():
			return lost(cause)
		}
		waited += min(time.Since(began), pause+explainDeadline+knockTime)
		pause = min(2*pause, lastRetry)
	}
}

// resume goes on over a new connection. The error matches ErrLost when the
// guest lets nobody go on.
func (c *Client) resume(life context.Context) error {
	ctx, cancel := context.WithTimeoutCause(life, knockTime, execution.ErrTimeout)
	defer cancel()
	conn, err := c.redial(ctx)
	if err != nil {
		return err
	}
	knock := wire.Knock{Mode: wire.KnockResume, Session: c.session, Received: c.mux.Park()}
	answer, err := knock.Ask(ctx, conn, c.key)
	switch {
	case err == nil && answer.Status == wire.KnockReplaced:
		c.replaced.Store(true)
		err = lost(errors.New(proto.Replaced))
	case err == nil && answer.Status == wire.KnockExpired:
		err = lost(errors.New(proto.Expired))
	case err == nil && answer.Status != wire.KnockOK:
		err = lost(wire.Violation("answer %d to a knock", answer.Status))
	case err == nil:
		c.away.Store(false)
		if err = c.mux.Resume(conn, answer.Received); err == nil {
			return nil
		}
		err = lost(err)
	}
	_ = conn.Close() // it is of no more use
	return err
}
