package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// cleanupLimit bounds the removal of what a failed call has made.
const cleanupLimit = 30 * time.Second

// createGrace is how long a creation under way is waited for after nobody wants
// it any more. An engine that is told to stop may still make the container, so
// that only its answer says what there is to remove.
const createGrace = 10 * time.Second

// cleanupContext is for removing things after ctx may have ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
}

// createContainer makes a container, or makes sure that there is none: when
// the call is cut short it finds out by name what came of it.
func (c *Context) createContainer(ctx context.Context, req createRequest) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(createGrace, cancel)
		context.AfterFunc(patient, func() { timer.Stop() })
	})
	defer stop()
	id, err := c.engine.create(patient, req)
	switch {
	case err == nil && ctx.Err() == nil:
		return id, nil
	case err == nil:
		cleanup, cancel := cleanupContext(ctx)
		defer cancel()
		return "", errors.Join(context.Cause(ctx), c.removeContainer(cleanup, id))
	case refused(err):
		return "", err
	}
	c.addStray(req)
	cleanup, cancelCleanup := cleanupContext(ctx)
	defer cancelCleanup()
	return "", errors.Join(err, c.removeStray(cleanup, req))
}

// refused reports that the engine has answered, and made nothing.
func refused(err error) bool {
	for _, unsure := range []error{execution.ErrTimeout, execution.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, unsure) {
			return false
		}
	}
	return true
}

// removeStray removes the container that req may have made, if it is the very
// one: a name may be somebody else's.
func (c *Context) removeStray(ctx context.Context, req createRequest) error {
	state, err := c.engine.inspect(ctx, req.Name)
	switch {
	case errors.Is(err, execution.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("container %s may be left: %w", req.Name, err)
	case state.Labels[labelSandbox] != req.Labels[labelSandbox]:
		return nil
	}
	return c.removeContainer(ctx, state.ID)
}

// Of removals that fail: an engine that meets a container in the middle of its
// start or end may fail to take it apart, and leaves it "dead" until it is
// asked again.
const (
	removeTries = 8
	removePause = 25 * time.Millisecond // doubled each time
)

// removeContainer removes a container by force and returns once it has gone.
// One that is gone already is no error.
func (c *Context) removeContainer(ctx context.Context, id string) error {
	pause := removePause
	for tries := 1; ; tries++ {
		err := c.engine.remove(ctx, id)
		if errors.Is(err, errRemoving) {
			err = c.awaitRemoval(ctx, id)
		}
		if err == nil || errors.Is(err, execution.ErrNotFound) {
			return nil
		}
		if !refused(err) || tries == removeTries {
			return fmt.Errorf("container %s may be left: %w", shortID(id), err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return fmt.Errorf("container %s may be left: %w; %w", shortID(id), err, context.Cause(ctx))
		}
	}
}

// awaitRemoval waits for somebody else's removal, and looks whether it did it.
func (c *Context) awaitRemoval(ctx context.Context, id string) error {
	if err := c.engine.waitRemoved(ctx, id); err != nil {
		return err
	}
	if _, err := c.engine.inspect(ctx, id); err != nil {
		return err
	}
	return fmt.Errorf("%w, and has failed", errRemoving)
}
