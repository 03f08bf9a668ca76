package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

// wantMode fails the case unless path has that mode.
func (e *env) wantMode(ctx context.Context, h execution.Handle, path string, want fs.FileMode) {
	e.Helper()
	info, err := h.Stat(ctx, path)
	if err != nil {
		e.Fatalf("Stat %q: %v", path, err)
	}
	if info.Mode != want {
		e.Errorf("the mode of %q is %v, want %v", path, info.Mode, want)
	}
}

func fileNewMode(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for given, want := range map[fs.FileMode]fs.FileMode{
		0: 0o644, 0o600: 0o600, 0o640: 0o640, 0o666: 0o666, 0o755: 0o755, 0o777: 0o777, 0o400: 0o400,
	} {
		name := fmt.Sprintf("mode-%o", given)
		err := h.WriteFile(ctx, name, strings.NewReader("content"), execution.WriteOptions{Mode: given})
		if err != nil {
			e.Fatalf("WriteFile: %v", err)
		}
		e.wantMode(ctx, h, name, want)
	}
}

func fileKeepMode(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o751, 0o444} {
		name := fmt.Sprintf("mode-%o", mode)
		e.write(ctx, h, name, "old")
		e.run(ctx, h, Chmod, fmt.Sprintf("%o", mode), name)
		err := h.WriteFile(ctx, name, strings.NewReader("new"), execution.WriteOptions{Mode: 0o666})
		if err != nil {
			e.Fatalf("WriteFile over mode %v: %v", mode, err)
		}
		e.wantMode(ctx, h, name, mode)
		if got := e.read(ctx, h, name); got != "new" {
			e.Errorf("a file of mode %v reads as %q", mode, got)
		}
	}
}

// fileTimes sets times that no calendar has: any command can, where a file
// system holds them, as those in memory do.
func fileTimes(ctx context.Context, e *env) {
	spec, dir := e.spec(), "."
	if e.can().Mounts {
		dir = "/times"
		spec.Mounts = append(spec.Mounts, execution.Mount{Type: execution.MountTmpfs, Target: dir})
	}
	h := e.spawn(ctx, spec)
	for _, seconds := range []int64{0, 1 << 33, 1 << 40, -1 << 40, 1 << 50, -1 << 50} {
		name := dir + "/" + strconv.FormatInt(seconds, 10)
		e.write(ctx, h, name, "")
		e.run(ctx, h, Touch, strconv.FormatInt(seconds, 10), name)
		info, err := h.Stat(ctx, name)
		if err != nil {
			e.Fatalf("Stat of a file that was changed %d seconds after 1970: %v", seconds, err)
		}
		if year := info.ModTime.Year(); year < 1 || year > 9999 {
			e.Errorf("a file was changed in the year %d, want 1 to 9999", year)
		}
		if seconds == 1<<33 && info.ModTime.Unix() != seconds {
			e.Errorf("a file was changed at %v, want %d seconds after 1970", info.ModTime, seconds)
		}
	}
	if got := e.names(ctx, h, dir); len(got) < 6 {
		e.Errorf("List yields %q", got)
	}
}

func fileOwner(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	want := strings.TrimSpace(e.run(ctx, h, PrintUser))
	e.write(ctx, h, "dir/file", "content")
	for _, name := range []string{"dir", "dir/file"} {
		info, err := h.Stat(ctx, name)
		if err != nil {
			e.Fatalf("Stat: %v", err)
		}
		if got := fmt.Sprintf("%d:%d", info.UID, info.GID); got != want {
			e.Errorf("%s belongs to %s, commands run as %s", name, got, want)
		}
	}
	e.run(ctx, h, Store, "dir/file", "overwritten")
}

func fileParents(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "a/b/c/file", "content")
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		e.wantMode(ctx, h, dir, fs.ModeDir|0o755)
	}
	e.run(ctx, h, Chmod, "700", "a/b")
	e.write(ctx, h, "a/b/d/file", "content")
	e.wantMode(ctx, h, "a/b", fs.ModeDir|0o700)
}

func fileParentIsFile(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "content")
	err := execution.WriteFile(ctx, h, "file/below", []byte("x"))
	e.wantError(err, execution.ErrNotDir, "WriteFile below a file")
	if got := e.read(ctx, h, "file"); got != "content" {
		e.Errorf("the file now reads as %q", got)
	}
}

func fileLink(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "real/file", "old")
	e.run(ctx, h, MakeDir, "links")
	for _, row := range []struct{ target, link, file string }{
		{"../real/file", "links/relative", "real/file"},
		{h.Dir() + "/real/file", "links/absolute", "real/file"},
		{"relative", "links/chain", "real/file"},
		{"../real/not-yet", "links/dangling", "real/not-yet"},
	} {
		e.run(ctx, h, Link, row.target, row.link)
		text := "through " + row.link
		e.write(ctx, h, row.link, text)
		if got := e.read(ctx, h, row.file); got != text {
			e.Errorf("%s: what the link points to reads as %q", row.link, got)
		}
		if got := e.read(ctx, h, row.link); got != text {
			e.Errorf("%s: the link reads as %q", row.link, got)
		}
		info, err := h.Lstat(ctx, row.link)
		if err != nil || info.Mode.Type() != fs.ModeSymlink || info.Target != row.target {
			e.Errorf("%s: Lstat after the write: %+v, %v", row.link, info, err)
		}
	}
	e.run(ctx, h, Link, "real", "dirlink")
	e.write(ctx, h, "dirlink/beside", "content")
	if got := e.read(ctx, h, "real/beside"); got != "content" {
		e.Errorf("a file written through a linked directory reads as %q", got)
	}
	e.run(ctx, h, Link, "loop", "loop")
	for call, err := range pathCalls(ctx, h, "loop") {
		var typed *execution.Error
		if call != "Lstat" && !errors.As(err, &typed) {
			e.Errorf("%s of a link to itself: got %v, want an *execution.Error", call, err)
		}
	}
}

func fileIsDir(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/file", "content")
	e.run(ctx, h, Link, "dir", "link")
	for _, name := range []string{"dir", "dir/", "link", h.Dir(), "/"} {
		calls := pathCalls(ctx, h, name)
		e.wantError(calls["OpenFile"], execution.ErrIsDir, fmt.Sprintf("OpenFile %q", name))
		e.wantError(calls["WriteFile"], execution.ErrIsDir, fmt.Sprintf("WriteFile %q", name))
		for _, call := range []string{"Stat", "Lstat", "List", "Glob"} {
			if calls[call] != nil {
				e.Errorf("%s %q: %v", call, name, calls[call])
			}
		}
	}
	if got := e.read(ctx, h, "dir/file"); got != "content" {
		e.Errorf("a file in the directory now reads as %q", got)
	}
}

func fileSpecial(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.run(ctx, h, FIFO, "fifo")
	e.run(ctx, h, Link, "fifo", "to-fifo")
	for _, name := range []string{"fifo", "to-fifo", "/dev/null"} {
		r, err := h.OpenFile(ctx, name, execution.ReadOptions{})
		if err == nil {
			_ = r.Close()
		}
		e.wantError(err, execution.ErrInvalid, fmt.Sprintf("OpenFile %q", name))
	}
	info, err := h.Stat(ctx, "to-fifo")
	if err != nil || info.Mode.Type() != fs.ModeNamedPipe {
		e.Errorf("Stat of a FIFO: %+v, %v", info, err)
	}
}

func fileNotFound(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.run(ctx, h, MakeDir, "dir")
	e.run(ctx, h, Link, "nothing", "dir/dangling")
	for _, name := range []string{"dir/missing", "no/such/dir", "/no-such-root/file", "dir/dangling"} {
		for call, err := range readCalls(ctx, h, name) {
			if call == "Lstat" && name == "dir/dangling" {
				continue
			}
			e.wantError(err, execution.ErrNotFound, fmt.Sprintf("%s %q", call, name))
			if !errors.Is(err, fs.ErrNotExist) {
				e.Errorf("%s %q: %v does not match fs.ErrNotExist", call, name, err)
			}
		}
	}
}

func fileMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	var group sync.WaitGroup
	for i := range quantity(50, 20) {
		group.Go(func() {
			name, content := fmt.Sprintf("dir/file-%d", i), strings.Repeat(fmt.Sprint(i), 10_000)
			if err := execution.WriteFile(ctx, h, name, []byte(content)); err != nil {
				e.Errorf("WriteFile: %v", err)
				return
			}
			got, err := execution.ReadFile(ctx, h, name, 0)
			if err != nil || string(got) != content {
				e.Errorf("file %d: read %d bytes, %v; want %d", i, len(got), err, len(content))
			}
		})
	}
	group.Wait()
}
