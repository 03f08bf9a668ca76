package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
)

// FromTar yields what is in a tar stream.
func FromTar(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := tar.NewReader(r)
		for {
			header, err := in.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				yield(Entry{}, fmt.Errorf("reading the tar stream: %w", err))
				return
			}
			if header.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			if !yield(tarEntry(in, header)) {
				return
			}
		}
	}
}

func tarEntry(in *tar.Reader, header *tar.Header) (Entry, error) {
	name, inside := tarName(header.Name)
	if !inside {
		return Entry{}, &SkippedError{header.Name, "its name leads out of the tree"}
	}
	info := header.FileInfo()
	e := Entry{
		Name: name, Mode: info.Mode(), Size: header.Size, ModTime: header.ModTime,
		UID: header.Uid, GID: header.Gid,
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(in), nil },
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		e.Target = header.Linkname
	case tar.TypeLink:
		if e.Link, inside = tarName(header.Linkname); !inside {
			return Entry{}, &SkippedError{header.Name, "it is a hard link that leads out of the tree"}
		}
	}
	return e, nil
}

// tarName is a name in its shortest form. It is not inside when it is absolute
// or goes up anywhere.
func tarName(name string) (_ string, inside bool) {
	if strings.HasPrefix(name, "/") {
		return name, false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return name, false
		}
	}
	return path.Clean(name), true
}

// ToTar writes a tree as a tar stream. Links are written as they are, set-id
// bits are not.
type ToTar struct{ out *tar.Writer }

// NewToTar makes a sink.
func NewToTar(w io.Writer) *ToTar { return &ToTar{tar.NewWriter(w)} }

// Put takes one entry; see [Sink].
func (s *ToTar) Put(ctx context.Context, e Entry) error {
	header := &tar.Header{
		Name: e.Name, Mode: int64(e.Mode.Perm()), ModTime: e.ModTime, Uid: e.UID, Gid: e.GID,
	}
	switch {
	case e.Link != "":
		header.Typeflag, header.Linkname = tar.TypeLink, e.Link
	case e.Mode.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case e.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.Target
	case e.Mode.IsRegular():
		return s.file(ctx, header, e)
	default:
		return &SkippedError{e.Name, kindOf(e.Mode)}
	}
	return s.out.WriteHeader(header)
}

// maxPadding is how much is made up of a file that became shorter, in bytes: the
// size that was told first may have been a sandbox's invention.
const maxPadding = 64 << 20

func (s *ToTar) file(ctx context.Context, header *tar.Header, e Entry) error {
	r, err := e.Open(ctx) // before the header: one that cannot be read is passed over
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, e.Size
	if err := s.out.WriteHeader(header); err != nil {
		return errors.Join(err, r.Close())
	}
	n, err := pour(ctx, s.out, r, e.Size)
	missing := e.Size - n
	switch {
	case err != nil || missing == 0:
		return err
	case missing > maxPadding:
		return fmt.Errorf("%q became shorter by %d bytes while it was copied, or never had them", e.Name, missing)
	}
	// The stream has promised its size.
	if _, err := io.CopyN(s.out, zeros{}, missing); err != nil {
		return err
	}
	return &SkippedError{e.Name, fmt.Sprintf("it became shorter while it was copied; its last %d bytes are zeros", missing)}
}

// Close ends the stream.
func (s *ToTar) Close(context.Context) error { return s.out.Close() }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
