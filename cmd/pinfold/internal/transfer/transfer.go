// Package transfer copies trees of files between a sandbox, this host and tar
// streams.
//
// A source ([FromSandbox], [FromHost], [FromTar]) yields entries, directories
// before what is in them; [Copy] puts them into a [Sink] ([ToSandbox],
// [ToHost], [ToTar]) one by one, and closes it. File content is never held:
// memory grows with the number of directories only.
//
// Nothing that a sandbox or a tar stream says is believed: names that lead out
// of the tree, links that do, and whatever is no file, directory or link are
// passed over and told of.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"strings"
	"time"
)

// An Entry is one file, directory or link on its way.
type Entry struct {
	Name    string // bytes, with slashes, relative to the top of the tree, which is "."
	Mode    fs.FileMode
	Size    int64 // of a file, in bytes
	ModTime time.Time
	UID     int
	GID     int
	Target  string // of a symbolic link
	Link    string // of a hard link: the name of the entry that it is the same as

	// Open opens a file's content. It is called at most once, before the next
	// entry is asked for.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// A SkippedError is the error of an entry that is passed over.
type SkippedError struct {
	Name string
	Why  string
}

func (s *SkippedError) Error() string { return fmt.Sprintf("%q was not copied: %s", s.Name, s.Why) }

// A Sink takes the entries of a tree.
type Sink interface {
	// Put takes one entry. A [SkippedError] says that it did not, and why.
	Put(ctx context.Context, e Entry) error

	// Close does what can be done only at the end.
	Close(ctx context.Context) error
}

// Copy puts what entries yields into sink, and tells skipped of what could not
// be. It ends at the first error of another kind. The sink is closed in any
// case.
func Copy(ctx context.Context, entries iter.Seq2[Entry, error], sink Sink, skipped func(*SkippedError)) error {
	err := copyAll(ctx, entries, sink, skipped)
	return errors.Join(err, sink.Close(ctx))
}

func copyAll(ctx context.Context, entries iter.Seq2[Entry, error], sink Sink, skipped func(*SkippedError)) error {
	for e, err := range entries {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = checkName(e.Name)
		}
		if err == nil {
			err = sink.Put(ctx, e)
		}
		var skip *SkippedError
		switch {
		case errors.As(err, &skip):
			skipped(skip)
		case err != nil:
			return err
		}
	}
	return nil
}

// checkName refuses names that are not below the top of the tree.
func checkName(name string) error {
	if name == "." {
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !plain(part) {
			return &SkippedError{name, "its name leads out of the tree"}
		}
	}
	return nil
}

// plain reports whether name is the name of something in a directory.
func plain(name string) bool {
	separators := "/\x00"
	if runtime.GOOS == "windows" {
		separators = "/\\:\x00"
	}
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, separators)
}

// kindOf says what an entry is that cannot be copied.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "it is a FIFO"
	case mode&fs.ModeSocket != 0:
		return "it is a socket"
	case mode&fs.ModeDevice != 0:
		return "it is a device"
	}
	return "it is neither file, directory nor link"
}

// staysInside reports whether a symbolic link stays in the tree. name is where
// it is, in directories that are none themselves. Only leading ".." are
// allowed, and no more than there are directories above: behind a name, which
// may be that of another link, ".." could lead anywhere.
func staysInside(name, target string) bool {
	if target == "" || strings.HasPrefix(target, "/") || strings.ContainsRune(target, 0) {
		return false
	}
	above, named := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && !named && above > 0:
			above--
		case !plain(part):
			return false
		default:
			named = true
		}
	}
	return true
}

const copyBuffer = 128 << 10

// pour copies what r yields to w, at most limit bytes, and closes r. It gives up
// when ctx ends, however much there is and even if nothing comes.
func pour(ctx context.Context, w io.Writer, r io.ReadCloser, limit int64) (int64, error) {
	stop := context.AfterFunc(ctx, func() { _ = r.Close() }) // under a Read
	read := func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	}
	n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(readerFunc(read), limit), make([]byte, copyBuffer))
	if !stop() {
		return n, context.Cause(ctx)
	}
	return n, errors.Join(err, r.Close())
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type onlyWriter struct{ io.Writer }
