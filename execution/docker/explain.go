package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// The times that explaining a death may take: the engine tells of a death a
// little after the stream has ended, and of its reason a little after that.
const (
	deathDelay  = 2 * time.Second
	reasonDelay = 250 * time.Millisecond
)

// explain says why nothing is heard of a guest. It is asked by the guest's
// client when the stream has ended, the guest was silent, or broke the
// protocol (cause). Nil means that the container runs, an error that does not
// match ErrLost that the engine does not tell.
//
// The container itself is looked at before anything is concluded: the end of
// a stream is not the end of a container, and silence may be a pause.
func (c *Context) explain(ctx context.Context, id string, s *stream, cause error) error {
	ended := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || unreachable(cause)
	if ended {
		// Most often it has died, and the engine is about to say so.
		bounded, cancel := context.WithTimeout(ctx, deathDelay)
		c.watch.wait(bounded, id, func(f fate) bool { return f.died || f.destroyed })
		cancel()
	}
	if f, _, _ := c.watch.look(id); f.died || f.destroyed {
		return c.lost(c.deathReason(ctx, id, s))
	}
	state, err := c.engine.inspect(ctx, id)
	switch {
	case ctx.Err() != nil:
		return c.lost(cause.Error())
	case errors.Is(err, execution.ErrNotFound):
		return c.lost(c.deathReason(ctx, id, s))
	case err != nil:
		return fmt.Errorf("%w: %w", execution.ErrUnavailable, err) // nobody knows
	case state.Running:
		return nil // paused, slow, or to be dialled again
	case state.OOMKilled:
		return c.lost("out of memory")
	}
	return c.lost(guestEnd(state.ExitCode, s))
}

// deathReason says in words how a container came to its end.
func (c *Context) deathReason(ctx context.Context, id string, s *stream) string {
	bounded, cancel := context.WithTimeout(ctx, reasonDelay)
	defer cancel()
	const killed = 137
	f := c.watch.wait(bounded, id, func(f fate) bool {
		return f.died && (f.exitCode != killed || f.oom || f.signal != "")
	})
	switch {
	case f.stopped:
		return "stopped from outside"
	case f.signal != "":
		return "killed or removed from outside (" + signalName(f.signal) + ")"
	case f.oom && f.exitCode == killed:
		return "out of memory"
	case f.died && f.exitCode == killed:
		return "its first process was killed (SIGKILL): by the kernel, from inside, by an engine that stopped, or because it was removed"
	case f.died:
		return guestEnd(f.exitCode, s)
	case f.destroyed:
		return "removed from outside"
	}
	return "it is gone; the engine does not say why"
}

// guestEnd is the reason when the guest ended by itself.
func guestEnd(code int, s *stream) string {
	reason := fmt.Sprintf("the guest exited with code %d", code)
	if s == nil {
		return reason
	}
	if said := s.stderr.text(); said != "" {
		reason += ": " + said
	}
	return reason
}

func signalName(number string) string {
	if sig, err := execution.ParseSignal(number); err == nil {
		return sig.String()
	}
	return "signal " + number
}

func (c *Context) lost(reason string) error {
	return fmt.Errorf("%w: %s", execution.ErrLost, reason)
}
