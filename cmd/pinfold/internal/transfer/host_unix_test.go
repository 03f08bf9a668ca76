//go:build unix

package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var when = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

func file(name, content string, mode fs.FileMode) Entry {
	return Entry{
		Name: name, Mode: mode, Size: int64(len(content)), ModTime: when,
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
	}
}

func folder(name string, mode fs.FileMode) Entry {
	return Entry{Name: name, Mode: fs.ModeDir | mode, ModTime: when}
}

func link(name, target string) Entry {
	return Entry{Name: name, Mode: fs.ModeSymlink | 0o777, Target: target, ModTime: when}
}

func all(entries ...Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// onHost copies entries to a folder below outside, and returns the names of
// those that were passed over.
func onHost(t *testing.T, outside string, entries iter.Seq2[Entry, error]) (target string, skipped []string) {
	t.Helper()
	target = filepath.Join(outside, "target")
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	err = Copy(t.Context(), entries, NewToHost(root), func(s *SkippedError) { skipped = append(skipped, s.Name) })
	if err != nil {
		t.Fatal(err)
	}
	return target, skipped
}

// Modes without set-id bits, times, and links that stay inside are kept.
func TestToHostKeeps(t *testing.T) {
	t.Parallel()
	target, skipped := onHost(t, t.TempDir(), all(
		folder(".", 0o700), folder("dir", 0o555), file("dir/tool", "x", fs.ModeSetuid|fs.ModeSetgid|0o755),
		file("dir/\xff\n\x1b", "bytes", 0o600), link("dir/up", "../secret"), link("dir/here", "tool"), file("secret", "s", 0),
	))
	if len(skipped) > 0 {
		t.Errorf("passed over: %q", skipped)
	}
	for name, mode := range map[string]fs.FileMode{
		"dir": fs.ModeDir | 0o555, "dir/tool": 0o755, "dir/\xff\n\x1b": 0o600, "secret": 0,
	} {
		info, err := os.Lstat(filepath.Join(target, name))
		if err != nil || info.Mode() != mode || !info.ModTime().Equal(when) {
			t.Errorf("%q: %v, mode %v, time %v", name, err, info.Mode(), info.ModTime())
		}
	}
	if got, err := os.Readlink(filepath.Join(target, "dir/up")); err != nil || got != "../secret" {
		t.Errorf("the link leads to %q, %v", got, err)
	}
	if err := os.Chmod(filepath.Join(target, "dir"), 0o755); err != nil {
		t.Error(err)
	}
}

// Whatever tries to leave the target does not, and is told of.
func TestToHostHostileTree(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	target, skipped := onHost(t, outside, all(
		file("../precious", "x", 0o644), file("/etc/passwd-copy", "x", 0o644), file("a/../../precious", "x", 0o644),
		file("a//b", "x", 0o644), file("", "x", 0o644), file("nul\x00", "x", 0o644),
		link("abs", "/etc"), link("up", "../precious"), link("empty", ""), folder("d", 0o755), folder("d/e", 0o755),
		link("d/e/top", "../.."), link("sneaky", "d/e/top/../precious"), link("d/far", "../../precious"),
		// A link in the place of a directory, and the other way round.
		link("dir", "d"), folder("dir", 0o755), file("dir/through", "x", 0o644), link("d", "."), file("d", "x", 0o644),
		// A file that was a link before does not go through it.
		link("same", "d/e"), file("same", "content", 0o644),
		Entry{Name: "hard", Link: "same", Mode: 0o644},
		Entry{Name: "fifo", Mode: fs.ModeNamedPipe}, Entry{Name: "dev", Mode: fs.ModeDevice | fs.ModeCharDevice},
		Entry{Name: "sock", Mode: fs.ModeSocket},
	))
	want := []string{
		"../precious", "/etc/passwd-copy", "a/../../precious", "a//b", "", "nul\x00", "abs", "up", "empty",
		"sneaky", "d/far", "dir", "dir/through", "d", "d", "hard", "fifo", "dev", "sock",
	}
	if !slices.Equal(skipped, want) {
		t.Errorf("passed over:\n%q\nwant:\n%q", skipped, want)
	}
	if got, err := os.ReadFile(precious); err != nil || string(got) != "safe" {
		t.Errorf("outside the target: %q, %v", got, err)
	}
	var got []string
	err := filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(target, path)
		got = append(got, name+" "+d.Type().String())
		return err
	})
	left := []string{
		". d---------", "d d---------", "d/e d---------", "d/e/top L---------", "dir L---------", "same ----------",
	}
	if err != nil || !slices.Equal(got, left) {
		t.Errorf("%v, in the target:\n%q\nwant:\n%q", err, got, left)
	}
}

// Somebody who has write access to the target puts links into it while it is
// written to, which lead out: nothing goes there.
func TestToHostRacedBySymlinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	elsewhere := filepath.Join(outside, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(outside, "target")
	swap := func(name string) func() {
		return func() {
			at := filepath.Join(target, name)
			if err := errors.Join(os.RemoveAll(at), os.Symlink(elsewhere, at)); err != nil {
				t.Error(err)
			}
		}
	}
	root := func() *os.Root {
		if err := os.MkdirAll(filepath.Join(target, "dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(target)
		if err != nil {
			t.Fatal(err)
		}
		return root
	}()
	defer func() { _ = root.Close() }()
	raced := file("dir/file", "x", 0o644)
	open := raced.Open
	raced.Open = func(ctx context.Context) (io.ReadCloser, error) { swap("dir")(); return open(ctx) }
	err := Copy(t.Context(), all(folder("dir", 0o755), raced, file("dir/other", "x", 0o644)), NewToHost(root),
		func(*SkippedError) {})
	if err == nil {
		t.Error("the copy does not fail though its folder has gone")
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("outside the target: %v, %v", left, err)
	}
}

// What is no file is not opened, and what is swapped for a link is not followed
// out of the tree.
func TestFromHostHostileTree(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	tree := filepath.Join(outside, "tree")
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.Mkdir(tree, 0o700), os.WriteFile(filepath.Join(tree, "a"), []byte("a"), 0o600),
		os.WriteFile(filepath.Join(tree, "b"), []byte("b"), 0o600),
		os.WriteFile(filepath.Join(tree, "c"), []byte("c"), 0o600),
		syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o600), os.Symlink("../secret", filepath.Join(tree, "link")),
	); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	swapping := func(yield func(Entry, error) bool) {
		for e, err := range FromHost(root, ".", "top") {
			switch at := filepath.Join(tree, filepath.Base(e.Name)); e.Name {
			case "top/b":
				_ = os.Remove(at)
				_ = os.Symlink("../secret", at)
			case "top/c":
				_ = os.Remove(at)
				_ = syscall.Mkfifo(at, 0o600)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	var out bytes.Buffer
	var skipped []string
	err = Copy(t.Context(), swapping, NewToTar(&out), func(s *SkippedError) { skipped = append(skipped, s.Name) })
	if want := []string{"top/b", "top/c", "top/fifo"}; err != nil || !slices.Equal(skipped, want) {
		t.Errorf("%v, passed over %q, want %q", err, skipped, want)
	}
	// The link itself is in the stream, what it leads to is not.
	if n := strings.Count(out.String(), "secret"); n != 1 {
		t.Errorf("the stream says secret %d times", n)
	}
}

// A tree goes through a tar stream and back.
func TestTar(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	entries := all(folder("top", 0o700), file("top/\xffname", "content", fs.ModeSetuid|0o640), link("top/l", "\xffname"))
	if err := Copy(t.Context(), entries, NewToTar(&stream), func(s *SkippedError) { t.Error(s) }); err != nil {
		t.Fatal(err)
	}
	target, skipped := onHost(t, t.TempDir(), FromTar(&stream))
	if len(skipped) > 0 {
		t.Errorf("passed over: %q", skipped)
	}
	got, err := os.ReadFile(filepath.Join(target, "top/l"))
	info, statErr := os.Stat(filepath.Join(target, "top/\xffname"))
	if err = errors.Join(err, statErr); err != nil || string(got) != "content" || info.Mode() != 0o640 {
		t.Errorf("%v, %q", err, got)
	}
}

// A hostile stream is passed over where it leads out.
func TestHostileTar(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	out := tar.NewWriter(&stream)
	for _, header := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg},
		{Name: "/x", Typeflag: tar.TypeReg},
		{Name: "a/../../x", Typeflag: tar.TypeReg},
		{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"},
		{Name: "dev", Typeflag: tar.TypeChar},
		{Name: "./good", Typeflag: tar.TypeReg, Mode: 0o600},
		{Name: "up", Typeflag: tar.TypeSymlink, Linkname: ".."},
	} {
		if err := out.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	target, skipped := onHost(t, t.TempDir(), FromTar(&stream))
	if want := []string{"../x", "/x", "a/../../x", "hard", "dev", "up"}; !slices.Equal(skipped, want) {
		t.Errorf("passed over %q, want %q", skipped, want)
	}
	if _, err := os.Stat(filepath.Join(target, "good")); err != nil {
		t.Error(err)
	}
}

func TestStaysInside(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, target string
		want         bool
	}{
		{"l", "a", true},
		{"l", "a/b", true},
		{"l", "./a", true},
		{"d/l", "../a", true},
		{"d/l", "..", true},
		{"l", "..", false},
		{"l", "/a", false},
		{"l", "", false},
		{"d/l", "../..", false},
		{"d/l", "a/../b", false},
		{"d/e/l", "../../x", true},
		{"d/e/l", "../../../x", false},
		{"l", "a\x00", false},
		{"l", ".", true},
	} {
		if got := staysInside(row.name, row.target); got != row.want {
			t.Errorf("%s -> %s: %v", row.name, row.target, got)
		}
	}
}
