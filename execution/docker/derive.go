package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
	"github.com/pinfold-dev/pinfold/internal/guest/guestbin"
)

// A derived image is another one plus the guest, a home and a /workspace. It
// is made once for each image, guest and user, and then used by every process
// on every sandbox, so that nothing is copied when one is made.
type derivedImage struct {
	ID   string
	Home string // of the user
}

// derivedName is what derived images are called. The host part says that they
// are in no registry.
const derivedName = "localhost/pinfold-derived"

// recipeVersion is part of the key: it rises when the same inputs would make
// another image.
const recipeVersion = "1"

// Of the making by another process.
const (
	derivePoll  = 100 * time.Millisecond
	deriveStale = time.Minute // after which its maker counts as dead
)

func deriveKey(base images.Image, g guestbin.Guest, who identity) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{recipeVersion, base.ID, g.Digest, who.String()}, "\x00")))
	const digits = 32
	return hex.EncodeToString(sum[:])[:digits]
}

// derive returns the derived image, and makes it when there is none yet.
func (c *Context) derive(ctx context.Context, base images.Image, who identity) (derivedImage, error) {
	g, err := c.guestFor(ctx, c.info.Arch)
	if err != nil {
		return derivedImage{}, err
	}
	key := deriveKey(base, g, who)
	return remember(ctx, c, c.derived, key, func() (derivedImage, error) {
		return c.findOrMake(ctx, key, base, g, who)
	})
}

// forgetDerived drops what is remembered of a derived image that has gone.
func (c *Context) forgetDerived(image derivedImage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, known := range c.derived {
		if known == image {
			delete(c.derived, key)
		}
	}
}

// findOrMake makes the image unless it is there or another process makes it.
// The builder's name is the lock: the engine gives it to one of them only.
func (c *Context) findOrMake(ctx context.Context, key string, base images.Image, g guestbin.Guest, who identity) (derivedImage, error) {
	builder := "pinfold-derive-" + key
	for {
		found, err := c.findDerived(ctx, key)
		if err == nil || !errors.Is(err, execution.ErrNotFound) {
			return found, err
		}
		id, err := c.createContainer(ctx, createRequest{
			Name: builder, Image: base.ID, User: "0:0", Entrypoint: []string{guestPath}, Network: execution.NetworkNone,
			Labels: map[string]string{labelDerived: key, labelSandbox: newID(), labelBase: base.ID, labelVersion: labelsVersion},
		})
		switch {
		case err == nil:
			return c.makeDerived(ctx, id, key, g, who)
		case !errors.Is(err, execution.ErrConflict):
			return derivedImage{}, fmt.Errorf("image %s: %w", shortID(base.ID), err)
		}
		if err := c.awaitBuilder(ctx, builder, key); err != nil {
			return derivedImage{}, err
		}
	}
}

// awaitBuilder waits until another process has made the image or given up, and
// removes what a dead one has left.
func (c *Context) awaitBuilder(ctx context.Context, builder, key string) error {
	for begun := time.Now(); ; {
		state, err := c.engine.inspect(ctx, builder)
		if errors.Is(err, execution.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Since(begun) > deriveStale {
			if state.Labels[labelDerived] != key {
				return fmt.Errorf("%w: a container that is not pinfold's is called %s; remove or rename it", execution.ErrConflict, builder)
			}
			if err := c.removeContainer(ctx, state.ID); err != nil {
				return err
			}
			return nil
		}
		select {
		case <-time.After(derivePoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := c.findDerived(ctx, key); err == nil {
			return nil
		}
	}
}

func (c *Context) findDerived(ctx context.Context, key string) (derivedImage, error) {
	image, err := c.engine.ImageInspect(ctx, derivedName+":"+key)
	if err != nil {
		return derivedImage{}, err
	}
	return derivedImage{ID: image.ID, Home: image.Labels[labelHome]}, nil
}

// makeDerived fills the builder, which never runs, and commits it.
func (c *Context) makeDerived(ctx context.Context, builder, key string, g guestbin.Guest, who identity) (made derivedImage, err error) {
	defer func() {
		cleanup, cancel := cleanupContext(ctx)
		defer cancel()
		err = errors.Join(err, c.removeContainer(cleanup, builder))
	}()
	known, err := c.readAccounts(ctx, builder)
	if err != nil {
		return derivedImage{}, err
	}
	home, ok := known.home(who.UID)
	if !ok {
		home = guestHome
	}
	archive, err := guestArchive(g.Data, who, !ok, time.Now())
	if err != nil {
		return derivedImage{}, err
	}
	if err := c.engine.putArchive(ctx, builder, archive); err != nil {
		return derivedImage{}, fmt.Errorf("put the guest into the image: %w", err)
	}
	id, err := c.engine.commit(ctx, builder, commitRequest{
		Reference: derivedName + ":" + key,
		Comment:   "made by pinfold; may be removed at any time",
		Changes:   []string{"LABEL " + labelHome + "=" + home},
	})
	return derivedImage{ID: id, Home: home}, err
}

// maxAccounts bounds /etc/passwd and /etc/group of an image, in bytes.
const maxAccounts = 1 << 20

// readAccounts reads the files that name users, from a container that has
// never run. An image need not have them, and where one is a link it counts as
// missing: what it points to is for the image to say, and this is the host.
func (c *Context) readAccounts(ctx context.Context, container string) (accounts, error) {
	var known accounts
	for file, into := range map[string]*[]byte{"/etc/passwd": &known.passwd, "/etc/group": &known.group} {
		data, err := c.engine.getFile(ctx, container, file, maxAccounts)
		if err != nil && !errors.Is(err, execution.ErrNotFound) {
			return known, fmt.Errorf("image's %s: %w", file, err)
		}
		*into = data
	}
	return known, nil
}

// guestArchive is what a derived image has on top of its base.
func guestArchive(binary []byte, who identity, withHome bool, now time.Time) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	dir := func(name string, uid, gid int) error {
		return w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Uid: uid, Gid: gid, ModTime: now,
		})
	}
	err := errors.Join(
		dir(strings.TrimPrefix(guestDir, "/"), 0, 0),
		w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(guestPath, "/"), Mode: 0o755, Size: int64(len(binary)), ModTime: now,
		}))
	_, writeErr := w.Write(binary)
	err = errors.Join(err, writeErr, dir(strings.TrimPrefix(DefaultDir, "/"), who.UID, who.GID))
	if withHome {
		err = errors.Join(err, dir(strings.TrimPrefix(guestHome, "/"), who.UID, who.GID))
	}
	return &buf, errors.Join(err, w.Close())
}
