//go:build unix

package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// patience is when a test that waits is taken to hang.
const patience = 20 * time.Second

// within fails a test whose do does not return.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// endless is a file whose content has no end, or none that comes.
func endless(r io.Reader) Entry {
	e := file("endless", "", 0o600)
	closed := make(chan struct{})
	e.Open = func(context.Context) (io.ReadCloser, error) {
		if r == nil {
			return &blocked{closed}, nil
		}
		return io.NopCloser(r), nil
	}
	return e
}

type blocked struct{ closed chan struct{} }

func (b *blocked) Read([]byte) (int, error) { <-b.closed; return 0, fs.ErrClosed }
func (b *blocked) Close() error             { close(b.closed); return nil }

// Whoever breaks a copy off does not wait for what may never come.
func TestCopyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]io.Reader{"a file without end": zeros{}, "a file that stalls": nil} {
		for sink := range map[string]bool{"host": true, "tar": true} {
			t.Run(name+" to "+sink, func(t *testing.T) {
				t.Parallel()
				root, err := os.OpenRoot(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				var to Sink = NewToHost(root)
				if sink == "tar" {
					to = NewToTar(io.Discard)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				e := endless(content)
				e.Size = 1 << 60
				within(t, func() { err = Copy(ctx, all(e), to, func(*SkippedError) {}) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if left, _ := filepath.Glob(filepath.Join(root.Name(), ".pinfold-*")); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

// A size that a sandbox only claims is not made true.
func TestTarOfAFileThatIsNotAsLargeAsItSays(t *testing.T) {
	t.Parallel()
	e := file("claim", "little", 0o600)
	e.Size = 1 << 50
	var err error
	within(t, func() { err = Copy(t.Context(), all(e), NewToTar(io.Discard), func(*SkippedError) {}) })
	if err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
}

// What takes no room in the sandbox takes none here.
func TestHolesStayHoles(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	e := file("sparse", "", 0o600)
	e.Open = func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("start"), io.LimitReader(zeros{}, size-10), strings.NewReader("end"),
			io.LimitReader(zeros{}, 2))), nil
	}
	target, skipped := onHost(t, t.TempDir(), all(e))
	if len(skipped) > 0 {
		t.Errorf("passed over: %q", skipped)
	}
	at := filepath.Join(target, "sparse")
	info, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != size || used > size/8 {
		t.Errorf("%d bytes, which take %d", info.Size(), used)
	}
	data, err := os.ReadFile(at)
	if err != nil || !bytes.HasPrefix(data, []byte("start\x00")) || !bytes.HasSuffix(data, []byte("\x00end\x00\x00")) ||
		bytes.Count(data, []byte{0}) != size-8 {
		t.Errorf("it is not the same, %v", err)
	}
}

// wide is a handle whose one directory holds directories without end.
type wide struct{ execution.Handle }

func (wide) Lstat(context.Context, string) (execution.FileInfo, error) {
	return execution.FileInfo{Mode: fs.ModeDir}, nil
}

func (wide) List(context.Context, string) iter.Seq2[execution.FileInfo, error] {
	return func(yield func(execution.FileInfo, error) bool) {
		name := strings.Repeat("n", 4000)
		for yield(execution.FileInfo{Name: name, Mode: fs.ModeDir, Target: name}, nil) {
			name = strings.Clone(name)
		}
	}
}

// What a sandbox makes us remember is bounded.
func TestEndlessDirectories(t *testing.T) {
	t.Parallel()
	last, passed := error(nil), 0
	within(t, func() {
		for _, err := range FromSandbox(t.Context(), wide{}, "d", "d", false) {
			if last = err; err != nil {
				passed++
			}
			if passed > 1000 {
				break
			}
		}
	})
	var skip *SkippedError
	if !errors.As(last, &skip) || !strings.Contains(skip.Why, "long") {
		t.Error(last)
	}
}
