//go:build unix

package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// tempPrefix starts the names of files that are being written. One can stay
// behind only when this program is killed in the middle.
const tempPrefix = ".pinfold-"

// WriteFile writes a file; see [execution.Handle]. A reader that implements
// io.WriterTo gets the temporary file itself, an *os.File, to write to.
//
// The content goes to a temporary file beside the target, which then takes its
// place. What goes with a file besides its mode and owner is not kept: access
// lists, extended attributes, other hard links. Where the directory cannot be
// written to, or the target is a mount point of its own, nothing can take its
// place, and the call fails with ErrPermission or ErrUnsupported rather than
// give up being atomic. It does not wait for the disk: a crash of the whole
// machine is not what it guards against.
func (h *handle) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	const op = "write file"
	err := h.checkFile(ctx, path)
	if err == nil && opts.Mode&^(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		err = fmt.Errorf("%w: mode %v: want permissions only", execution.ErrInvalid, opts.Mode)
	}
	if err == nil {
		err = h.writeFile(ctx, resolve(h.spec.Dir, path), r, opts)
	}
	if errors.Is(err, fs.ErrClosed) {
		// The end of ctx or of the handle closes the file, whatever is being
		// done to it.
		err = cmp.Or(h.usable(ctx), err)
	}
	if err != nil {
		return h.failure(op, path, err)
	}
	return nil
}

func (h *handle) writeFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	target, old, err := followLinks(path)
	if err != nil {
		return mapError(err)
	}
	if old != nil {
		if err := checkRegular(old); err != nil {
			return err
		}
	}
	dir, name := splitPath(target)
	if name == "" {
		return execution.ErrIsDir
	}
	if old == nil {
		if err := makeParents(dir); err != nil {
			return mapError(err)
		}
	}
	t, err := newTempFile(dir)
	if err != nil {
		return err
	}
	defer t.remove()
	if err := h.fill(ctx, t, r); err != nil {
		return err
	}
	if err := t.adopt(old, opts.Mode); err != nil {
		return mapError(err)
	}
	// The last moment at which it can be as if nothing had been.
	if err := h.usable(ctx); err != nil {
		return err
	}
	return t.replace(name)
}

// followLinks finds what a path stands for in the end: a file that is there,
// with its description, or the place for one.
func followLinks(path string) (string, fs.FileInfo, error) {
	const most = 40 // as the kernel has it
	for range most {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil, nil
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, info, err
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		dir, _ := splitPath(path)
		path = resolve(dir, next)
	}
	return "", nil, unix.ELOOP
}

// splitPath cuts an absolute path before its last element, which is "" when the
// path ends with a slash.
func splitPath(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// makeParents makes directories of mode 0755 whatever the umask is.
func makeParents(dir string) error {
	const mode = 0o755
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return unix.ENOTDIR
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent, _ := splitPath(strings.TrimRight(dir, "/")); parent != dir {
		if err := makeParents(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
			return nil // somebody else was quicker
		}
		return err
	}
	if info, err = os.Lstat(dir); err == nil && info.Mode().Perm() != mode {
		err = os.Chmod(dir, info.Mode()&^fs.ModePerm|mode)
	}
	return err
}

// A tempFile is a file on its way to its place.
type tempFile struct {
	*os.File
	dir  int // a descriptor of its directory, so that it is found again whatever becomes of the path
	name string
}

func newTempFile(dir string) (*tempFile, error) {
	fd, err := unix.Open(dir, openDirFlags, 0)
	if err != nil {
		return nil, mapError(err)
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	name := tempPrefix + hex.EncodeToString(random[:])
	file, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		_ = unix.Close(fd)
		if errors.Is(kindOf(err), execution.ErrPermission) {
			return nil, fmt.Errorf("%w: its directory cannot be written to, so that nothing can take its place", mapError(err))
		}
		return nil, mapError(err)
	}
	return &tempFile{os.NewFile(uintptr(file), name), fd, name}, nil
}

// remove closes the file, and deletes it unless it has got to its place.
func (t *tempFile) remove() {
	_ = t.File.Close()
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0)
	}
	_ = unix.Close(t.dir)
}

// fill copies from r until it ends, ctx ends, or the handle is destroyed.
func (h *handle) fill(ctx context.Context, t *tempFile, r io.Reader) error {
	if err := h.keep(t.File); err != nil {
		return err
	}
	defer h.unkeep(t.File)
	stop := context.AfterFunc(ctx, func() { _ = t.File.Close() })
	defer stop()
	err := h.copyTo(t.File, r)
	if err == nil {
		return nil
	}
	if usable := h.usable(ctx); usable != nil {
		return usable
	}
	var ours *fs.PathError
	if errors.As(err, &ours) && ours.Path == t.Name() {
		return mapError(ours.Err)
	}
	return fmt.Errorf("read what is to be written: %w", err)
}

func (h *handle) copyTo(f *os.File, r io.Reader) error {
	if from, ok := r.(io.WriterTo); ok {
		_, err := from.WriteTo(f)
		return err
	}
	buffer := h.context.buffers.Get().(*[bufferSize]byte)
	defer h.context.buffers.Put(buffer)
	_, err := io.CopyBuffer(onlyWriter{f}, r, buffer[:])
	return err
}

// adopt gives the file the mode and owner that it is to have.
func (t *tempFile) adopt(old fs.FileInfo, mode fs.FileMode) error {
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if old == nil {
		if mode == 0 {
			mode = 0o644
		}
		return t.Chmod(mode)
	}
	mode = old.Mode() & (fs.ModePerm | special)
	now, err := t.Stat()
	if err != nil {
		return err
	}
	uid, gid := owner(old)
	if nowUID, nowGID := owner(now); uid != nowUID || gid != nowGID {
		if t.Chown(int(uid), int(gid)) != nil {
			// The group alone may be permitted. Rights that went with the old
			// owner do not go to a new one.
			_ = t.Chown(-1, int(gid))
			mode &^= fs.ModeSetuid | fs.ModeSetgid
		}
	}
	return t.Chmod(mode)
}

// replace puts the file in its place.
func (t *tempFile) replace(name string) error {
	if err := t.File.Close(); err != nil {
		return mapError(err)
	}
	err := unix.Renameat(t.dir, t.name, t.dir, name)
	switch {
	case err == nil:
		t.name = ""
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: it is a mount point, so that nothing can take its place; write to it with a command", execution.ErrUnsupported)
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return execution.ErrIsDir
	}
	return mapError(err)
}
