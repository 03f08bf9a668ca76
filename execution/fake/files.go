package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/internal/glob"
)

// OpenFile opens a file as it is now; later writes do not show in it.
func (h *Handle) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	r, err := h.openFile(ctx, path, opts)
	if err != nil {
		return nil, h.fail("open file", path, err)
	}
	return r, nil
}

func (h *Handle) openFile(ctx context.Context, path string, opts execution.ReadOptions) (*fileReader, error) {
	ctx, leave, err := h.enter(ctx, Op{Name: "open file", Path: path})
	if err != nil {
		return nil, err
	}
	defer leave()
	if opts.Offset < 0 || opts.Length < 0 {
		return nil, fmt.Errorf("%w: offset %d, length %d", execution.ErrInvalid, opts.Offset, opts.Length)
	}
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(path, true)
	switch {
	case err != nil:
		return nil, err
	case at.node.mode.IsDir():
		return nil, execution.ErrIsDir
	case !at.node.mode.IsRegular():
		return nil, fmt.Errorf("%w: not a regular file", execution.ErrInvalid)
	}
	data := at.node.data[min(opts.Offset, int64(len(at.node.data))):]
	if opts.Length > 0 {
		data = data[:min(opts.Length, int64(len(data)))]
	}
	return &fileReader{handle: h, path: path, data: data}, ctx.Err()
}

// A fileReader reads what a file held when it was opened.
type fileReader struct {
	handle *Handle
	path   string

	mu     sync.Mutex
	data   []byte
	closed bool
}

func (r *fileReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, r.handle.fail("read file", r.path, execution.ErrClosed)
	}
	if err := r.handle.Err(); err != nil {
		return 0, r.handle.fail("read file", r.path, err)
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.data)
	r.data = r.data[n:]
	return n, nil
}

func (r *fileReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// WriteFile writes a file.
func (h *Handle) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	return h.fail("write file", path, h.writeFile(ctx, path, r, opts))
}

func (h *Handle) writeFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	ctx, leave, err := h.enter(ctx, Op{Name: "write file", Path: path})
	if err != nil {
		return err
	}
	defer leave()
	vol, err := h.writable(path)
	if err != nil {
		return err
	}
	data, err := h.receive(ctx, r, vol)
	if err != nil {
		return errors.Join(err, h.reserve(vol, -int64(len(data))))
	}
	if err := h.replace(path, data, opts); err != nil {
		return errors.Join(err, h.reserve(vol, -int64(len(data))))
	}
	return nil
}

// writable finds the volume that a file is to be written to. Nothing is made
// yet.
func (h *Handle) writable(path string) (*volume, error) {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	for {
		at, err := h.tree.walk(path, true, false)
		switch {
		case errors.Is(err, execution.ErrNotFound):
			path = parentOf(path)
			continue
		case err != nil:
			return nil, err
		case at.node != nil && at.vol.readOnly, at.node == nil && at.vol.readOnly:
			return nil, errReadOnly
		}
		return at.vol, nil
	}
}

// parentOf cuts the last element, which may be a dangling link's.
func parentOf(p string) string {
	dir, _ := path.Split(strings.TrimRight(p, "/"))
	return cmp.Or(dir, ".")
}

// receive reads all that r yields, as long as there is room and everything
// goes on.
func (h *Handle) receive(ctx context.Context, r io.Reader, vol *volume) (data []byte, err error) {
	for {
		const atLeast = 4 << 10
		data = slices.Grow(data, atLeast)
		n, err := r.Read(data[len(data):cap(data)])
		if endErr := h.ended(ctx); endErr != nil {
			return data, endErr
		}
		if spaceErr := h.reserve(vol, int64(n)); spaceErr != nil {
			return data, spaceErr
		}
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
}

func (h *Handle) reserve(vol *volume, n int64) error {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	return vol.reserve(n)
}

// replace makes data the content of a file.
func (h *Handle) replace(path string, data []byte, opts execution.WriteOptions) error {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.walk(path, true, true)
	switch {
	case err != nil:
		return err
	case at.vol.readOnly:
		return errReadOnly
	case at.node != nil && at.node.mode.IsDir() || strings.HasSuffix(path, "/"):
		return execution.ErrIsDir
	}
	fresh := &node{mode: cmp.Or(opts.Mode.Perm(), 0o644), uid: h.uid, gid: h.gid, modTime: time.Now(), data: data}
	if old := at.node; old != nil {
		fresh.mode, fresh.uid, fresh.gid = old.mode.Perm(), old.uid, old.gid
		at.vol.used -= int64(len(old.data))
	}
	at.parent().children[at.name] = fresh
	at.parent().modTime = fresh.modTime
	return nil
}

// Stat describes a file.
func (h *Handle) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	info, err := h.stat(ctx, "stat", path, true)
	return info, h.fail("stat", path, err)
}

// Lstat describes a file or a link.
func (h *Handle) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	info, err := h.stat(ctx, "lstat", path, false)
	return info, h.fail("lstat", path, err)
}

func (h *Handle) stat(ctx context.Context, op, name string, follow bool) (execution.FileInfo, error) {
	_, leave, err := h.enter(ctx, Op{Name: op, Path: name})
	if err != nil {
		return execution.FileInfo{}, err
	}
	defer leave()
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(name, follow)
	if err != nil {
		return execution.FileInfo{}, err
	}
	return at.node.info(path.Base(name)), nil
}

// List yields a directory's entries as they are when the first one is asked
// for.
func (h *Handle) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	return h.yield(ctx, "list", dir, func(d *node) (infos []execution.FileInfo, _ error) {
		for _, name := range d.names() {
			child := d.children[name]
			if mounted, ok := h.tree.mounts[child]; ok {
				child = mounted.root
			}
			infos = append(infos, child.info(name))
		}
		return infos, nil
	})
}

// Glob yields what matches as it is when the first one is asked for.
func (h *Handle) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	return h.yield(ctx, "glob", dir, func(d *node) (infos []execution.FileInfo, _ error) {
		p, err := glob.Compile(pattern)
		if err != nil {
			return nil, err
		}
		h.tree.below(d, "", func(path string, n *node) {
			if p.Matches(path) {
				infos = append(infos, n.info(path))
			}
		})
		slices.SortFunc(infos, func(a, b execution.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
		return infos, nil
	})
}

// yield collects infos about a directory and hands them out one by one.
func (h *Handle) yield(
	ctx context.Context, op, dir string, collect func(*node) ([]execution.FileInfo, error),
) iter.Seq2[execution.FileInfo, error] {
	return func(yield func(execution.FileInfo, error) bool) {
		infos, err := h.collect(ctx, op, dir, collect)
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(execution.FileInfo{}, h.fail(op, dir, err))
		}
	}
}

func (h *Handle) collect(
	ctx context.Context, op, dir string, collect func(*node) ([]execution.FileInfo, error),
) ([]execution.FileInfo, error) {
	_, leave, err := h.enter(ctx, Op{Name: op, Path: dir})
	if err != nil {
		return nil, err
	}
	defer leave()
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(dir, true)
	switch {
	case err != nil:
		return nil, err
	case !at.node.mode.IsDir():
		return nil, execution.ErrNotDir
	}
	return collect(at.node)
}

// AddFile puts something that WriteFile cannot make at a path that is not
// there yet: a directory, a symbolic link to target, a FIFO, by mode's type.
func (h *Handle) AddFile(path string, mode fs.FileMode, target string) error {
	n := &node{mode: mode}
	switch mode.Type() {
	case fs.ModeDir:
		n.children = map[string]*node{}
	case fs.ModeSymlink:
		n.target = target
	}
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	return h.fail("add file", path, h.tree.put(path, n))
}

// Chmod changes the permissions of a file.
func (h *Handle) Chmod(path string, perm fs.FileMode) error {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(path, true)
	if err == nil {
		at.node.mode = at.node.mode.Type() | perm.Perm()
	}
	return h.fail("chmod", path, err)
}

// Chtime changes when a file says that it was changed.
func (h *Handle) Chtime(path string, t time.Time) error {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(path, true)
	if err == nil {
		const first, last = -62_135_596_800, 253_402_300_799 // of the years 1 to 9999
		at.node.modTime = time.Unix(min(max(t.Unix(), first), last), 0).UTC()
	}
	return h.fail("change time", path, err)
}
