//go:build linux

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/internal/guest/guesttest"
)

// A suite is what the tests share.
type suite struct {
	id     string // of this run; in names and labels
	dir    string // TMPDIR of this run
	before inventory

	engine *client.Client
	absent error // why there is no engine

	pinfold string // the command, built once
	broken  error  // why it was not

	plain lazyImage

	removedMu sync.Mutex
	removed   map[string]bool // IDs of the images that were made and removed

	guestsMu sync.Mutex
	guests   map[string][]byte
}

// guest builds the guest for an architecture, once.
func (s *suite) guest(goarch string) ([]byte, error) {
	s.guestsMu.Lock()
	defer s.guestsMu.Unlock()
	if data, ok := s.guests[goarch]; ok {
		return data, nil
	}
	data, err := guesttest.Binary(goarch)
	if err != nil {
		return nil, err
	}
	if s.guests == nil {
		s.guests = map[string][]byte{}
	}
	s.guests[goarch] = data
	return data, nil
}

// world is the one suite. TestMain makes it, since what it builds is too dear
// to be made by each test.
var world *suite

// names makes names unique within a run.
var names atomic.Int64

func uniqueName() string { return strconv.FormatInt(names.Add(1), 10) }

// requireVariable says that an engine must be there.
const requireVariable = "PINFOLD_REQUIRE_DOCKER"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(orphanHost) != "" {
		fmt.Fprintln(os.Stderr, playOrphanHost())
		os.Exit(1)
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	// testcontainers' own reaper is an image that would have to be pulled,
	// and would hide what is left behind.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "pinfold-integration-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	world = &suite{id: strconv.FormatInt(time.Now().UnixNano(), 36), dir: filepath.Join(dir, "tmp"), removed: map[string]bool{}}
	if err := os.Mkdir(world.dir, 0o700); err != nil {
		return 1, err
	}
	if err := os.Setenv("TMPDIR", world.dir); err != nil {
		return 1, err
	}
	world.connect()
	world.build(filepath.Join(dir, "pinfold"))
	code = m.Run()
	if world.absent == nil {
		err = errors.Join(err, world.sweep(), world.engine.Close())
	}
	return code, errors.Join(err, goroutinesLeft())
}

// goroutinesLeft looks for goroutines that nobody waited for. The clients of
// testcontainers are never all closed; theirs are left out.
func goroutinesLeft() error {
	return goleak.Find(
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
	)
}

// connect finds the engine with the plain client, or says why there is none.
func (s *suite) connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.engine, s.absent = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if s.absent == nil {
		_, s.absent = s.engine.Ping(ctx)
	}
	if s.absent == nil {
		s.before, s.absent = takeInventory(ctx, s.engine)
	}
}

// build builds the command as a user would get it, with the guests in it.
func (s *suite) build(path string) {
	generate := exec.CommandContext(context.Background(), "go", "generate", "../internal/guest/guestbin")
	if out, err := generate.CombinedOutput(); err != nil {
		s.broken = fmt.Errorf("building the guests: %w\n%s", err, out)
		return
	}
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(context.Background(), "go", append(args, "-buildvcs=false", "../cmd/pinfold")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.broken = fmt.Errorf("building the command: %w\n%s", err, out)
		return
	}
	s.pinfold = path
}

// need skips the test without an engine, or fails it where one must be there.
func need(t *testing.T) {
	t.Helper()
	if world.absent != nil {
		lack(t, "no engine answers: "+world.absent.Error())
	}
}

// lack ends a test that misses something of the machine.
func lack(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(requireVariable) == "1" {
		t.Fatalf("%s (%s=1)", what, requireVariable)
	}
	t.Skip(what)
}

// newBackend is the backend under test, closed with the test.
func newBackend(t *testing.T, opts docker.Options) execution.Context {
	t.Helper()
	need(t)
	backend, err := docker.New(t.Context(), opts)
	if err != nil {
		t.Fatalf("docker.New: %v", err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return backend
}

// newSandbox spawns one that the test could not do without. Its image is the
// plain one where spec names none.
func newSandbox(t *testing.T, backend execution.Context, spec execution.Spec) execution.Handle {
	t.Helper()
	if spec.Image == "" {
		spec.Image = plainImage(t)
	}
	if spec.Labels == nil {
		spec.Labels = map[string]string{runLabel: world.id}
	}
	h, err := backend.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatalf("Spawn: %v", err)
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

// sandbox is one of the default kind, on a backend of its own.
func sandbox(t *testing.T) execution.Handle {
	t.Helper()
	need(t)
	return newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{})
}

// refused checks that a spawn fails as it must, and leaves no container.
func refused(t *testing.T, backend execution.Context, spec execution.Spec, want error, words ...string) {
	t.Helper()
	mark := world.id + "-" + uniqueName()
	if spec.Labels == nil {
		spec.Labels = map[string]string{runLabel: mark}
	}
	if spec.Image == "" {
		spec.Image = plainImage(t)
	}
	h, err := backend.Spawn(t.Context(), spec)
	if err == nil {
		ctx, cancel := cleanupContext()
		defer cancel()
		t.Fatalf("Spawn made a sandbox; destroying it: %v", h.Destroy(ctx))
	}
	isError(t, err, want, words...)
	if left := marked(t, world.engine, mark); len(left) > 0 {
		t.Errorf("Spawn failed and left %d containers", len(left))
	}
}

// run runs a shell line to its end.
func run(t *testing.T, h execution.Handle, line string) execution.Result {
	t.Helper()
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: line})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return result
}

// output runs a shell line that must succeed, and returns what it wrote.
func output(t *testing.T, h execution.Handle, line string) string {
	t.Helper()
	result := run(t, h, line)
	if !result.Success() {
		t.Fatalf("%s: %v: %s", line, result.ExitStatus, result.Stderr)
	}
	return string(result.Stdout)
}

// isError checks an error's kind (nil for any), its type, and words that it
// must say.
func isError(t *testing.T, err, want error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %v", want)
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("got %q, want it to match %q", err, want)
	}
	if _, ok := errors.AsType[*execution.Error](err); !ok {
		t.Errorf("%q is no *execution.Error", err)
	}
	for _, word := range words {
		if !contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

// cleanupContext is for removing things once a test's own context has ended.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), hangTime)
}

func closeNow(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
