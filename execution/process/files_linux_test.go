//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// entries lists what is in a directory, the hidden too.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A readerTo writes to a file by itself, as the guest does.
type readerTo struct {
	io.Reader

	file bool // what it was given was an *os.File
}

func (r *readerTo) WriteTo(w io.Writer) (int64, error) {
	_, r.file = w.(*os.File)
	return io.Copy(w, r.Reader)
}

// A writerFrom takes a file by itself.
type writerFrom struct {
	bytes.Buffer

	got io.Reader
}

func (w *writerFrom) ReadFrom(r io.Reader) (int64, error) {
	w.got = r
	return w.Buffer.ReadFrom(r)
}

func TestTransfersHandOutTheFileItself(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	from := &readerTo{Reader: strings.NewReader("0123456789")}
	if err := h.WriteFile(t.Context(), "file", from, execution.WriteOptions{}); err != nil || !from.file {
		t.Errorf("%v; got a file: %v", err, from.file)
	}
	for _, row := range []struct {
		opts execution.ReadOptions
		want string
	}{
		{execution.ReadOptions{}, "0123456789"},
		{execution.ReadOptions{Offset: 3}, "3456789"},
		{execution.ReadOptions{Offset: 3, Length: 2}, "34"},
	} {
		r, err := h.OpenFile(t.Context(), "file", row.opts)
		if err != nil {
			t.Fatal(err)
		}
		to := &writerFrom{}
		if _, err := io.Copy(to, r); err != nil || to.String() != row.want {
			t.Errorf("%+v: %q, %v", row.opts, to.String(), err)
		}
		inner := to.got
		if limited, ok := inner.(*io.LimitedReader); ok {
			inner = limited.R
		}
		if _, ok := inner.(*os.File); !ok {
			t.Errorf("%+v: got a %T", row.opts, to.got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSpecialFilesAreRefused(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	if err := unix.Mkfifo(h.Dir()+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"fifo", "/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/proc/self/fd/0"} {
		info, err := os.Stat(resolve(h.Dir(), path))
		if err != nil || info.Mode().IsRegular() {
			continue // not here
		}
		if _, err := h.OpenFile(t.Context(), path, execution.ReadOptions{}); !errors.Is(err, execution.ErrInvalid) {
			t.Errorf("OpenFile %s: %v", path, err)
		}
		if err := execution.WriteFile(t.Context(), h, path, []byte("x")); err == nil {
			t.Errorf("WriteFile %s works", path)
		}
	}
	// Files of /proc say that they are empty, and are not.
	data, err := execution.ReadFile(t.Context(), h, "/proc/self/status", 0)
	if err != nil || !bytes.Contains(data, []byte("VmRSS")) {
		t.Errorf("%.40q, %v", data, err)
	}
	if _, err := execution.ReadFile(t.Context(), h, "/proc/self/mem", 0); err == nil {
		t.Error("the first page of memory can be read")
	}
}

func TestWriteIgnoresUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	h := spawn(t, newTestContext(t, Options{}))
	for path, want := range map[string]fs.FileMode{
		"a/b/file": 0o644, "a": fs.ModeDir | 0o755, "a/b": fs.ModeDir | 0o755, "other": 0o666,
	} {
		if !want.IsDir() {
			err := h.WriteFile(t.Context(), path, strings.NewReader("x"), execution.WriteOptions{Mode: want})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, want := range map[string]fs.FileMode{
		"a/b/file": 0o644, "a": fs.ModeDir | 0o755, "a/b": fs.ModeDir | 0o755, "other": 0o666,
	} {
		if info, err := h.Stat(t.Context(), path); err != nil || info.Mode != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode, err, want)
		}
	}
}

func TestWriteKeepsOwnerAndMode(t *testing.T) {
	needRoot(t)
	h := spawn(t, newTestContext(t, Options{}))
	path := h.Dir() + "/file"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(path, 1234, 2345), os.Chmod(path, 0o4751|fs.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if err := execution.WriteFile(t.Context(), h, "file", []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := h.Stat(t.Context(), "file")
	if err != nil || info.UID != 1234 || info.GID != 2345 || info.Mode != 0o751|fs.ModeSetuid {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestWriteFailuresLeaveNothing(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := execution.WriteFile(t.Context(), h, "old", []byte("as it was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Dir()+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of one row
		path string
		r    io.Reader
		want error
	}{
		"reader fails":    {t.Context(), "old", io.MultiReader(strings.NewReader("x"), failing{}), io.ErrNoProgress},
		"writer-to fails": {t.Context(), "old", failing{}, io.ErrNoProgress},
		"context ended":   {ended, "old", strings.NewReader("x"), context.Canceled},
		"directory":       {t.Context(), "dir", strings.NewReader("x"), execution.ErrIsDir},
		"slash at end":    {t.Context(), "none/", strings.NewReader("x"), execution.ErrIsDir},
		"below a file":    {t.Context(), "old/x", strings.NewReader("x"), execution.ErrNotDir},
		"empty path":      {t.Context(), "", strings.NewReader("x"), execution.ErrInvalid},
		"long name":       {t.Context(), strings.Repeat("n", 300), strings.NewReader("x"), execution.ErrInvalid},
		"in /proc":        {t.Context(), "/proc/pinfold", strings.NewReader("x"), nil},
	} {
		err := h.WriteFile(row.ctx, row.path, row.r, execution.WriteOptions{})
		var typed *execution.Error
		if !errors.As(err, &typed) || (row.want != nil && !errors.Is(err, row.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.WriteFile(t.Context(), "m", strings.NewReader("x"), execution.WriteOptions{Mode: fs.ModeDir}); !errors.Is(err, execution.ErrInvalid) {
		t.Errorf("mode of a directory: %v", err)
	}
	if got := entries(t, h.Dir()); !slices.Equal(got, []string{"dir", "old"}) {
		t.Errorf("left: %q", got)
	}
	if data, err := execution.ReadFile(t.Context(), h, "old", 0); err != nil || string(data) != "as it was" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestWriteWithoutSpace(t *testing.T) {
	needRoot(t)
	h := spawn(t, newTestContext(t, Options{}))
	dir := h.Dir() + "/small"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m,nr_inodes=5"); err != nil {
		t.Skipf("no file system to be had: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if err := execution.WriteFile(t.Context(), h, "small/file", []byte("old")); err != nil {
		t.Fatal(err)
	}
	err := h.WriteFile(t.Context(), "small/file", io.LimitReader(zeros{}, 2<<20), execution.WriteOptions{})
	if !errors.Is(err, execution.ErrNoSpace) {
		t.Errorf("no space: %v", err)
	}
	if got := entries(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left: %q", got)
	}
	for i := range 4 {
		err = execution.WriteFile(t.Context(), h, fmt.Sprintf("small/more-%d", i), nil)
	}
	if !errors.Is(err, execution.ErrNoSpace) {
		t.Errorf("no inodes: %v", err)
	}
}

func TestWriteToMountPoint(t *testing.T) {
	needRoot(t)
	h := spawn(t, newTestContext(t, Options{}))
	source := filepath.Join(t.TempDir(), "source")
	for _, path := range []string{source, h.Dir() + "/target"} {
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(source, h.Dir()+"/target", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no mount to be had: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(h.Dir()+"/target", 0) })
	err := execution.WriteFile(t.Context(), h, "target", []byte("new"))
	if !errors.Is(err, execution.ErrUnsupported) || !strings.Contains(err.Error(), "mount") {
		t.Errorf("%v", err)
	}
	if data, _ := os.ReadFile(source); string(data) != "old" {
		t.Errorf("the file is %q", data)
	}
	if got := entries(t, h.Dir()); !slices.Equal(got, []string{"target"}) {
		t.Errorf("left: %q", got)
	}
}

func TestReadAfterDestroy(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	if err := execution.WriteFile(t.Context(), h, "file", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	r, err := h.OpenFile(t.Context(), "file", execution.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A write whose context ends with its input has not been made, and says why,
// however far it had come.
func TestWriteWhoseContextEndsWithItsInput(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		err := h.WriteFile(ctx, "file", readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }), execution.WriteOptions{})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if names := entries(t, h.Dir()); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
