package docker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func testGuard(t *testing.T) (guard, string) {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "engine", "e.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket) //nolint:noctx // Nothing connects.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	env := environment{getenv: func(string) string { return "" }, home: filepath.Join(dir, "home"), goos: "linux", uid: 1000}
	return newGuard("unix://"+socket, true, filepath.Join(dir, "data"), env), dir
}

// Whoever reaches an engine's socket owns the host, so no name, link or folder
// above it may be mounted; nor may the host's kernel interfaces.
func TestMountsOfTheHostAreRefused(t *testing.T) {
	g, dir := testGuard(t)
	socket := filepath.Join(dir, "engine", "e.sock")
	link := func(name, target string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.MkdirAll(filepath.Join(dir, "data", "overlay2"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"root":                     "/",
		"root by dots":             "/tmp/../",
		"socket":                   socket,
		"folder of the socket":     filepath.Dir(socket),
		"folder above it":          dir,
		"spelled with dots":        filepath.Dir(socket) + "/../engine",
		"spelled with slashes":     "//" + filepath.Dir(socket) + "//",
		"link to the socket":       link("to-socket", socket),
		"link to the folder":       link("to-folder", filepath.Dir(socket)),
		"link to a link":           link("to-link", filepath.Join(dir, "to-folder")),
		"link in the middle":       filepath.Join(link("up", dir), "engine"),
		"relative link":            link("relative", "engine"),
		"run":                      "/run",
		"var run":                  "/var/run",
		"var run by dots":          "/var/run/../run",
		"var":                      "/var",
		"docker socket":            "/var/run/docker.sock",
		"docker socket, canonical": "/run/docker.sock",
		"podman socket":            "/run/podman/podman.sock",
		"containerd's folder":      "/run/containerd",
		"proc":                     "/proc",
		"proc of a process":        "/proc/1/root",
		"link out of proc":         link("to-proc", "/proc/self/root"),
		"sys":                      "/sys",
		"below sys":                "/sys/fs/cgroup",
		"dev":                      "/dev",
		"a device":                 "/dev/null",
		"engine's files":           filepath.Join(dir, "data"),
		"below the engine's files": filepath.Join(dir, "data", "overlay2"),
		"docker's usual files":     "/var/lib/docker",
	} {
		t.Run(name, func(t *testing.T) {
			for _, readOnly := range []bool{false, true} {
				err := g.check(execution.Spec{Dir: "/workspace", Mounts: []execution.Mount{
					{Type: execution.MountBind, Source: source, Target: "/mnt", ReadOnly: readOnly},
				}})
				if !errors.Is(err, execution.ErrInvalid) {
					t.Errorf("mount of %q (read-only %v): got %v, want ErrInvalid", source, readOnly, err)
				} else if !strings.Contains(err.Error(), source) {
					t.Errorf("error does not name the source: %v", err)
				}
			}
		})
	}
}

func TestOrdinaryMountsAreAllowed(t *testing.T) {
	g, dir := testGuard(t)
	project := filepath.Join(dir, "project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(project, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{project, file, link, t.TempDir()} {
		err := g.check(execution.Spec{Dir: "/workspace", Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: source, Target: "/workspace"},
			{Type: execution.MountTmpfs, Target: "/tmp"},
			{Type: execution.MountTmpfs, Target: "/dev/shm"},
		}})
		if err != nil {
			t.Errorf("mount of %q: %v", source, err)
		}
	}
}

// What was looked at is what is mounted, wherever its name leads by then; and it
// is looked at again before the engine is asked. A sandbox that has the folder
// above a source can put a link there meanwhile.
func TestMountsOfWhatWasLookedAt(t *testing.T) {
	g, dir := testGuard(t)
	project, link := filepath.Join(dir, "project"), filepath.Join(dir, "link")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	asked := []execution.Mount{
		{Type: execution.MountBind, Source: link, Target: "/workspace"},
		{Type: execution.MountTmpfs, Target: "/tmp"},
	}
	want, err := filepath.EvalSymlinks(project)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.sources(asked)
	if err != nil || len(got) != 2 || got[0].Source != want || asked[0].Source != link {
		t.Fatalf("got %+v, %v; want the source %s, and what was asked for as it was: %+v", got, err, want, asked)
	}
	if err := errors.Join(os.Remove(link), os.Symlink(filepath.Join(dir, "engine"), link)); err != nil {
		t.Fatal(err)
	}
	if got, err := g.sources(asked); !errors.Is(err, execution.ErrInvalid) {
		t.Errorf("a link that leads to the engine by now: %+v, %v", got, err)
	}
	// Once resolved it is not followed again.
	if req := mountFor(got[0], "1.44"); req.Source != want {
		t.Errorf("%s is mounted, which was not looked at", req.Source)
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	g, dir := testGuard(t)
	tmpfs := func(targets ...string) (mounts []execution.Mount) {
		for _, target := range targets {
			mounts = append(mounts, execution.Mount{Type: execution.MountTmpfs, Target: target})
		}
		return mounts
	}
	bind := func(source string) []execution.Mount {
		return []execution.Mount{{Type: execution.MountBind, Source: source, Target: "/mnt"}}
	}
	for _, row := range []struct {
		name string
		spec execution.Spec
		want error
		says string
	}{
		{"directory in proc", execution.Spec{Dir: "/proc/self/fd/3"}, execution.ErrInvalid, "/proc"},
		{"directory is proc", execution.Spec{Dir: "/proc"}, execution.ErrInvalid, "/proc"},
		{"directory in proc by dots", execution.Spec{Dir: "/workspace/../proc/self/fd/20"}, execution.ErrInvalid, "/proc"},
		{"directory in proc by slashes", execution.Spec{Dir: "//proc//self/fd/7"}, execution.ErrInvalid, "/proc"},
		{"directory in proc by a dot", execution.Spec{Dir: "/./proc/self/cwd"}, execution.ErrInvalid, "/proc"},
		{"host's network", execution.Spec{Network: "host"}, execution.ErrInvalid, "network"},
		{"container's network", execution.Spec{Network: "container:abc"}, execution.ErrInvalid, "network"},
		{"namespace's network", execution.Spec{Network: "ns:/proc/1/ns/net"}, execution.ErrInvalid, "network"},
		{"relative source", execution.Spec{Mounts: bind("project")}, execution.ErrInvalid, "absolute"},
		{"relative source by dots", execution.Spec{Mounts: bind("../project")}, execution.ErrInvalid, "absolute"},
		{"missing source", execution.Spec{Mounts: bind(filepath.Join(dir, "nothing"))}, execution.ErrNotFound, "nothing"},
		{"name with a space", execution.Spec{Name: "a name"}, execution.ErrInvalid, "a name"},
		{"name that is an option", execution.Spec{Name: "-f"}, execution.ErrInvalid, "-f"},
		{"over proc", execution.Spec{Mounts: tmpfs("/proc/sys")}, execution.ErrInvalid, "/proc"},
		{"over sys", execution.Spec{Mounts: tmpfs("/sys")}, execution.ErrInvalid, "/sys"},
		{"over dev", execution.Spec{Mounts: tmpfs("/dev")}, execution.ErrInvalid, "/dev"},
		{"over the guest", execution.Spec{Mounts: tmpfs("/.pinfold")}, execution.ErrInvalid, "/.pinfold"},
		{"over the guest by dots", execution.Spec{Mounts: tmpfs("/x/../.pinfold/guest")}, execution.ErrInvalid, "/.pinfold"},
		{"the same target twice", execution.Spec{Mounts: tmpfs("/a", "/b/../a/")}, execution.ErrInvalid, "twice"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.spec.Dir == "" {
				row.spec.Dir = DefaultDir
			}
			err := g.check(row.spec)
			if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %v that says %q", err, row.want, row.says)
			}
		})
	}
}

func TestMountsNeedALocalEngine(t *testing.T) {
	g, _ := testGuard(t)
	g.local = false
	err := g.check(execution.Spec{Dir: DefaultDir, Mounts: []execution.Mount{
		{Type: execution.MountBind, Source: t.TempDir(), Target: "/mnt"},
	}})
	if !errors.Is(err, execution.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

// shortDir is a temporary folder with a short name, as the name of a socket has
// little room.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
