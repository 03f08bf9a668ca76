package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// FromHost yields the tree at name below root, whose top is called as. It
// never leaves root: a tree that a sandbox has write access to may change while
// it is read.
func FromHost(root *os.Root, name, as string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		info, err := root.Lstat(name)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		w := hostWalk{root, yield}
		w.visit(info, name, as, 0)
	}
}

type hostWalk struct {
	root  *os.Root
	yield func(Entry, error) bool
}

func (w *hostWalk) visit(info fs.FileInfo, file, name string, depth int) bool {
	e, err := w.entry(info, file, name)
	if !w.yield(e, err) {
		return false
	}
	if !info.IsDir() {
		return true
	}
	if depth == maxDepth {
		return w.yield(Entry{}, &SkippedError{name, "it is nested too deep"})
	}
	children, err := w.children(file)
	if err != nil && !w.yield(Entry{}, &SkippedError{name, err.Error()}) {
		return false
	}
	for _, child := range children {
		below := join(file, child)
		info, err := w.root.Lstat(below)
		if err != nil {
			if !w.yield(Entry{}, &SkippedError{join(name, child), err.Error()}) {
				return false
			}
			continue
		}
		if !w.visit(info, below, join(name, child), depth+1) {
			return false
		}
	}
	return true
}

// children are the names in a directory, in their order.
func (w *hostWalk) children(dir string) ([]string, error) {
	// Whatever it has become since it was seen, opening it must not block.
	file, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	names, err := file.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, file.Close())
}

func (w *hostWalk) entry(info fs.FileInfo, file, name string) (Entry, error) {
	e := Entry{Name: name, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
	var err error
	if info.Mode()&fs.ModeSymlink != 0 {
		e.Target, err = w.root.Readlink(file)
	}
	e.Open = func(context.Context) (io.ReadCloser, error) {
		return w.open(file, name)
	}
	return e, err
}

// open opens a file. One that cannot be read, or has become something else
// since it was seen (a FIFO that nobody writes to, a link that leads out of the
// tree), is passed over.
func (w *hostWalk) open(file, name string) (io.ReadCloser, error) {
	f, err := w.root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, &SkippedError{name, err.Error()}
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(&SkippedError{name, "it has changed while it was copied"}, f.Close())
	}
	return f, nil
}

// ToHost puts a tree below a folder of this host. What it makes belongs to the
// caller, keeps its mode without the set-id bits, and its time. It never writes
// through a symbolic link: those in the tree that stay in it are kept, the
// others passed over.
type ToHost struct {
	root  *os.Root
	dirs  []madeDir
	known string // a parent that is known to be of real directories
}

type madeDir struct {
	name string
	mode fs.FileMode
	time time.Time
}

// NewToHost makes a sink; root is the top of the tree, and stays the caller's.
func NewToHost(root *os.Root) *ToHost { return &ToHost{root: root, known: "."} }

// Put takes one entry; see [Sink].
func (s *ToHost) Put(ctx context.Context, e Entry) error {
	if err := s.checkParent(path.Dir(e.Name), e.Name); err != nil {
		return err
	}
	switch {
	case e.Link != "":
		return &SkippedError{e.Name, "it is a hard link"}
	case e.Mode.IsDir():
		return s.mkdir(e)
	case e.Mode.IsRegular():
		return s.write(ctx, e)
	case e.Mode&fs.ModeSymlink != 0:
		return s.symlink(e)
	}
	return &SkippedError{e.Name, kindOf(e.Mode)}
}

// checkParent passes over what is below a symbolic link or a file.
func (s *ToHost) checkParent(dir, name string) error {
	if dir == "." || dir == s.known {
		return nil
	}
	if err := s.checkParent(path.Dir(dir), name); err != nil {
		return err
	}
	info, err := s.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return &SkippedError{name, "what it is in is no directory here"}
	}
	s.known = dir
	return nil
}

func (s *ToHost) mkdir(e Entry) error {
	if e.Name == "." {
		return nil
	}
	err := s.root.Mkdir(e.Name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := s.root.Lstat(e.Name)
		if statErr == nil && info.IsDir() {
			return nil // which keeps its mode
		}
		return &SkippedError{e.Name, "something that is no directory is in its place"}
	}
	if err == nil {
		s.dirs = append(s.dirs, madeDir{e.Name, e.Mode.Perm(), e.ModTime})
	}
	return err
}

// write makes a file beside its place, and puts it there when it is whole.
func (s *ToHost) write(ctx context.Context, e Entry) (err error) {
	if info, err := s.root.Lstat(e.Name); err == nil && info.IsDir() {
		return &SkippedError{e.Name, "a directory is in its place"}
	}
	r, err := e.Open(ctx)
	if err != nil {
		return err
	}
	temp := join(path.Dir(e.Name), ".pinfold-"+rand.Text())
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.root.Remove(temp))
		}
	}()
	out := &holes{file: f}
	_, err = pour(ctx, out, r, math.MaxInt64)
	if err == nil {
		err = f.Truncate(out.size)
	}
	if err == nil {
		err = f.Chmod(e.Mode.Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.root.Chtimes(temp, e.ModTime, e.ModTime); err != nil {
		return err
	}
	return s.root.Rename(temp, e.Name)
}

// holes writes a file without the parts that are zero, which then take no room.
type holes struct {
	file *os.File
	size int64
}

func (h *holes) Write(p []byte) (int, error) {
	at := h.size
	h.size += int64(len(p))
	if len(bytes.Trim(p, "\x00")) == 0 {
		return len(p), nil
	}
	return h.file.WriteAt(p, at)
}

func (s *ToHost) symlink(e Entry) error {
	if e.Name == "." || !staysInside(e.Name, e.Target) {
		return &SkippedError{e.Name, fmt.Sprintf("it is a symbolic link that leads out of the tree, to %q", e.Target)}
	}
	switch info, err := s.root.Lstat(e.Name); {
	case err != nil:
	case info.IsDir():
		return &SkippedError{e.Name, "a directory is in its place"}
	default:
		if err := s.root.Remove(e.Name); err != nil {
			return err
		}
	}
	return s.root.Symlink(e.Target, e.Name)
}

// Close gives the new directories their modes and times, the deepest first:
// one may be such that nobody can write to it.
func (s *ToHost) Close(context.Context) error {
	var errs []error
	for _, dir := range slices.Backward(s.dirs) {
		info, err := s.root.Lstat(dir.name)
		if err != nil || !info.IsDir() {
			continue // somebody has replaced it
		}
		errs = append(errs, s.root.Chtimes(dir.name, dir.time, dir.time), s.root.Chmod(dir.name, dir.mode))
	}
	return errors.Join(errs...)
}
