//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// plant makes files, and links where a name has an arrow in it.
func plant(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		link, target, isLink := strings.Cut(name, "->")
		path := filepath.Join(dir, link)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte(name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func collect(t *testing.T, seq iter.Seq2[execution.FileInfo, error]) (names []string) {
	t.Helper()
	for info, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

func TestGlob(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	plant(t, h.Dir(), "a/x.go", "a/y.txt", "a.go", "a-b/x.go", "a/b/c/deep.go", ".hidden/x.go", "bad\xff/n\xfe.go",
		"link->a", "loop->.", "dead->nothing", "sp ace/[x].go", "z/")
	for pattern, want := range map[string][]string{
		"*.go":           {"a.go"},
		"**/*.go":        {".hidden/x.go", "a-b/x.go", "a.go", "a/b/c/deep.go", "a/x.go", "bad\xff/n\xfe.go", "sp ace/[x].go"},
		"./*.go":         {"a.go"},
		"*/x.go":         {".hidden/x.go", "a-b/x.go", "a/x.go"},
		"a/*":            {"a/b", "a/x.go", "a/y.txt"},
		"a/**/*.go":      {"a/b/c/deep.go", "a/x.go"},
		"{a,a-b}/x.go":   {"a-b/x.go", "a/x.go"},
		"{a/b,z}/**":     {"a/b", "a/b/c", "a/b/c/deep.go", "z"},
		"*":              {".hidden", "a", "a-b", "a.go", "bad\xff", "dead", "link", "loop", "sp ace", "z"},
		"link/*":         nil,
		"sp ace/\\[x].*": {"sp ace/[x].go"},
		"bad?/*":         {"bad\xff/n\xfe.go"},
		"nothing":        nil,
	} {
		if got := collect(t, h.Glob(t.Context(), ".", pattern)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	for _, pattern := range []string{"", "/etc/*", "../*", "a/../../*", "[", "{a", "x\x00"} {
		for _, err := range h.Glob(t.Context(), ".", pattern) {
			if !errors.Is(err, execution.ErrInvalid) {
				t.Errorf("%q: %v", pattern, err)
			}
		}
	}
	for info, err := range h.Glob(t.Context(), ".", "dead") {
		if err != nil || info.Target != "nothing" || info.Mode.Type() != os.ModeSymlink {
			t.Errorf("%+v, %v", info, err)
		}
	}
}

// TestWalkInPieces has directories with more entries than a walk may hold.
func TestWalkInPieces(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	var want []string
	for i := range 1000 {
		want = append(want, fmt.Sprintf("%04d", i))
		if i%10 == 0 {
			for j := range 20 {
				want = append(want, fmt.Sprintf("%04d/%d", i, j))
			}
		}
	}
	plant(t, h.Dir(), slices.DeleteFunc(slices.Clone(want), func(name string) bool {
		return len(name) == 4 && strings.HasSuffix(name, "0")
	})...)
	slices.Sort(want)
	for _, room := range []int{0, 1, 100, 999, 1000, 5000} {
		var got []string
		w := &walker{
			h: h.(*handle), ctx: t.Context(), room: room,
			pick:  func(_ string, isDir bool) (matches, descend bool) { return true, isDir },
			yield: func(info execution.FileInfo, err error) bool { got = append(got, info.Name); return err == nil },
		}
		w.run("glob", ".")
		if !slices.Equal(got, want) {
			t.Errorf("with room for %d: %d entries, want %d", room, len(got), len(want))
		}
		if w.room != room {
			t.Errorf("room for %d became %d", room, w.room)
		}
	}
}

func TestWalkOfWhatCannotBeRead(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	// A tree whose paths are too long for the kernel to take.
	run(t, h, `n=$(printf %0200d 0); for i in $(seq 30); do mkdir "$n" && cd "$n" && : > file || exit 1; done`)
	n := len(collect(t, h.Glob(t.Context(), ".", "**/file")))
	if n < 10 || n >= 30 {
		t.Errorf("%d files are found, want those whose path is not too long", n)
	}
	run(t, h, "rm -rf 0*")
	for _, err := range h.Glob(t.Context(), "missing", "*") {
		if !errors.Is(err, execution.ErrNotFound) {
			t.Error(err)
		}
	}
	for _, err := range h.List(t.Context(), "/etc/passwd") {
		if !errors.Is(err, execution.ErrNotDir) {
			t.Error(err)
		}
	}
}

func TestListStopsWhenTold(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	plant(t, h.Dir(), "a", "b", "c/d")
	n := 0
	for _, err := range h.Glob(t.Context(), ".", "**") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d entries", n)
	}
}
