package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// hang is when a test gives up on something that should have ended long ago.
const hang = 10 * time.Minute

// needOffline skips where images cannot be made from Debian packages.
func needOffline(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		t.Skip("images are made from packages as root on Debian and Ubuntu only")
	}
}

func logged(t *testing.T) images.Progress {
	t.Helper()
	return func(e images.Event) {
		if e.Total == 0 {
			t.Log(e.Step, e.ID, e.Text)
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// An image that nobody has fails with one error, and soon: the caller waits for
// a sandbox.
func TestEnsureOfAnUnknownImage(t *testing.T) {
	engine := newEngine(t)
	const ref = "registry.invalid/pinfold-test/absent:1"
	_, err := images.Ensure(within(t, time.Minute), engine, ref, images.Options{Progress: logged(t)})
	if !errors.Is(err, execution.ErrImage) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{ref, "not found on the engine", "pull: ", "docker pull " + ref} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	t.Log(err)
}

func TestMinimalOffline(t *testing.T) {
	engine := newEngine(t)
	needOffline(t)
	opts := images.BuildOptions{Offline: true, CacheDir: t.TempDir(), Progress: logged(t)}
	ctx := within(t, hang)
	first, err := images.Build(ctx, engine, "minimal", opts)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, first, "sh")

	// The second time it comes from the cache: no script, the same image.
	t.Setenv("PATH", t.TempDir())
	again, err := images.Build(ctx, engine, images.Minimal, opts)
	if err != nil || again.ID != first.ID {
		t.Errorf("from the cache: %s, %v; want %s", again.ID, err, first.ID)
	}
	if found, err := images.Ensure(ctx, engine, images.Minimal, images.Options{Platform: "linux/" + runtime.GOARCH}); err != nil || found.ID != first.ID {
		t.Errorf("ensured: %s, %v; want %s", found.ID, err, first.ID)
	}

	out, code := engine.run(t, images.Minimal, "sh", "-c", "id; pwd; touch made && echo writable; ls -ld /tmp; ls /bin | wc -l")
	if code != 0 || !strings.HasPrefix(out, "uid=1000(agent) gid=1000(agent)") ||
		!strings.Contains(out, "\n/workspace\nwritable\ndrwxrwxrwt") {
		t.Errorf("code %d: %s", code, out)
	}
}

func TestSandboxHasWhatItPromises(t *testing.T) {
	engine := newEngine(t)
	ctx := within(t, hang)
	got, err := images.Ensure(ctx, engine, images.Sandbox, images.Options{Pull: execution.PullNever})
	if err != nil {
		needOffline(t)
		got, err = images.Build(ctx, engine, "sandbox", images.BuildOptions{Offline: true, Progress: logged(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, "bash")

	// Each program is started, since a file that is there may still not run.
	script := `set -u
try() { "$@" >/dev/null 2>&1 </dev/null && echo "ok $1" || echo "BAD $*"; }
for p in bash cp git rg curl python3 make gcc jq patch ps less unzip xz; do
  case $p in unzip) try $p -v ;; *) try $p --version ;; esac
done
printf 'int main(void) { return 0; }' >a.c && gcc a.c && ./a.out && echo "ok compiler"
test -s /etc/ssl/certs/ca-certificates.crt && echo "ok certificates"
python3 -c 'import ssl, json, sqlite3, venv' && echo "ok modules"
test "$(id -un):$(id -u):$(id -g):$PWD:$HOME" = agent:1000:1000:/workspace:/home/agent && echo "ok user"
touch /workspace/x "$HOME/x" && echo "ok writable"
test "$(printf 'é' | wc -m)" = 1 && echo "ok locale"
find / -xdev -name '*.deb' -o -xdev -path '/var/lib/apt/lists/*_Packages' 2>/dev/null | grep -q . || echo "ok clean"`
	out, code := engine.run(t, images.Sandbox, "bash", "-c", script)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	const want = 14 + 7
	if code != 0 || len(lines) != want || strings.Contains(out, "BAD") {
		t.Errorf("code %d, %d of %d checks: %s", code, len(lines), want, out)
	}
}

func checkImage(t *testing.T, got images.Image, shell string) {
	t.Helper()
	if got.User != "1000:1000" || got.WorkingDir != "/workspace" || got.OS != "linux" ||
		!slices.Equal(got.Cmd, []string{shell}) || !slices.Contains(got.Env, "LANG=C.UTF-8") ||
		got.Labels["org.opencontainers.image.version"] != "1" {
		t.Errorf("got %+v", got)
	}
}

// The Dockerfile of the minimal image builds without a registry and without a
// network from a busybox beside it, and sets what the offline way sets.
func TestMinimalDockerfileFromABusybox(t *testing.T) {
	engine := newEngine(t)
	busybox := staticBusybox(t)
	const tag = "pinfold-test/minimal:dockerfile"
	ctx := within(t, hang)
	t.Cleanup(func() {
		_, _ = engine.ImageRemove(context.WithoutCancel(ctx), tag, image.RemoveOptions{PruneChildren: true})
	})
	base := "scratch"
	err := engine.build(ctx, dirTar(t, "minimal", busybox), build.ImageBuildOptions{
		Tags: []string{tag}, BuildArgs: map[string]*string{"BASE": &base}, NetworkMode: "none",
		Remove: true, ForceRemove: true, Labels: map[string]string{"org.opencontainers.image.version": "1"},
	}, logged(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.ImageInspect(ctx, tag)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, "sh")
	out, code := engine.run(t, tag, "sh", "-c", "id -un; pwd; touch made; grep -c . /etc/passwd; test ! -e /bin/setup.sh && echo clean")
	if want := "agent\n/workspace\n3\nclean\n"; code != 0 || out != want {
		t.Errorf("code %d: %q, want %q", code, out, want)
	}
}

// Both Dockerfiles end in the same settings, which are those of the offline way.
func TestDockerfilesAgree(t *testing.T) {
	settings := func(name string) string {
		data, err := os.ReadFile(filepath.Join(name, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		_, tail, _ := strings.Cut(string(data), "ENV PATH")
		return tail
	}
	if a, b := settings("sandbox"), strings.Replace(settings("minimal"), `"sh"`, `"bash"`, 1); a != b || a == "" {
		t.Errorf("sandbox:\n%s\nminimal:\n%s", a, b)
	}
}

// An interrupt while packages are unpacked leaves nothing behind.
func TestOfflineInterrupted(t *testing.T) {
	engine := newEngine(t)
	needOffline(t)
	temp, cache := t.TempDir(), t.TempDir()
	if err := os.Chmod(temp, 0o755); err != nil { // apt's own user goes through it
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	ctx, interrupt := context.WithCancel(within(t, hang))
	defer interrupt()
	_, err := images.Build(ctx, engine, "sandbox", images.BuildOptions{
		Offline: true, CacheDir: cache,
		Progress: func(e images.Event) {
			t.Log(e.Text)
			if strings.Contains(e.Text, "extracting archives") {
				interrupt()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{temp, cache} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// A script that fails is told with its last words, and nothing is cached.
func TestOfflineFails(t *testing.T) {
	engine := newEngine(t)
	needOffline(t)
	cache := t.TempDir()
	t.Setenv("PINFOLD_DEBIAN_MIRROR", "http://mirror.invalid/debian")
	_, err := images.Build(within(t, hang), engine, "minimal", images.BuildOptions{Offline: true, CacheDir: cache})
	if !errors.Is(err, execution.ErrImage) || !strings.Contains(err.Error(), "PINFOLD_DEBIAN_MIRROR") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	t.Log(err)
}

func TestBuildRefusesWhatIsNotOurs(t *testing.T) {
	_, err := images.Build(t.Context(), &scripted{}, "debian:12", images.BuildOptions{})
	if !errors.Is(err, execution.ErrInvalid) || !strings.Contains(err.Error(), "want sandbox or minimal") {
		t.Errorf("got %v", err)
	}
}

func TestBuildOnlineTellsTheOfflineWay(t *testing.T) {
	_, err := images.Build(t.Context(), &scripted{build: failing("no such host")}, "sandbox", images.BuildOptions{})
	if !errors.Is(err, execution.ErrImage) || !strings.Contains(err.Error(), "no such host; to make it") ||
		!strings.HasSuffix(err.Error(), "pinfold images build --offline sandbox") {
		t.Errorf("got %v", err)
	}
}

// staticBusybox is the host's busybox where it is a static one.
func staticBusybox(t *testing.T) []byte {
	t.Helper()
	name, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("no busybox on this host")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Skip("the host's busybox is not static: install busybox-static")
		}
	}
	return data
}

// dirTar is a folder and a busybox as a build context.
func dirTar(t *testing.T, dir string, busybox []byte) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(name string, mode int64, data []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Dockerfile", "setup.sh"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		add(name, 0o644, data)
	}
	add("busybox", 0o755, busybox)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}
