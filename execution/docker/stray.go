package docker

import (
	"context"
	"errors"
)

// A stray is a container whose creation was given up: the engine did not answer
// in time, and may still make it once it goes on. Its Spawn has failed, so the
// Context sees to it: when the engine's events tell of it, and at the latest
// when the Context is closed.

// addStray remembers what req may still make.
func (c *Context) addStray(req createRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strays == nil {
		c.strays = map[string]createRequest{}
	}
	c.strays[req.Labels[labelSandbox]] = req
}

// created is told of each container that the engine makes for this Context. It
// does not hold up who tells it.
func (c *Context) created(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.strays) == 0 || c.closed {
		return
	}
	c.removing.Go(func() {
		ctx, cancel := cleanupContext(context.Background())
		defer cancel()
		_ = c.removeIfStray(ctx, id) // Close tries again, and tells.
	})
}

func (c *Context) removeIfStray(ctx context.Context, id string) error {
	state, err := c.engine.inspect(ctx, id)
	if err != nil {
		return err
	}
	name := state.Labels[labelSandbox]
	c.mu.Lock()
	_, stray := c.strays[name]
	c.mu.Unlock()
	if !stray {
		return nil
	}
	if err := c.removeContainer(ctx, id); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.strays, name)
	c.mu.Unlock()
	return nil
}

// removeStrays removes those that are there, once nothing is created any more.
func (c *Context) removeStrays(ctx context.Context) error {
	c.removing.Wait()
	c.mu.Lock()
	strays := c.strays
	c.strays = nil
	c.mu.Unlock()
	var all []error
	for _, req := range strays {
		all = append(all, c.removeStray(ctx, req))
	}
	return errors.Join(all...)
}
