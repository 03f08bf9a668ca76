package executiontest

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func pathCases() []check {
	return []check{
		{"hostile_names", pathHostile},
		{"hostile_directories", pathHostileDirs},
		{"hostile_names_in_lists", pathHostileLists},
		{"relative_and_absolute", pathRelative},
		{"nul", pathNUL},
		{"too_long", pathTooLong},
	}
}

// hostileNames are names that a shell, a terminal or a careless decoder would
// trip over.
func hostileNames() []string {
	return []string{
		"two words", " leading", "trailing ", "it's", `"quoted"`, "new\nline", "tab\there", "\r",
		"$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "&& touch pwned", "$HOME", "~", "#comment",
		"-rf", "--", "-", "--help", "*", "?", "[a]", "{a,b}", "!", `back\slash`, "%s%n", "%2e%2e",
		".hidden", "..almost", "...", "é", "日本", "\xff\xfe", "a\x80z", "\x1b[31mred", "\x01\x7f",
		"name=value", ":", "con", strings.Repeat("n", 255),
	}
}

func pathHostile(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, name := range hostileNames() {
		file := path.Join("names", name) // nothing in the list is changed by Join
		e.write(ctx, h, file, "api "+name)
		if got := e.run(ctx, h, Load, file); got != "api "+name {
			e.Errorf("%q: a command reads %q", name, got)
		}
		e.run(ctx, h, Store, file, "cmd "+name)
		if got := e.read(ctx, h, file); got != "cmd "+name {
			e.Errorf("%q: ReadFile reads %q", name, got)
		}
		info, err := h.Stat(ctx, file)
		if err != nil || info.Name != name || info.Size != int64(len("cmd "+name)) {
			e.Errorf("%q: Stat tells %+v, %v", name, info, err)
		}
		// In the working directory itself, where a leading dash has no cover.
		e.write(ctx, h, name, "bare")
		if got := e.read(ctx, h, name); got != "bare" {
			e.Errorf("%q: ReadFile reads %q", name, got)
		}
	}
	if _, err := h.Stat(ctx, "pwned"); !errors.Is(err, execution.ErrNotFound) {
		e.Errorf("a name was run as a command (Stat: %v)", err)
	}
}

func pathHostileDirs(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, name := range hostileNames() {
		e.write(ctx, h, name+"/inner/file", "content")
		if got := e.read(ctx, h, name+"/inner/file"); got != "content" {
			e.Errorf("below %q: ReadFile reads %q", name, got)
		}
		if got := e.names(ctx, h, name+"/inner"); !slices.Equal(got, []string{"file"}) {
			e.Errorf("below %q: List yields %q", name, got)
		}
		cmd := e.command(Load, "file")
		cmd.Dir = name + "/inner"
		if result := e.exec(ctx, h, cmd); string(result.Stdout) != "content" {
			e.Errorf("below %q: a command reads %q", name, result.Stdout)
		}
	}
}

func pathHostileLists(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	want := hostileNames()
	for _, name := range want {
		e.write(ctx, h, "names/"+name, "")
	}
	slices.Sort(want)
	if got := e.names(ctx, h, "names"); !slices.Equal(got, want) {
		e.Errorf("List yields %q, want %q", got, want)
	}
	if got := e.glob(ctx, h, "names", "*"); !slices.Equal(got, want) {
		e.Errorf("Glob yields %q, want %q", got, want)
	}
	// That is a lot to try on a long name, and takes a short time all the same.
	if got := e.glob(ctx, h, "names", strings.Repeat("*{n,n}", 9)+"x"); len(got) > 0 {
		e.Errorf("Glob yields %q for what is called nothing like it", got)
	}
	literally := strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `,`, `\,`, `\`, `\\`)
	for _, name := range want {
		if got := e.glob(ctx, h, "names", literally.Replace(name)); !slices.Equal(got, []string{name}) {
			e.Errorf("Glob of %q alone yields %q", name, got)
		}
	}
}

func pathRelative(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "sub/file", "content")
	for _, file := range []string{"sub/file", "./sub/file", "sub/../sub//file", h.Dir() + "/sub/file"} {
		if got := e.read(ctx, h, file); got != "content" {
			e.Errorf("ReadFile %q reads %q", file, got)
		}
	}
	if info, err := h.Stat(ctx, "."); err != nil || !info.IsDir() {
		e.Errorf("Stat of the working directory: %+v, %v", info, err)
	}
	if got := e.names(ctx, h, "."); !slices.Equal(got, e.names(ctx, h, h.Dir())) {
		e.Errorf("List of . yields %q", got)
	}
}

// pathCalls makes all calls that take a path and tells their errors.
func pathCalls(ctx context.Context, h execution.Handle, path string) map[string]error {
	calls := readCalls(ctx, h, path)
	calls["WriteFile"] = execution.WriteFile(ctx, h, path, []byte("content"))
	return calls
}

// readCalls makes all calls that take a path and change nothing.
func readCalls(ctx context.Context, h execution.Handle, path string) map[string]error {
	calls := map[string]error{}
	r, err := h.OpenFile(ctx, path, execution.ReadOptions{})
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		err = errors.Join(err, r.Close())
	}
	calls["OpenFile"] = err
	_, calls["Stat"] = h.Stat(ctx, path)
	_, calls["Lstat"] = h.Lstat(ctx, path)
	calls["List"], calls["Glob"] = nil, nil
	for _, err := range h.List(ctx, path) {
		calls["List"] = err
	}
	for _, err := range h.Glob(ctx, path, "*") {
		calls["Glob"] = err
	}
	return calls
}

func pathNUL(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/file", "content")
	for _, bad := range []string{"\x00", "dir\x00", "dir/file\x00", "dir/\x00file", h.Dir() + "/dir\x00/file"} {
		for call, err := range pathCalls(ctx, h, bad) {
			e.wantError(err, execution.ErrInvalid, call+" of a path with a NUL byte")
		}
	}
	for _, err := range h.Glob(ctx, "dir", "fi\x00le") {
		e.wantError(err, execution.ErrInvalid, "Glob of a pattern with a NUL byte")
	}
	if got := e.names(ctx, h, "dir"); !slices.Equal(got, []string{"file"}) {
		e.Errorf("the directory now holds %q", got)
	}
}

func pathTooLong(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, long := range []string{strings.Repeat("n", 256), strings.Repeat("d/", 5000) + "file"} {
		for call, err := range pathCalls(ctx, h, long) {
			if _, ok := errors.AsType[*execution.Error](err); !ok {
				e.Errorf("%s of a path of %d bytes: got %v, want an *execution.Error", call, len(long), err)
			}
		}
	}
	e.run(ctx, h, Print, "", "", "0")
}
