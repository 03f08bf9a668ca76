//go:build linux

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Real work, in the image that users get.

// workTime is when real work counts as hung.
const workTime = 15 * time.Minute

// realSandbox is one with Pinfold's own image, which is made first where it is
// missing.
func realSandbox(t *testing.T, mounts ...execution.Mount) execution.Handle {
	t.Helper()
	need(t)
	h, err := newBackend(t, dockerOptions()).Spawn(t.Context(), execution.Spec{
		Mounts: mounts, Labels: map[string]string{runLabel: world.id},
		// Our tests run 200 commands at once beside compilers.
		Limits: execution.Limits{PIDs: 2048},
	})
	if err != nil {
		if errors.Is(err, execution.ErrImage) {
			lack(t, "Pinfold's own image is missing and cannot be made; run `make images`: "+err.Error())
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := h.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return h
}

// work runs a line that must succeed, however long it takes, and shows the end
// of its output when it does not.
func work(t *testing.T, h execution.Handle, dir, line string, env ...string) string {
	t.Helper()
	var out execution.Capture
	out.Limit = 64 << 10
	result, err := execution.Exec(t.Context(), h, execution.Command{
		Shell: line, Dir: dir, Env: env, Stdout: &out, Stderr: &out, Timeout: workTime,
	})
	text, _ := out.Take()
	if err != nil || !result.Success() {
		t.Fatalf("%s: %v, %v\n%s", line, result.ExitStatus, err, text)
	}
	return string(text)
}

// This project's own unit tests pass in a sandbox, with the host's toolchain
// and modules and no network.
func TestOurOwnUnitTestsRunInside(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles everything")
	}
	need(t)
	ro := func(source, target string) execution.Mount {
		return execution.Mount{Type: execution.MountBind, Source: source, Target: target, ReadOnly: true}
	}
	// The toolchain's cache is kept from one run to the next; whoever the
	// sandbox's user is must be able to write there.
	cache := cacheDir(t, "go-build")
	if err := os.Chmod(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	h := realSandbox(t,
		ro(goEnv(t, "GOROOT"), "/usr/local/go"),
		ro(goEnv(t, "GOMODCACHE"), "/modules"),
		ro(filepath.Dir(goEnv(t, "GOMOD")), "/source"),
		execution.Mount{Type: execution.MountBind, Source: cache, Target: "/cache"},
	)
	env := []string{
		"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "HOME=/workspace",
		"GOMODCACHE=/modules", "GOCACHE=/cache", "GOPROXY=off", "GOFLAGS=-buildvcs=false",
		"GOTOOLCHAIN=local", "GOTELEMETRY=off", "CGO_ENABLED=0",
	}
	text := work(t, h, "/source", "go test -short -p 2 "+strings.Join(unitPackages, " "), env...)
	t.Logf("%s", text)
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "ok ") && !strings.Contains(line, "no test files") {
			t.Errorf("not a package that passed: %q", line)
		}
	}
}

// unitPackages are those whose tests need no engine.
var unitPackages = []string{"./execution/...", "./internal/...", "./images/...", "./cmd/..."}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// cacheDir is a folder that outlives the run.
func cacheDir(t *testing.T, name string) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		lack(t, "there is no cache folder: "+err.Error())
	}
	dir := filepath.Join(base, "pinfold", "integration", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A C program from a Debian source package is unpacked, patched, configured,
// built and checked inside.
func TestADebianSourcePackageIsBuiltInside(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a C program")
	}
	need(t)
	sources := debianSource(t, "hello")
	h := realSandbox(t)
	for name, data := range sources {
		if err := h.WriteFile(t.Context(), "source/"+name, bytes.NewReader(data), execution.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	work(t, h, "", `set -e
mkdir build
tar -xf source/*.orig.tar.* -C build --strip-components=1
tar -xf source/*.debian.tar.* -C build
cd build
if [ -f debian/patches/series ]; then
	while read -r p; do case $p in ""|"#"*) ;; *) patch -p1 <"debian/patches/$p" ;; esac; done <debian/patches/series
fi`)
	work(t, h, "build", "./configure --disable-nls && make -j2")
	checked := work(t, h, "build", "make check")
	if !strings.Contains(checked, "# FAIL:  0") {
		t.Errorf("its own tests say:\n%s", checked)
	}
	if got := output(t, h, "build/hello --greeting='built inside'"); got != "built inside\n" {
		t.Errorf("it says %q", got)
	}
}

// debianSource are the files of a Debian source package, fetched by apt-get
// with lists of its own, so that nothing of this machine's set-up is changed.
func debianSource(t *testing.T, name string) map[string][]byte {
	t.Helper()
	dir := cacheDir(t, "source-"+name)
	if found, _ := filepath.Glob(filepath.Join(dir, "*.orig.tar.*z")); len(found) == 0 {
		if err := fetchSource(t.Context(), dir, name); err != nil {
			lack(t, fmt.Sprintf("the Debian source package %q is needed: %v; put its files into %s", name, err, dir))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if entry.IsDir() || !strings.Contains(entry.Name(), ".tar.") || strings.HasSuffix(entry.Name(), ".asc") {
			continue
		}
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// sourceList names where Debian's sources are; apt checks their signature.
const sourceList = `Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`

func fetchSource(ctx context.Context, dir, name string) error {
	state, err := os.MkdirTemp("", "apt-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	if err := os.MkdirAll(filepath.Join(state, "lists", "partial"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(state, "debian.sources"), []byte(sourceList), 0o644); err != nil {
		return err
	}
	options := []string{
		"-q", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + state,
		"-o", "Dir::State::Lists=" + filepath.Join(state, "lists"), "-o", "Dir::Cache=" + state,
		"-o", "APT::Sandbox::User=", // what it downloads belongs to us
	}
	for _, args := range [][]string{{"update"}, {"source", "--download-only", name}} {
		cmd := exec.CommandContext(ctx, "apt-get", append(options, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}
