package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// Spawn makes a sandbox; see [execution.Context].
//
// With a writable bind mount and no user named, commands run as the owner of
// its source, so that what they leave there is the caller's; see chooseUser.
func (c *Context) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := c.spawn(ctx, spec)
	if err != nil {
		path, why := trimSpawn(err)
		return nil, &execution.Error{Op: "spawn", Backend: Type, Handle: spec.Name, Path: path, Err: why}
	}
	return h, nil
}

// trimSpawn takes off an outer layer that says the same again, but for the
// path that it names.
func trimSpawn(err error) (path string, why error) {
	var own *execution.Error
	if errors.As(err, &own) && own.Op == "spawn" && own.Backend == Type {
		return own.Path, own.Err
	}
	return "", err
}

func (c *Context) spawn(ctx context.Context, asked execution.Spec) (*handle, error) {
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := asked.Validate(); err != nil {
		return nil, err
	}
	if err := c.caps.Check(asked); err != nil {
		return nil, err
	}
	spec := withDefaults(asked, c.opts.Image, c.info)
	if err := c.caps.Check(spec); err != nil {
		return nil, fmt.Errorf("%w (a default; relax it by name to go without)", err)
	}
	if err := c.guard.check(spec); err != nil {
		return nil, err
	}
	if err := c.checkRuntime(ctx, asked.Runtime); err != nil {
		return nil, err
	}
	if spec.User == "" {
		spec.User, err = chooseUser(spec, c.info, os.Getuid(), ownerOf)
		if err != nil {
			return nil, err
		}
	}
	base, err := images.Ensure(ctx, c.engine, spec.Image, images.Options{
		Platform: spec.Platform, Pull: spec.Pull, Progress: c.opts.Progress,
	})
	if err != nil {
		return nil, err
	}
	if err := c.checkImage(spec, base); err != nil {
		return nil, err
	}
	who, err := c.resolveUser(ctx, base, spec.User)
	if err != nil {
		return nil, err
	}
	spec.User = who.String()
	return c.launch(ctx, spec, asked.Env, base, who)
}

// checkRuntime says which runtimes there are instead of one that is not known.
// What the engine told may be old, so it is asked again before one is refused.
// Names with a dot are containerd's, which engines do not list.
func (c *Context) checkRuntime(ctx context.Context, name string) error {
	if name == "" || strings.Contains(name, ".") || slices.Contains(c.info.Runtimes, name) {
		return nil
	}
	info, err := c.engine.info(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(info.Runtimes, name) {
		return nil
	}
	known := slices.Sorted(slices.Values(info.Runtimes))
	return fmt.Errorf("runtime %q: %w: the engine has %s", name, execution.ErrUnsupported, strings.Join(known, ", "))
}

// checkImage refuses an image that cannot work, before a container is made.
func (c *Context) checkImage(spec execution.Spec, base images.Image) error {
	if !c.info.runs(base.OS, base.Architecture) && !emulated(base.Architecture, c.engine.local()) {
		return fmt.Errorf("image %s: %w: it is for %s, and the engine runs linux/%s; choose another with a platform, "+
			"or install emulation (binfmt with qemu-user-static)", spec.Image, execution.ErrImage, base.Platform(), c.info.Arch)
	}
	for _, volume := range base.Volumes {
		if within(guestDir, volume) || within(volume, guestDir) {
			return fmt.Errorf("image %s: %w: it declares a volume at %s, which would hide the guest", spec.Image, execution.ErrImage, volume)
		}
		if spec.Limits.Storage > 0 {
			return fmt.Errorf("storage limit: %w: image %s declares a volume at %s, which no limit holds for",
				execution.ErrUnsupported, spec.Image, volume)
		}
	}
	return nil
}

// resolveUser finds the ids of a user, from the image's files where they are
// needed: a container is made for that, never started, and removed.
func (c *Context) resolveUser(ctx context.Context, base images.Image, name string) (identity, error) {
	if who, ok := parseIdentity(name); ok {
		return who, nil
	}
	return remember(ctx, c, c.users, base.ID+" "+name, func() (identity, error) {
		probe, err := c.createContainer(ctx, createRequest{
			Name: "pinfold-probe-" + newID(), Image: base.ID, User: "0:0", Entrypoint: []string{guestPath},
			Network: execution.NetworkNone,
			Labels:  map[string]string{labelProcess: c.process, labelSandbox: newID(), labelVersion: labelsVersion},
		})
		if err != nil {
			return identity{}, err
		}
		known, err := c.readAccounts(ctx, probe)
		cleanup, cancel := cleanupContext(ctx)
		defer cancel()
		if err := errors.Join(err, c.removeContainer(cleanup, probe)); err != nil {
			return identity{}, err
		}
		return known.resolve(name)
	})
}

// launch makes and greets the container.
func (c *Context) launch(ctx context.Context, spec execution.Spec, env []string, base images.Image, who identity) (*handle, error) {
	if spec.Name == "" {
		spec.Name = "pinfold-" + newID()
	}
	if err := c.watch.start(ctx); err != nil {
		return nil, err
	}
	labels := c.containerLabels(spec)
	image, id, err := c.createFrom(ctx, spec, base, who, labels)
	if err != nil {
		return nil, err
	}
	spec.Env = nil
	h := &handle{c: c, id: id, spec: spec}
	if h.door, err = newDoor(labels); err != nil {
		return nil, err // Never: the labels are ours.
	}
	c.watch.add(id)
	if err := c.open(ctx, h, env, image.Home); err != nil {
		cleanup, cancel := cleanupContext(ctx)
		defer cancel()
		return nil, errors.Join(err, h.undo(cleanup))
	}
	c.mu.Lock()
	c.handles[h] = struct{}{}
	c.mu.Unlock()
	return h, nil
}

// createFrom creates the container from the derived image. What is remembered
// of that may have been removed meanwhile; then it is made again, once.
func (c *Context) createFrom(ctx context.Context, spec execution.Spec, base images.Image, who identity, labels map[string]string) (derivedImage, string, error) {
	image, err := c.derive(ctx, base, who)
	if err != nil {
		return image, "", err
	}
	attempt := func() (_ string, err error) {
		if spec.Mounts, err = c.guard.sources(spec.Mounts); err != nil {
			return "", err
		}
		req := request(spec, image.ID, who, labels, c.engine.apiVersion())
		req.Mounts = append(req.Mounts, volumeCover(spec, base, who)...)
		req.AutoRemove = !c.opts.Keep && c.autoRemoves()
		return c.createContainer(ctx, req)
	}
	id, err := attempt()
	if !errors.Is(err, execution.ErrNotFound) {
		return image, id, err
	}
	c.forgetDerived(image)
	again, deriveErr := c.derive(ctx, base, who)
	if deriveErr != nil || again == image {
		return image, "", errors.Join(err, deriveErr)
	}
	image = again
	id, err = attempt()
	return image, id, err
}

// liveRestoreAPI is of the engines that keep containers which remove themselves
// over a restart (Docker 25; moby/moby#46857).
const liveRestoreAPI = "1.44"

// autoRemoves reports whether containers are to remove themselves when they end.
// Older engines that keep containers over their restart would end those. There,
// what ends without its host is left to Collect.
func (c *Context) autoRemoves() bool {
	return !c.info.LiveRestore || atLeast(c.engine.apiVersion(), liveRestoreAPI)
}

// open starts the container, greets the guest and checks the controls.
func (c *Context) open(ctx context.Context, h *handle, env []string, home string) error {
	raw, err := c.engine.attach(ctx, h.id)
	if errors.Is(err, execution.ErrConflict) {
		// Podman attaches only to what runs; the guest waits for its host.
		err = c.engine.start(ctx, h.id)
		if err == nil {
			raw, err = c.engine.attach(ctx, h.id)
		}
	} else if err == nil {
		err = c.engine.start(ctx, h.id)
	}
	if raw != nil {
		h.stream = newStream(raw)
	}
	if err != nil {
		return err
	}
	if home != "" {
		env = append([]string{"HOME=" + home}, env...)
	}
	h.client, err = guest.Dial(ctx, h.stream, c.guestOptions(h, c.guestConfig(h, env)))
	if err != nil {
		return err
	}
	c.watch.onPause(h.id, h.client.Pause)
	return c.verify(ctx, h)
}
