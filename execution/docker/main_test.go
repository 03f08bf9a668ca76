package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/guesttest"
)

// A bench is what the tests with an engine share.
type bench struct {
	plain  *client.Client // asks the engine without our code
	absent error          // why there is no engine

	shell, bare string // images: busybox, and a single program
	imported    error
}

// world is the one bench: TestMain makes it, since images are dear.
var world bench

func TestMain(m *testing.M) {
	if image := os.Getenv(hostVariable); image != "" {
		fmt.Fprintln(os.Stderr, playHost(image))
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	world.connect()
	code := m.Run()
	if world.absent == nil {
		if err := world.sweep(); err != nil {
			fmt.Fprintln(os.Stderr, "left on the engine:", err)
			code = 1
		}
	}
	if world.plain != nil {
		_ = world.plain.Close()
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func (b *bench) connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b.plain, b.absent = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if b.absent == nil {
		_, b.absent = b.plain.Ping(ctx)
	}
	if b.absent != nil {
		return
	}
	prefix := fmt.Sprintf("localhost/pinfold-docker-test-%d", os.Getpid())
	b.shell, b.bare = prefix+":shell", prefix+":bare"
	b.imported = errors.Join(b.importImages(context.Background()))
}

// printenv is what Debian's busybox lacks.
const printenv = `#!/bin/sh
[ $# -gt 0 ] || exec env
eval "[ -n \"\${$1+x}\" ]" || exit 1
eval "printf '%s\n' \"\$$1\""
`

// importImages makes the test images from the busybox of this machine.
func (b *bench) importImages(ctx context.Context) error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w; install it: apt-get install busybox-static", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return err
	}
	shell := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "var/tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "home/worker/", Mode: 0o700, Uid: 1001, Gid: 1002},
		{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "bin/printenv", Mode: 0o755},
	}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" && name != "printenv" {
			shell = append(shell, tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"})
		}
	}
	contents := map[string][]byte{
		"bin/busybox": program, "app/cat": program,
		"bin/printenv": []byte(printenv),
		"etc/passwd":   []byte("root:x:0:0:root:/root:/bin/sh\nworker:x:1001:1002::/home/worker:/bin/sh\n"),
		"etc/group":    []byte("root:x:0:\nstaff:x:50:\n"),
	}
	bare := []tar.Header{{Typeflag: tar.TypeReg, Name: "app/cat", Mode: 0o755}}
	return errors.Join(b.importImage(ctx, b.shell, shell, contents), b.importImage(ctx, b.bare, bare, contents))
}

func (b *bench) importImage(ctx context.Context, ref string, headers []tar.Header, contents map[string][]byte) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range headers {
		h.Size = int64(len(contents[h.Name]))
		_, err := w.Write(nil)
		if err = errors.Join(err, w.WriteHeader(&h)); err == nil {
			_, err = w.Write(contents[h.Name])
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	answer, err := b.plain.ImageImport(ctx, image.ImportSource{Source: &archive, SourceName: "-"}, ref, image.ImportOptions{
		Changes: []string{"ENV PATH=/bin:/usr/bin"},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer)
	return errors.Join(err, answer.Close())
}

// sweep removes the images of this run and reports what else is left of it.
func (b *bench) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := ours(ctx)
	errs := []error{err}
	for _, id := range left {
		errs = append(errs, fmt.Errorf("container %s", id))
	}
	for _, ref := range []string{b.shell, b.bare} {
		base, err := b.plain.ImageInspect(ctx, ref)
		if err != nil {
			continue // Not made.
		}
		derived, err := b.plain.ImageList(ctx, image.ListOptions{All: true, Filters: labelFilter([]string{labelBase + "=" + base.ID})})
		errs = append(errs, err)
		for _, d := range derived {
			_, err := b.plain.ImageRemove(ctx, d.ID, image.RemoveOptions{Force: true})
			errs = append(errs, err)
		}
		_, err = b.plain.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ours are the containers that this process has made and that are left.
func ours(ctx context.Context) ([]string, error) {
	all, err := world.plain.ContainerList(ctx, container.ListOptions{All: true, Filters: labelFilter([]string{labelProcess + "=" + processID()})})
	var ids []string
	for _, c := range all {
		if c.State == "removing" {
			if _, err := world.plain.ContainerInspect(ctx, c.ID); cerrdefs.IsNotFound(err) {
				continue // Docker 20.10 goes on listing some that it has removed.
			}
		}
		ids = append(ids, shortID(c.ID))
	}
	return ids, err
}

// needEngine skips a test that wants an engine where there is none, or fails
// it where there must be one.
func needEngine(tb testing.TB) {
	tb.Helper()
	err := errors.Join(world.absent, world.imported)
	if err == nil {
		return
	}
	if os.Getenv("PINFOLD_REQUIRE_DOCKER") == "1" {
		tb.Fatal(err)
	}
	tb.Skip(err)
}

// builtGuest is the guest, built once.
var builtGuest = sync.OnceValues(func() ([]byte, error) { return guesttest.Binary(runtime.GOARCH) })

func testOptions() Options {
	return Options{Image: world.shell, Guest: func(string) ([]byte, error) { return builtGuest() }}
}

// newBackend is a Context that is closed at the end of the test.
func newBackend(tb testing.TB) *Context {
	tb.Helper()
	needEngine(tb)
	c, err := New(context.Background(), testOptions())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return c
}

// newBackendOn is newBackend on an engine that is not quite what it is.
func newBackendOn(tb testing.TB, change func(engine) engine) *Context {
	tb.Helper()
	needEngine(tb)
	env := systemEnvironment()
	found, err := env.discover(tb.Context(), "")
	if err != nil {
		tb.Fatal(err)
	}
	c, err := newContext(context.WithoutCancel(tb.Context()), change(found), testOptions(), env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return c
}

// spawn is a sandbox that is destroyed at the end of the test.
func spawn(tb testing.TB, c *Context, spec execution.Spec) execution.Handle {
	tb.Helper()
	h, err := c.Spawn(tb.Context(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Destroy(ctx); err != nil {
			tb.Errorf("Destroy: %v", err)
		}
	})
	return h
}

// shell runs a line that is to succeed, and returns its output.
func shell(tb testing.TB, h execution.Handle, line string) string {
	tb.Helper()
	result, err := execution.Exec(tb.Context(), h, execution.Command{Shell: line})
	if err != nil || !result.Success() {
		tb.Fatalf("%s: %v, %v, %s", line, result.ExitStatus, err, result.Stderr)
	}
	return string(result.Stdout)
}

// eventually waits until what is so; the test's own time limit ends it.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	const hang = time.Minute
	for begun := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > hang {
			tb.Fatalf("not after %v: %s", hang, what)
		}
	}
}
