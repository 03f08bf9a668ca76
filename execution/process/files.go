//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// Stat describes a file; see [execution.Handle].
func (h *handle) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	return h.stat(ctx, "stat", path, os.Stat)
}

// Lstat describes a file or link; see [execution.Handle].
func (h *handle) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	return h.stat(ctx, "lstat", path, os.Lstat)
}

func (h *handle) stat(ctx context.Context, op, name string, stat func(string) (os.FileInfo, error)) (execution.FileInfo, error) {
	err := h.checkFile(ctx, name)
	if err != nil {
		return execution.FileInfo{}, h.failure(op, name, err)
	}
	full := resolve(h.spec.Dir, name)
	info, err := stat(full)
	if err != nil {
		return execution.FileInfo{}, h.failure(op, name, mapError(err))
	}
	return fileInfo(lastElement(name), full, info), nil
}

// checkFile is what every file operation starts with.
func (h *handle) checkFile(ctx context.Context, path string) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	return checkPath(path)
}

func lastElement(name string) string {
	return path.Base(name)
}

// fileInfo describes what os.Lstat or os.Stat found at full.
func fileInfo(name, full string, info os.FileInfo) execution.FileInfo {
	f := execution.FileInfo{Name: name, Size: info.Size(), Mode: info.Mode(), ModTime: within(info.ModTime())}
	f.UID, f.GID = owner(info)
	if info.Mode()&os.ModeSymlink != 0 {
		// It may have been replaced meanwhile; then there is no target to tell.
		f.Target, _ = os.Readlink(full)
	}
	return f
}

// within is the nearest time to t that can be printed and encoded everywhere. A
// file may say any time of some hundred thousand million years: touch sets it.
func within(t time.Time) time.Time {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	// Comparing seconds, since a Time that far off may have come round.
	switch seconds := t.Unix(); {
	case seconds < first.Unix():
		return first
	case seconds > last.Unix():
		return last
	}
	return t
}

// OpenFile opens a file for reading; see [execution.Handle]. The reader is an
// io.WriterTo: a writer that implements io.ReaderFrom gets the file itself, as
// an *os.File or an io.LimitedReader on one, and can splice from it.
func (h *handle) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	const op = "open file"
	err := h.checkFile(ctx, path)
	if err == nil && (opts.Offset < 0 || opts.Length < 0) {
		err = fmt.Errorf("%w: offset %d and length %d: want no negative numbers", execution.ErrInvalid, opts.Offset, opts.Length)
	}
	if err != nil {
		return nil, h.failure(op, path, err)
	}
	f, err := openRegular(resolve(h.spec.Dir, path))
	if err != nil {
		return nil, h.failure(op, path, err)
	}
	if opts.Offset > 0 {
		if _, err := f.Seek(opts.Offset, io.SeekStart); err != nil {
			_ = f.Close()
			return nil, h.failure(op, path, mapError(err))
		}
	}
	r := &fileReader{h: h, path: path, f: f, r: f}
	if opts.Length > 0 {
		r.r = &io.LimitedReader{R: f, N: opts.Length}
	}
	if err := h.keep(r); err != nil {
		_ = f.Close()
		return nil, h.failure(op, path, err)
	}
	return r, nil
}

// openRegular opens a regular file. Others are not even opened: to open a FIFO
// may wait for ever, and to open a device may do something.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, mapError(err)
	}
	// It may have been replaced since; then this does not wait either.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, mapError(err)
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, mapError(err)
	}
	return f, nil
}

func checkRegular(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return execution.ErrIsDir
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file (%v)", execution.ErrInvalid, info.Mode().Type())
	}
	return nil
}

// A fileReader is an open file of a handle.
type fileReader struct {
	h      *handle
	path   string
	f      *os.File
	r      io.Reader // f, or a part of it
	closed atomic.Bool
}

// keep has Destroy close a file, should it still be open.
func (h *handle) keep(f io.Closer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return execution.ErrClosed
	}
	h.files[f] = struct{}{}
	return nil
}

func (h *handle) unkeep(f io.Closer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.files, f)
}

// Read reads the next bytes.
func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	return n, r.failure(err)
}

// WriteTo writes what is left of the file to w.
func (r *fileReader) WriteTo(w io.Writer) (int64, error) {
	if to, ok := w.(io.ReaderFrom); ok {
		n, err := to.ReadFrom(r.r)
		return n, r.failure(err)
	}
	buffer := r.h.context.buffers.Get().(*[bufferSize]byte)
	defer r.h.context.buffers.Put(buffer)
	// Neither side may have a shortcut of its own, which would leave the
	// buffer unused.
	n, err := io.CopyBuffer(onlyWriter{w}, onlyReader{r.r}, buffer[:])
	return n, r.failure(err)
}

type onlyWriter struct{ io.Writer }

type onlyReader struct{ io.Reader }

func (r *fileReader) failure(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	var ours *os.PathError
	switch {
	case r.closed.Load():
		err = execution.ErrClosed
	case errors.As(err, &ours) && ours.Path == r.f.Name():
		err = mapError(ours.Err)
	default:
		return err // the writer's
	}
	return r.h.failure("read file", r.path, err)
}

// Close closes the file. Closing it again does nothing.
func (r *fileReader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.h.unkeep(r)
	if err := r.f.Close(); err != nil {
		return r.h.failure("close file", r.path, mapError(err))
	}
	return nil
}
