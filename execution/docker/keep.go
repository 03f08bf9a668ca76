package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// stopLimit is how long a guest may take to end after its host hung up.
const stopLimit = 10 * time.Second

// leave ends all that runs in the container and leaves it to be looked at. The
// guest ends when its host hangs up, and the container with it; one whose guest
// was replaced by what it ran, and goes on, is removed by force. One that
// somebody has removed meanwhile is left to them.
func (h *handle) leave(ctx context.Context) error {
	if err := h.destroying.lock(ctx); err != nil {
		return err
	}
	defer h.destroying.unlock()
	if h.removed {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if h.stream != nil {
		_ = h.stream.release() // The engine may have hung up before.
	}
	h.c.watch.wait(bounded, h.id, func(f fate) bool { return f.died || f.destroyed })
	state, err := h.c.engine.inspect(ctx, h.id)
	if err != nil && !errors.Is(err, execution.ErrNotFound) {
		return fmt.Errorf("container %s, which was to be kept: %w", shortID(h.id), err)
	}
	err = nil
	if state.Running {
		if err := h.c.removeContainer(ctx, h.id); err != nil {
			return err
		}
		err = fmt.Errorf("container %s did not end when its host hung up, so it was removed and not kept", shortID(h.id))
	}
	h.removed = true
	h.c.watch.forget(h.id)
	return err
}
