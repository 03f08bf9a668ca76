package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/guesttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is when a test that waits is taken to hang.
const patience = 20 * time.Second

// binary is the guest, built as it is for containers.
func binary(t *testing.T) string {
	t.Helper()
	data, err := guesttest.Binary(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(openDir(t), "pinfold-guest")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// openDir is a folder that any user may reach and write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pipes are the host's ends of a guest's standard input and output.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// serveProcess starts the guest as a process of its own and of an unprivileged
// user, and greets it.
func serveProcess(t *testing.T, cfg guest.Config) (*guest.Client, *exec.Cmd) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), "serve")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=1"}
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := guest.Dial(t.Context(), pipes{out, in}, guest.Options{Backend: "test", Handle: "box", Config: cfg})
	if err != nil {
		t.Fatalf("%v; it says: %s", err, stderr.Bytes())
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, cmd
}

// handle makes a client a whole handle.
type handle struct{ *guest.Client }

func (handle) ID() string                      { return "box" }
func (handle) Spec() execution.Spec            { return execution.Spec{} }
func (h handle) Destroy(context.Context) error { return h.Close() }

func TestGuestServesAndEndsWithItsHost(t *testing.T) {
	dir := openDir(t)
	c, cmd := serveProcess(t, guest.Config{Dir: dir, Env: []string{"FROM_SPEC=2"}})
	if f := c.Facts(); f.PID != cmd.Process.Pid || f.Arch != runtime.GOARCH || f.Dir != dir || f.Shell == "" || f.Version != version() {
		t.Errorf("facts are %+v", f)
	}
	result, err := execution.Exec(t.Context(), handle{c}, execution.Command{
		Shell: `pwd; echo "$FROM_IMAGE$FROM_SPEC$FROM_COMMAND"; ls -l /proc/self/fd >&2; exit 3`, Env: []string{"FROM_COMMAND=3"},
	})
	if err != nil || result.Code != 3 || string(result.Stdout) != dir+"\n123\n" {
		t.Errorf("%v, %v, %q", result.ExitStatus, err, result.Stdout)
	}
	for line := range strings.Lines(string(result.Stderr)) {
		if strings.Contains(line, "->") && !strings.Contains(line, "-> pipe:") &&
			!strings.Contains(line, "-> /dev/null") && !strings.Contains(line, "-> /proc/") {
			t.Errorf("a command inherits %s", line)
		}
	}
	_ = c.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestGuestCannotBeTracedOrReadByItsCommands(t *testing.T) {
	c, cmd := serveProcess(t, guest.Config{})
	// The kernel gives the files of a process that is not dumpable to root.
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "mem"), &stat); err != nil || stat.Uid != 0 {
		t.Errorf("its memory belongs to user %d, %v", stat.Uid, err)
	}
	_ = c.Close()
	_ = cmd.Wait()
}

func TestSignalsThatAnyCommandMaySendDoNothing(t *testing.T) {
	c, cmd := serveProcess(t, guest.Config{})
	for _, sig := range []unix.Signal{
		unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGSEGV, unix.SIGABRT,
	} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Stat(t.Context(), "/"); err != nil {
			t.Fatalf("after %v: %v", sig, err)
		}
	}
	_ = c.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestTerminationEndsItAtOnce(t *testing.T) {
	c, cmd := serveProcess(t, guest.Config{})
	p, err := c.Start(t.Context(), execution.Command{Shell: "trap '' TERM; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if status, err := p.Wait(ctx); status.Ending != execution.EndingLost || !errors.Is(err, execution.ErrLost) {
		t.Errorf("Wait = %+v, %v", status, err)
	}
	_ = cmd.Wait()
}

func TestLeaseThatRunsOutEndsIt(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary(t), "serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A host that greets, and is never heard of again.
	c, err := guest.Dial(t.Context(), pipes{out, in}, guest.Options{
		Config: guest.Config{Lease: 100 * time.Millisecond}, Heartbeat: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("it outlives its lease")
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(stderr.String(), "lease") {
		t.Errorf("it ended with %v and says %q", err, stderr.String())
	}
}

func TestGuestRunByHandSaysWhatItIs(t *testing.T) {
	path := binary(t)
	for _, args := range [][]string{{}, {"nonsense"}, {"serve", "too much"}} {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "pinfold run") {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), path, "version").Output()
	if want := "pinfold-guest " + version() + " linux/" + runtime.GOARCH + "\n"; err != nil || string(out) != want {
		t.Errorf("version: %q, %v; want %q", out, err, want)
	}
}
