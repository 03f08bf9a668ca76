package executiontest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func treeCases() []check {
	return []check{
		{"stat", treeStat},
		{"stat_and_lstat_of_links", treeLinks},
		{"list", treeList},
		{"list_many", treeListMany},
		{"list_stops_early", treeListEarly},
		{"list_of_a_file", treeListFile},
		{"glob", treeGlob},
		{"glob_does_not_follow_links", treeGlobLinks},
		{"glob_stops_early", treeGlobEarly},
		{"glob_invalid", treeGlobInvalid},
	}
}

// glob yields the names that match.
func (e *env) glob(ctx context.Context, h execution.Handle, dir, pattern string) (names []string) {
	e.Helper()
	for info, err := range h.Glob(ctx, dir, pattern) {
		if err != nil {
			e.Fatalf("Glob %q in %q: %v", pattern, dir, err)
		}
		names = append(names, info.Name)
	}
	return names
}

func treeStat(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/file", "12345")
	info, err := h.Stat(ctx, "dir/file")
	if err != nil {
		e.Fatalf("Stat: %v", err)
	}
	if info.Name != "file" || info.Size != 5 || info.Mode != 0o644 || info.IsDir() || info.Target != "" || info.ModTime.IsZero() {
		e.Errorf("Stat of a file of 5 bytes: %+v", info)
	}
	info, err = h.Stat(ctx, h.Dir()+"/dir")
	if err != nil {
		e.Fatalf("Stat: %v", err)
	}
	if info.Name != "dir" || !info.IsDir() || info.Mode != fs.ModeDir|0o755 {
		e.Errorf("Stat of a directory: %+v", info)
	}
	if info, err := h.Stat(ctx, "/dev/null"); err != nil || info.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice {
		e.Errorf("Stat of a device: %+v, %v", info, err)
	}
}

func treeLinks(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "12345")
	e.run(ctx, h, Link, "file", "link")
	e.run(ctx, h, Link, "no\xff\nwhere", "dangling")
	if info, err := h.Stat(ctx, "link"); err != nil || !info.Mode.IsRegular() || info.Size != 5 || info.Name != "link" {
		e.Errorf("Stat of a link: %+v, %v", info, err)
	}
	if info, err := h.Lstat(ctx, "link"); err != nil || info.Mode.Type() != fs.ModeSymlink || info.Target != "file" {
		e.Errorf("Lstat of a link: %+v, %v", info, err)
	}
	if info, err := h.Lstat(ctx, "dangling"); err != nil || info.Target != "no\xff\nwhere" {
		e.Errorf("Lstat of a link to nowhere: %+v, %v", info, err)
	}
	_, err := h.Stat(ctx, "dangling")
	e.wantError(err, execution.ErrNotFound, "Stat of a link to nowhere")
}

func treeList(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, name := range []string{"b", "a", "B", "a-b", "c", ".hidden", "\xff", "10", "9"} {
		e.write(ctx, h, "dir/"+name, name)
	}
	e.write(ctx, h, "dir/sub/inner", "")
	e.run(ctx, h, Link, "sub", "dir/link")
	want := []string{".hidden", "10", "9", "B", "a", "a-b", "b", "c", "link", "sub", "\xff"}
	if got := e.names(ctx, h, "dir"); !slices.Equal(got, want) {
		e.Errorf("List yields %q, want %q", got, want)
	}
	for info, err := range h.List(ctx, "dir") {
		lstat, lerr := h.Lstat(ctx, "dir/"+info.Name)
		if err != nil || lerr != nil {
			e.Fatalf("List: %v; Lstat: %v", err, lerr)
		}
		if !info.ModTime.Equal(lstat.ModTime) {
			e.Errorf("List and Lstat of %q tell the times %v and %v", info.Name, info.ModTime, lstat.ModTime)
		}
		info.ModTime = lstat.ModTime
		if info != lstat {
			e.Errorf("List tells %+v, Lstat %+v", info, lstat)
		}
	}
	e.run(ctx, h, MakeDir, "empty")
	if got := e.names(ctx, h, "empty"); len(got) > 0 {
		e.Errorf("List of an empty directory yields %q", got)
	}
	if got := e.names(ctx, h, "dir/link"); !slices.Equal(got, []string{"inner"}) {
		e.Errorf("List of a link to a directory yields %q", got)
	}
}

// fill makes n files in a directory and tells their names in order.
func (e *env) fill(ctx context.Context, h execution.Handle, dir string, n int) (names []string) {
	e.Helper()
	for i := range n {
		name := fmt.Sprintf("file-%05d", i)
		e.write(ctx, h, dir+"/"+name, "")
		names = append(names, name)
	}
	return names
}

func treeListMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	want := e.fill(ctx, h, "dir", quantity(3000, 300))
	if got := e.names(ctx, h, "dir"); !slices.Equal(got, want) {
		e.Errorf("List yields %d names, want %d in order", len(got), len(want))
	}
	if got := e.glob(ctx, h, ".", "**/file-*"); len(got) != len(want) {
		e.Errorf("Glob yields %d names, want %d", len(got), len(want))
	}
}

func treeListEarly(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.fill(ctx, h, "dir", 50)
	for range 50 {
		for info, err := range h.List(ctx, "dir") {
			if err != nil || info.Name != "file-00000" {
				e.Errorf("List yields %q, %v first", info.Name, err)
			}
			break
		}
	}
	e.run(ctx, h, Print, "", "", "0")
}

func treeListFile(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "content")
	yields := 0
	for _, err := range h.List(ctx, "file") {
		yields++
		e.wantError(err, execution.ErrNotDir, "List of a file")
	}
	if yields != 1 {
		e.Errorf("List of a file yields %d times, want one error", yields)
	}
}

func treeGlob(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, name := range []string{"a.go", "b.txt", ".hidden.go", "sub/c.go", "sub/deep/d.go", "sub-2/e.go", "sub/.git/f.go", "[x].go"} {
		e.write(ctx, h, "root/"+name, "")
	}
	for _, row := range []struct {
		pattern string
		want    []string
	}{
		{"*.go", []string{".hidden.go", "[x].go", "a.go"}},
		{"a.go", []string{"a.go"}},
		{"?.go", []string{"a.go"}},
		{`\[x\].go`, []string{"[x].go"}},
		{"[ab].*", []string{"a.go", "b.txt"}},
		{"*/*.go", []string{"sub-2/e.go", "sub/c.go"}},
		{"**/*.go", []string{".hidden.go", "[x].go", "a.go", "sub-2/e.go", "sub/.git/f.go", "sub/c.go", "sub/deep/d.go"}},
		{"sub/**/*.go", []string{"sub/.git/f.go", "sub/c.go", "sub/deep/d.go"}},
		{"{sub,sub-2}/*.go", []string{"sub-2/e.go", "sub/c.go"}},
		{"{s{ub,}/,}{c,a}.go", []string{"a.go", "sub/c.go"}},
		{"sub*", []string{"sub", "sub-2"}},
		{"nothing*", nil},
		{"**", []string{
			".hidden.go", "[x].go", "a.go", "b.txt", "sub", "sub-2", "sub-2/e.go",
			"sub/.git", "sub/.git/f.go", "sub/c.go", "sub/deep", "sub/deep/d.go",
		}},
	} {
		for _, dir := range []string{"root", h.Dir() + "/root"} {
			if got := e.glob(ctx, h, dir, row.pattern); !slices.Equal(got, row.want) {
				e.Errorf("Glob %q in %q yields %q, want %q", row.pattern, dir, got, row.want)
			}
		}
	}
}

func treeGlobLinks(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "root/sub/file", "")
	e.run(ctx, h, Link, "sub", "root/link")
	e.run(ctx, h, Link, "..", "root/up")
	want := []string{"link", "sub", "sub/file", "up"}
	if got := e.glob(ctx, h, "root", "**"); !slices.Equal(got, want) {
		e.Errorf("Glob yields %q, want %q", got, want)
	}
	for info, err := range h.Glob(ctx, "root", "link") {
		if err != nil || info.Mode.Type() != fs.ModeSymlink || info.Target != "sub" {
			e.Errorf("Glob tells of a link %+v, %v", info, err)
		}
	}
}

func treeGlobEarly(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.fill(ctx, h, "dir", 50)
	for range 50 {
		for _, err := range h.Glob(ctx, ".", "**") {
			if err != nil {
				e.Errorf("Glob: %v", err)
			}
			break
		}
	}
	e.run(ctx, h, Print, "", "", "0")
}

func treeGlobInvalid(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/file", "")
	for _, pattern := range []string{
		"[", "a{b", "[a-", "**/[z", "", "/*", "../*", "*/../../x", "{..,dir}/*",
		strings.Repeat("{a,b}", 30), // a thousand million patterns
	} {
		yields := 0
		for _, err := range h.Glob(ctx, "dir", pattern) {
			yields++
			e.wantError(err, execution.ErrInvalid, fmt.Sprintf("Glob %q", pattern))
		}
		if yields != 1 {
			e.Errorf("Glob %q yields %d times, want one error", pattern, yields)
		}
	}
	for _, err := range h.Glob(ctx, "missing", "*") {
		e.wantError(err, execution.ErrNotFound, "Glob in a missing directory")
	}
}
