//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestStartErrors(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	for name, content := range map[string]string{
		"script": "#!/bin/sh\necho ran \"$@\"\n", "lost": "#!/no/such/interpreter\n", "text": "echo no first line\n",
		"binary": "\x7fELF\x01\x01\x01", "sub/tool": "#!/bin/sh\necho tool\n",
	} {
		if err := h.WriteFile(t.Context(), name, strings.NewReader(content), execution.WriteOptions{Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := execution.WriteFile(t.Context(), h, "data", []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		cmd  execution.Command
		want error // nil for one that works
		path string
	}{
		"script":            {execution.Command{Args: []string{"./script", "a"}}, nil, ""},
		"in dir":            {execution.Command{Args: []string{"./tool"}, Dir: "sub"}, nil, ""},
		"in PATH":           {execution.Command{Args: []string{"tool"}, Env: []string{"PATH=/nothing:" + h.Dir() + "/sub:/bin"}}, nil, ""},
		"in relative PATH":  {execution.Command{Args: []string{"tool"}, Env: []string{"PATH=sub:/bin"}}, nil, ""},
		"in empty element":  {execution.Command{Args: []string{"script"}, Env: []string{"PATH=/nothing::/bin"}}, nil, ""},
		"no PATH":           {execution.Command{Args: []string{"tool"}, Env: []string{"PATH="}}, execution.ErrCommandNotFound, "tool"},
		"not in PATH":       {execution.Command{Args: []string{"no-such-tool"}}, execution.ErrCommandNotFound, "no-such-tool"},
		"no such file":      {execution.Command{Args: []string{"./none"}}, execution.ErrCommandNotFound, "./none"},
		"below a file":      {execution.Command{Args: []string{"./script/x"}}, execution.ErrCommandNotFound, "./script/x"},
		"not executable":    {execution.Command{Args: []string{"./data"}}, execution.ErrCannotRun, "./data"},
		"directory":         {execution.Command{Args: []string{"./sub"}}, execution.ErrCannotRun, "./sub"},
		"no interpreter":    {execution.Command{Args: []string{"./lost"}}, execution.ErrCannotRun, "./lost"},
		"no first line":     {execution.Command{Args: []string{"./text"}}, execution.ErrCannotRun, "./text"},
		"broken binary":     {execution.Command{Args: []string{"./binary"}}, execution.ErrCannotRun, "./binary"},
		"device":            {execution.Command{Args: []string{"/dev/null"}}, execution.ErrCannotRun, "/dev/null"},
		"no such directory": {execution.Command{Args: []string{"true"}, Dir: "none"}, execution.ErrDirNotFound, h.Dir() + "/none"},
		"file as directory": {execution.Command{Args: []string{"true"}, Dir: "data"}, execution.ErrDirNotFound, h.Dir() + "/data"},
		"nothing":           {execution.Command{}, execution.ErrInvalid, ""},
	} {
		r, err := execution.Exec(t.Context(), h, row.cmd)
		var typed *execution.Error
		switch {
		case row.want == nil:
			if err != nil || !r.Success() {
				t.Errorf("%s: %v, %v", name, r.ExitStatus, err)
			}
		case !errors.Is(err, row.want) || !errors.As(err, &typed):
			t.Errorf("%s: got %v, want %v", name, err, row.want)
		case typed.Path != row.path || typed.Handle != h.ID() || typed.Op != "start":
			t.Errorf("%s: %+v, want the path %q", name, typed, row.path)
		}
	}
}

func TestShell(t *testing.T) {
	for name, row := range map[string]struct {
		shell, line, want string
		err               error
	}{
		"the usual one":    {"", "echo $0", "bash\n", nil},
		"line with a dash": {"", "-n 2>/dev/null; echo on", "on\n", nil},
		"line with a plus": {"/bin/sh", "+n 2>/dev/null; echo on", "on\n", nil},
		"another":          {"/bin/sh", "echo $0", "sh\n", nil},
		"none":             {"/no/such/shell", "echo", "", execution.ErrNoShell},
	} {
		h := spawn(t, newTestContext(t, Options{Shell: row.shell}))
		r, err := execution.Exec(t.Context(), h, execution.Command{Shell: row.line})
		if !errors.Is(err, row.err) || string(r.Stdout) != row.want {
			t.Errorf("%s: %q, %q, %v", name, r.Stdout, r.Stderr, err)
		}
	}
	busybox, err := os.Stat("/bin/busybox")
	if err != nil || busybox.IsDir() {
		t.Skip("no busybox to try")
	}
	dir := t.TempDir()
	if err := os.Symlink("/bin/busybox", dir+"/sh"); err != nil {
		t.Fatal(err)
	}
	h := spawn(t, newTestContext(t, Options{Shell: dir + "/sh"}))
	if r := run(t, h, "-n 2>/dev/null; echo on"); string(r.Stdout) != "on\n" {
		t.Errorf("busybox: %q, %q", r.Stdout, r.Stderr)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PINFOLD_TEST_CANARY", "canary")
	env := func(opts Options, spec, cmd []string) []string {
		c := newTestContext(t, opts)
		h, err := c.Spawn(t.Context(), execution.Spec{Env: spec})
		if err != nil {
			t.Fatal(err)
		}
		r, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"/usr/bin/env"}, Env: cmd})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Spec().Env; got != nil {
			t.Errorf("Spec tells the environment: %q", got)
		}
		return strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	}
	if got := env(Options{}, nil, nil); !slices.Equal(got, CleanEnv(os.Environ())) {
		t.Errorf("by default: %q", got)
	}
	got := env(Options{Env: []string{"A=1", "B=2", "A=3"}}, []string{"B=4", "C=5"}, []string{"C=6", "D=x=y"})
	if want := []string{"A=3", "B=4", "C=6", "D=x=y"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := env(Options{Env: []string{}}, nil, nil); !slices.Equal(got, []string{""}) {
		t.Errorf("of nothing: %q", got)
	}
}

func TestCommandsDoNotInheritOddities(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	r := run(t, h, `grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -Sn`)
	lines := strings.Fields(string(r.Stdout))
	if len(lines) != 5 || strings.Trim(lines[1], "0") != "" || strings.Trim(lines[3], "0") != "" {
		t.Errorf("blocked and ignored signals: %q", lines)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur == limit.Max-1 && lines[4] != "1024" {
		t.Errorf("soft limit on open files: %s, this program's own is %d", lines[4], limit.Cur)
	}
}

func TestSpawnErrors(t *testing.T) {
	c := newTestContext(t, Options{})
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		spec execution.Spec
		want error
	}{
		"missing directory":  {execution.Spec{Dir: "/no/such/dir"}, execution.ErrDirNotFound},
		"file":               {execution.Spec{Dir: file}, execution.ErrDirNotFound},
		"relative directory": {execution.Spec{Dir: "x"}, execution.ErrInvalid},
		"image":              {execution.Spec{Image: "x"}, execution.ErrUnsupported},
		"network":            {execution.Spec{Network: execution.NetworkNone}, execution.ErrUnsupported},
		"user":               {execution.Spec{User: "root"}, execution.ErrUnsupported},
		"memory":             {execution.Spec{Limits: execution.Limits{Memory: 1 << 30}}, execution.ErrUnsupported},
	} {
		h, err := c.Spawn(t.Context(), row.spec)
		if !errors.Is(err, row.want) || h != nil {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for raw, want := range map[string]string{
		"":                              "",
		"sh\x00-c\x00echo hi\x00":       "sh -c echo hi",
		"a\nb\x1b[31m\x7f\u202e\xff é":  `a\nb\x1b[31m\x7f\u202e\xff é`,
		strings.Repeat("x", 300):        strings.Repeat("x", commandLimit-3) + "…",
		strings.Repeat("\x1b", 300):     strings.Repeat(`\x1b`, 63) + "…",
		strings.Repeat("é", 127) + "\n": strings.Repeat("é", 126) + "…",
	} {
		if got := commandLine([]byte(raw)); got != want || len(got) > commandLimit {
			t.Errorf("%.40q: %q, want %q", raw, got, want)
		}
	}
}
