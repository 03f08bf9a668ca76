//go:build unix

package process

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/internal/glob"
)

// heldEntries bounds how many entries one List or Glob keeps in memory. A
// directory with more is read several times, and yields the next names in order
// each time. A deep tree keeps heldAtLeast more for each level.
const (
	heldEntries = 1 << 16
	heldAtLeast = 64
)

// List yields a directory's entries; see [execution.Handle]. Entries that go
// away meanwhile are left out.
func (h *handle) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	return func(yield func(execution.FileInfo, error) bool) {
		w := &walker{
			h: h, ctx: ctx, yield: yield, room: heldEntries,
			pick: func(string, bool) (matches, descend bool) { return true, false },
		}
		w.run("list", dir)
	}
}

// Glob yields what matches a pattern; see [execution.Handle]. Directories that
// may not be read, that go away meanwhile, or whose path is too long for the
// kernel are left out, as a shell does.
func (h *handle) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	return func(yield func(execution.FileInfo, error) bool) {
		const op = "glob"
		p, err := glob.Compile(pattern)
		if err != nil {
			yield(execution.FileInfo{}, h.failure(op, dir, err))
			return
		}
		w := &walker{h: h, ctx: ctx, yield: yield, room: heldEntries, pick: func(path string, isDir bool) (matches, descend bool) {
			return p.Matches(path), isDir && p.MayMatchBelow(path)
		}}
		w.run(op, dir)
	}
}

// A walker goes through a tree in the order of path bytes.
type walker struct {
	h     *handle
	ctx   context.Context //nolint:containedctx // A walker is one call's own, and ends with it.
	yield func(execution.FileInfo, error) bool
	room  int // how many more entries may be held

	// pick says for a path below the start whether it is to be yielded, and
	// whether to go into it.
	pick func(path string, isDir bool) (matches, descend bool)
}

func (w *walker) run(op, dir string) {
	err := w.h.checkFile(w.ctx, dir)
	if err == nil {
		err = w.walk(resolve(w.h.spec.Dir, dir), "")
	}
	if err != nil && !errors.Is(err, errStopped) {
		w.yield(execution.FileInfo{}, w.h.failure(op, dir, mapError(err)))
	}
}

// errStopped says that the caller does not want any more.
var errStopped = errors.New("stopped")

// A step is one thing to do in a directory: to yield an entry, or to go into
// it. Its key makes the order right: what is below "a" has paths that start
// with "a/", which is after "a.txt".
type step struct {
	key  string
	name string
}

func (s step) descends() bool { return len(s.key) > len(s.name) }

func (w *walker) walk(dir, below string) error {
	after := ""
	for {
		steps, more, err := w.steps(dir, below, after)
		if err != nil {
			if below != "" && canSkip(err) {
				return nil
			}
			return err
		}
		w.room -= len(steps)
		for _, s := range steps {
			if err := w.take(s, dir, below); err != nil {
				return err
			}
		}
		w.room += len(steps)
		if !more {
			return nil
		}
		after = steps[len(steps)-1].key
	}
}

// canSkip reports whether a directory within a tree may be left out.
func canSkip(err error) bool {
	for _, skip := range []error{unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG} {
		if errors.Is(err, skip) {
			return true
		}
	}
	return false
}

func (w *walker) take(s step, dir, below string) error {
	if err := w.h.usable(w.ctx); err != nil {
		return err
	}
	full := resolve(dir, s.name)
	if s.descends() {
		return w.walk(full, below+s.key)
	}
	info, err := os.Lstat(full)
	if err != nil {
		if canSkip(err) {
			return nil
		}
		return err
	}
	if !w.yield(fileInfo(below+s.name, full, info), nil) {
		return errStopped
	}
	return nil
}

// steps reads a directory and returns the next steps in order, and whether
// there are more.
func (w *walker) steps(dir, below, after string) (steps []step, more bool, err error) {
	limit := max(w.room, heldAtLeast)
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if below != "" {
		flags |= unix.O_NOFOLLOW // it was no link when its name was read
	}
	fd, err := unix.Open(dir, flags, 0)
	if err != nil {
		return nil, false, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer func() { _ = f.Close() }()
	add := func(s step) {
		if s.key > after {
			steps = append(steps, s)
		}
	}
	for {
		const atOnce = 1024
		entries, err := f.ReadDir(atOnce)
		for _, e := range entries {
			name := e.Name()
			matches, descend := w.pick(below+name, e.IsDir())
			if matches {
				add(step{name, name})
			}
			if descend {
				add(step{name + "/", name})
			}
		}
		if len(steps) > 2*limit {
			more = true
			steps = smallest(steps, limit)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
		if err := w.h.usable(w.ctx); err != nil {
			return nil, false, err
		}
	}
	if len(steps) > limit {
		more = true
	}
	return smallest(steps, limit), more, nil
}

// smallest sorts steps and drops all but the first ones.
func smallest(steps []step, limit int) []step {
	slices.SortFunc(steps, func(a, b step) int { return strings.Compare(a.key, b.key) })
	if len(steps) > limit {
		clear(steps[limit:])
		steps = steps[:limit]
	}
	return steps
}
