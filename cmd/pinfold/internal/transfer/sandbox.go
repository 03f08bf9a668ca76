package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

// Bounds on what a sandbox can make us do.
const (
	maxDepth   = 1000
	maxFolders = 1 << 18 // that are remembered, to be looked into
	maxName    = 255     // bytes in one, as Linux has it
)

// FromSandbox yields the tree at a path in a sandbox, whose top is called as.
// A symbolic link at the top is followed where follow says so.
func FromSandbox(ctx context.Context, h execution.Handle, file, as string, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		stat := h.Lstat
		if follow {
			stat = h.Stat
		}
		info, err := stat(ctx, file)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		w := sandboxWalk{h: h, yield: yield}
		w.visit(ctx, info, file, as, 0)
	}
}

type sandboxWalk struct {
	h       execution.Handle
	yield   func(Entry, error) bool
	folders int // that are remembered
}

// visit yields one entry and what is below it. It is false when it is to end.
func (w *sandboxWalk) visit(ctx context.Context, info execution.FileInfo, file, name string, depth int) bool {
	if !w.yield(w.entry(info, file, name), nil) {
		return false
	}
	if !info.IsDir() {
		return true
	}
	if depth == maxDepth {
		return w.yield(Entry{}, &SkippedError{name, "it is nested too deep"})
	}
	var folders []execution.FileInfo
	for child, err := range w.h.List(ctx, file) {
		switch {
		case err != nil:
			if errors.Is(err, execution.ErrPermission) || errors.Is(err, execution.ErrNotFound) {
				err = &SkippedError{name, err.Error()}
			}
			if !w.yield(Entry{}, err) {
				return false
			}
		case !plain(child.Name):
			if !w.yield(Entry{}, &SkippedError{child.Name, "its name leads out of the tree"}) {
				return false
			}
		case len(child.Name) > maxName:
			if !w.yield(Entry{}, &SkippedError{child.Name, fmt.Sprintf("its name is longer than %d bytes", maxName)}) {
				return false
			}
		case child.IsDir():
			child.Target = "" // which it has none of
			folders = append(folders, child)
			if w.folders++; w.folders > maxFolders {
				w.yield(Entry{}, fmt.Errorf("%q: more than %d directories beside and above each other", name, maxFolders))
				return false
			}
		case !w.yield(w.entry(child, join(file, child.Name), join(name, child.Name)), nil):
			return false
		}
	}
	for _, child := range folders {
		w.folders--
		if !w.visit(ctx, child, join(file, child.Name), join(name, child.Name), depth+1) {
			return false
		}
	}
	return true
}

func (w *sandboxWalk) entry(info execution.FileInfo, file, name string) Entry {
	return Entry{
		Name: name, Mode: info.Mode, Size: max(info.Size, 0), ModTime: info.ModTime,
		UID: int(info.UID), GID: int(info.GID), Target: info.Target,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			return skipUnreadable(name, func() (io.ReadCloser, error) {
				return w.h.OpenFile(ctx, file, execution.ReadOptions{})
			})
		},
	}
}

// skipUnreadable opens a file, and passes over one that cannot be: it may have
// gone or changed since it was seen.
func skipUnreadable(name string, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	r, err := open()
	for _, kind := range []error{fs.ErrPermission, fs.ErrNotExist, fs.ErrInvalid, execution.ErrIsDir} {
		if errors.Is(err, kind) {
			return nil, &SkippedError{name, err.Error()}
		}
	}
	return r, err
}

// join is path.Join without cleaning what stands before, whose ".." may come
// after links.
func join(dir, name string) string {
	switch {
	case dir == "." || dir == "":
		return name
	case name == ".":
		return dir
	case dir[len(dir)-1] == '/':
		return dir + name
	}
	return dir + "/" + name
}

// ToSandbox puts a tree to a path in a sandbox. What it makes belongs to the
// sandbox's user. Where there is a file already, it keeps its mode.
//
// Files need nothing but the handle. Empty directories, links, and modes other
// than 0755 of directories take the mkdir, ln and chmod of the sandbox.
type ToSandbox struct {
	h       execution.Handle
	base    string
	missing map[string]bool        // directories that no file has made
	modes   map[string]fs.FileMode // to be set in the end
}

// NewToSandbox makes a sink; base is what the top of the tree becomes.
func NewToSandbox(h execution.Handle, base string) *ToSandbox {
	return &ToSandbox{h: h, base: base, missing: map[string]bool{}, modes: map[string]fs.FileMode{}}
}

// Put takes one entry; see [Sink].
func (s *ToSandbox) Put(ctx context.Context, e Entry) error {
	at := join(s.base, e.Name)
	switch {
	case e.Link != "":
		if err := checkName(e.Link); err != nil {
			return &SkippedError{e.Name, "it is a hard link that leads out of the tree"}
		}
		return s.run(ctx, "ln", "-f", "--", join(s.base, e.Link), at)
	case e.Mode.IsDir():
		s.missing[at] = true
		if perm := e.Mode.Perm(); perm != 0o755 {
			s.modes[at] = perm
		}
		return nil
	case e.Mode.IsRegular():
		return s.write(ctx, at, e)
	case e.Mode&fs.ModeSymlink != 0:
		if err := s.makeParent(ctx, at); err != nil {
			return err
		}
		return s.run(ctx, "ln", "-s", "-f", "-n", "--", e.Target, at)
	}
	return &SkippedError{e.Name, kindOf(e.Mode)}
}

func (s *ToSandbox) write(ctx context.Context, at string, e Entry) error {
	r, err := e.Open(ctx)
	if err != nil {
		return err
	}
	if e.Mode.Perm() == 0 {
		s.modes[at] = 0 // which WriteFile would take for its default
	}
	err = s.h.WriteFile(ctx, at, r, execution.WriteOptions{Mode: e.Mode.Perm()})
	for dir := path.Dir(at); s.missing[dir]; dir = path.Dir(dir) {
		delete(s.missing, dir)
	}
	return errors.Join(err, r.Close())
}

func (s *ToSandbox) makeParent(ctx context.Context, at string) error {
	dir := path.Dir(at)
	if !s.missing[dir] {
		return nil
	}
	delete(s.missing, dir)
	return s.run(ctx, "mkdir", "-p", "--", dir)
}

// Close makes the directories that are missing, and sets modes: last, since a
// directory may be one that nobody can write to.
func (s *ToSandbox) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	const batch = 256
	for dirs := range slices.Chunk(slices.Sorted(maps.Keys(s.missing)), batch) {
		if err := s.run(ctx, "mkdir", append([]string{"-p", "--"}, dirs...)...); err != nil {
			return err
		}
	}
	byMode := map[fs.FileMode][]string{}
	for at, mode := range s.modes {
		byMode[mode] = append(byMode[mode], at)
	}
	for _, mode := range slices.Sorted(maps.Keys(byMode)) {
		// The deepest first: a directory may lose the right to enter it.
		paths := byMode[mode]
		slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) })
		for some := range slices.Chunk(paths, batch) {
			if err := s.run(ctx, "chmod", append([]string{"--", fmt.Sprintf("%04o", mode)}, some...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs a program of the sandbox's.
func (s *ToSandbox) run(ctx context.Context, program string, args ...string) error {
	result, err := execution.Exec(ctx, s.h, execution.Command{Args: append([]string{program}, args...)})
	switch {
	case err != nil:
		return fmt.Errorf("%s in the sandbox: %w", program, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !result.Success():
		return fmt.Errorf("%s in the sandbox: %s: %s", program, result.ExitStatus, firstLine(result.Stderr))
	}
	return nil
}

func firstLine(text []byte) string {
	for i, b := range text {
		if b == '\n' {
			return string(text[:i])
		}
	}
	return string(text)
}
