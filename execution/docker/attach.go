package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

var (
	_ execution.Attacher = (*Context)(nil)
	_ execution.Detacher = (*handle)(nil)
)

const keySize = 32

// newKey is what hosts of one sandbox know. It stands in the container's
// labels: who can read those has the engine, and so the sandbox anyway, and
// nothing inside a container sees them.
func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // Never fails since Go 1.24.
	return key
}

// A door is how a guest that runs is found: a socket inside the container, and
// what to prove there.
type door struct {
	key    []byte
	socket string
	user   uint32 // who may connect: a user that no command is
}

// Users that dial: the traditional one of nobody, and the one below it for
// sandboxes whose commands are nobody's.
const (
	dialUser  = 65534
	dialUser2 = 65533
)

// newDoor reads a container's labels.
func newDoor(labels map[string]string) (door, error) {
	key, err := hex.DecodeString(labels[labelKey])
	if err != nil || len(key) != keySize {
		return door{}, fmt.Errorf("%w: its labels have no key: it was made by another version", execution.ErrUnsupported)
	}
	// The name tells nothing of the key, and no two sandboxes share it.
	name := sha256.Sum256(append([]byte("socket of "), key...))
	d := door{key: key, socket: "pinfold-" + hex.EncodeToString(name[:16]), user: dialUser}
	if who, ok := parseIdentity(labels[labelUser]); ok && who.UID == dialUser {
		d.user = dialUser2
	}
	return d, nil
}

// knock opens a connection to a guest that runs.
func (c *Context) knock(ctx context.Context, id string, d door) (*stream, error) {
	raw, err := c.engine.exec(ctx, id, fmt.Sprintf("%d:%d", d.user, d.user), []string{guestPath, "dial", d.socket})
	if err != nil {
		return nil, err
	}
	return newStream(raw), nil
}

// guestOptions is how to talk to the guest of h, whose stream is set if it has
// one.
func (c *Context) guestOptions(h *handle, cfg guest.Config) guest.Options {
	opts := guest.Options{
		Backend: Type, Handle: h.ID(), Config: cfg,
		Explain: func(ctx context.Context, cause error) error { return c.explain(ctx, h.id, h.stream, cause) },
	}
	if !cfg.EndWithHost {
		opts.Redial = func(ctx context.Context) (io.ReadWriteCloser, error) {
			conn, err := c.knock(ctx, h.id, h.door)
			if err != nil {
				return nil, err // and not a nil stream
			}
			return conn, nil
		}
	}
	return opts
}

// guestConfig is what the guest of a new sandbox is told.
func (c *Context) guestConfig(h *handle, env []string) guest.Config {
	return guest.Config{
		Dir: h.spec.Dir, Env: env, Lease: c.opts.Lease,
		Key: h.door.key, Socket: h.door.socket, SocketUser: h.door.user,
		Detach: h.spec.Detach, EndWithHost: c.opts.EndWithHost && !h.spec.Detach, Lifetime: h.spec.Lifetime, IdleTimeout: h.spec.IdleTimeout,
	}
}

// Attach makes a handle of a sandbox that was made before; see
// [execution.Attacher]. What the spec of the handle tells is what the engine
// tells of it.
func (c *Context) Attach(ctx context.Context, id string, opts execution.AttachOptions) (execution.Handle, error) {
	h, err := c.attach(ctx, id, opts)
	if err != nil {
		var inner *execution.Error
		if errors.As(err, &inner) && inner.Backend == Type {
			err = inner.Err
		}
		return nil, &execution.Error{Op: "attach", Backend: Type, Handle: id, Err: err}
	}
	return h, nil
}

func (c *Context) attach(ctx context.Context, id string, opts execution.AttachOptions) (*handle, error) {
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := c.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.handleOf(found.ID) != nil {
		return nil, fmt.Errorf("%w: this very Context has a handle of it", execution.ErrConflict)
	}
	h := &handle{c: c, id: found.ID, spec: specOf(found), shared: opts.Mode == execution.AttachShared}
	if h.door, err = newDoor(found.Labels); err != nil {
		return nil, err
	}
	if err := runs(found.State); err != nil {
		return nil, err
	}
	if err := c.watch.start(ctx); err != nil {
		return nil, err
	}
	c.watch.add(h.id)
	if err := c.enter(ctx, h, opts.Mode); err != nil {
		c.watch.forget(h.id)
		return nil, err
	}
	c.mu.Lock()
	c.handles[h] = struct{}{}
	c.mu.Unlock()
	return h, nil
}

// runs is why one cannot attach to a container in that state.
func runs(state string) error {
	switch state {
	case "running":
		return nil
	case "paused":
		return execution.ErrPaused
	case "created":
		return fmt.Errorf("%w: it was made and has not been started; remove it, or try again when whoever makes it is done", execution.ErrLost)
	}
	return fmt.Errorf("%w: it is %s", execution.ErrLost, state)
}

// enter attaches to the guest.
func (c *Context) enter(ctx context.Context, h *handle, mode execution.AttachMode) error {
	conn, err := c.knock(ctx, h.id, h.door)
	if errors.Is(err, execution.ErrConflict) { // it ran a moment ago
		state, lookErr := c.engine.inspect(ctx, h.id)
		if lookErr == nil {
			lookErr = runs(state.Status)
		}
		return cmp.Or(lookErr, c.lost(err.Error()))
	}
	if err != nil {
		return err
	}
	opts := c.guestOptions(h, guest.Config{Key: h.door.key, EndWithHost: c.opts.EndWithHost})
	if h.client, err = guest.Attach(ctx, conn, mode, opts); err != nil {
		return err
	}
	h.spec.Dir = h.client.Dir()
	own, version := c.ownKernel(ctx, h)
	h.gvisor = own && isGVisor(version)
	c.watch.onPause(h.id, h.client.Pause)
	return nil
}

// specOf is what the labels of a container tell of its spec.
func specOf(found containerSummary) execution.Spec {
	spec := execution.Spec{
		Image: found.Labels[labelImage], User: found.Labels[labelUser],
		Detach: found.Labels[labelDetach] == "true", Lifetime: parseDuration(found.Labels[labelLife]),
		Labels: userLabels(found.Labels),
	}
	if len(found.Names) > 0 {
		spec.Name = found.Names[0]
	}
	return spec
}

// Detach lets go of the sandbox; see [execution.Detacher].
func (h *handle) Detach(ctx context.Context) error {
	if err := h.destroying.lock(ctx); err != nil {
		return &execution.Error{Op: "detach", Backend: Type, Handle: h.ID(), Err: err}
	}
	defer h.destroying.unlock()
	if h.removed {
		return nil
	}
	err := h.client.Detach(ctx)
	if h.stream != nil {
		_ = h.stream.release() // The engine may have hung up before.
	}
	h.removed = true // from here on it is not ours to remove
	h.c.watch.forget(h.id)
	h.c.mu.Lock()
	delete(h.c.handles, h)
	h.c.mu.Unlock()
	return err
}
