//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// runHelper runs this test binary in another part and fails the test when that
// fails.
func runHelper(t *testing.T, name string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), helperVariable+"="+name), env...)
	cmd.SysProcAttr = attr
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// inNamespaces makes a process the first one of its namespace.
var inNamespaces = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}

// becomeFirst gives a first process its own view of the processes.
func becomeFirst() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("pid is %d", os.Getpid())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

func TestFirstProcess(t *testing.T) {
	needRoot(t)
	runHelper(t, "first process", inNamespaces)
}

// helpFirstProcess loses its nursery and supervisors to commands, and still
// finds all that they leave.
func helpFirstProcess() error {
	if err := becomeFirst(); err != nil {
		return err
	}
	c, err := New(Options{Dir: "/", FirstProcess: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	h, err := c.Spawn(ctx, execution.Spec{})
	if err != nil {
		return err
	}
	for range 5 {
		line := fmt.Sprintf("setsid env -i sleep 1000 & kill -9 %d; kill -9 $PPID; exec sleep 1000", nurseryOf(c))
		r, err := execution.Exec(ctx, h, execution.Command{Shell: line})
		if err != nil || r.Ending != execution.EndingSignalled || r.Reason == "" {
			return fmt.Errorf("%+v, %w", r.ExitStatus, err)
		}
		for pid, stat := range processes() {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasPrefix(string(args), "sleep") && !stat.zombie {
				return fmt.Errorf("process %d is alive: %q", pid, args)
			}
		}
	}
	// Orphans that were never a command's are reaped too.
	if r, err := execution.Exec(ctx, h, execution.Command{Shell: "(sh -c 'sleep 0.01 & sleep 0.01 &' &) ; kill -9 $PPID"}); err != nil {
		return fmt.Errorf("%+v, %w", r.ExitStatus, err)
	}
	for deadline := time.Now().Add(hang); zombies(1) > 0; {
		if time.Now().After(deadline) {
			return errors.New("zombies stay")
		}
		time.Sleep(time.Millisecond)
	}
	return c.Close()
}

func TestOutOfMemory(t *testing.T) {
	needRoot(t)
	group := filepath.Join("/sys/fs/cgroup/memory", "pinfold-test-"+mark(t))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no control group to be made: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, "the control group is empty", func() bool { return os.Remove(group) == nil })
	})
	if err := os.WriteFile(group+"/memory.limit_in_bytes", []byte("100000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	runHelper(t, "oom", inNamespaces, "GROUP="+group)
}

// helpOOM sees its own memory control group where a container sees it.
func helpOOM() error {
	group := os.Getenv("GROUP")
	if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0o600); err != nil {
		return err
	}
	if err := becomeFirst(); err != nil {
		return err
	}
	if err := unix.Mount(group, "/sys/fs/cgroup/memory", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	c, err := New(Options{Dir: "/", FirstProcess: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	h, err := c.Spawn(ctx, execution.Spec{})
	if err != nil {
		return err
	}
	for _, row := range []struct {
		cmd  execution.Command
		want execution.Ending
	}{
		{execution.Command{Args: []string{"tail", "/dev/zero"}}, execution.EndingOutOfMemory},
		{execution.Command{Shell: "kill -9 $$"}, execution.EndingSignalled},
		{execution.Command{Shell: "tail /dev/zero; exit 3"}, execution.EndingExited},
		{execution.Command{Shell: "kill -9 $$"}, execution.EndingSignalled},
	} {
		r, err := execution.Exec(ctx, h, row.cmd)
		if err != nil || r.Ending != row.want {
			return fmt.Errorf("%+v: %+v, %w", row.cmd, r.ExitStatus, err)
		}
	}
	return c.Close()
}

// TestProcessLimit has a command use up all processes of the container that
// the host itself is in. Neither the host nor the kill may need one more.
func TestProcessLimit(t *testing.T) {
	needRoot(t)
	group := filepath.Join("/sys/fs/cgroup/pids", "pinfold-test-"+mark(t))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no control group to be made: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, "the control group is empty", func() bool { return os.Remove(group) == nil })
	})
	if err := os.WriteFile(group+"/pids.max", []byte("100"), 0o600); err != nil {
		t.Fatal(err)
	}
	runHelper(t, "pids", inNamespaces, "GROUP="+group)
}

func helpPIDs() error {
	group := os.Getenv("GROUP")
	if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0o600); err != nil {
		return err
	}
	if err := becomeFirst(); err != nil {
		return err
	}
	c, err := New(Options{Dir: "/", FirstProcess: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	h, err := c.Spawn(ctx, execution.Spec{})
	if err != nil {
		return err
	}
	for range 5 {
		p, err := h.Start(ctx, execution.Command{Shell: "b='while :; do setsid sh -c \"$b\" & done'; export b; exec 2>/dev/null; exec sh -c \"$b\""})
		if err != nil {
			return err
		}
		for full := 0; full < 20; {
			current, err := os.ReadFile(group + "/pids.current")
			if err != nil {
				return err
			}
			if n := len(current); n >= 3 && current[0] >= '9' || n > 3 {
				full++
			}
			time.Sleep(time.Millisecond)
		}
		// Files and further commands go on, or say what is missing.
		if err := execution.WriteFile(ctx, h, "/tmp/pinfold-pids", []byte("x")); err != nil {
			return err
		}
		if _, err := execution.Exec(ctx, h, execution.Command{Args: []string{"true"}}); err != nil && !errors.Is(err, execution.ErrCannotRun) {
			return err
		}
		if err := p.Kill(ctx); err != nil {
			return err
		}
		if r, err := execution.Exec(ctx, h, execution.Command{Shell: "echo on we go"}); err != nil || !r.Success() {
			return fmt.Errorf("%+v, %w", r.ExitStatus, err)
		}
	}
	return errors.Join(os.Remove("/tmp/pinfold-pids"), c.Close())
}

func TestUnprivileged(t *testing.T) {
	needRoot(t)
	binary := filepath.Join(t.TempDir(), "test")
	// The test binary's own directory may be closed to others.
	if err := exec.CommandContext(t.Context(), "cp", os.Args[0], binary).Run(); err != nil {
		t.Fatal(err)
	}
	for dir := binary; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := t.TempDir()
	if err := os.WriteFile(closed+"/file", []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(closed+"/file", 0o666), os.Chmod(closed, 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = []string{helperVariable + "=unprivileged", "PATH=" + os.Getenv("PATH"), "CLOSED=" + closed}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// helpUnprivileged checks what holds among processes of the same user.
func helpUnprivileged() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // as the guest does
		return err
	}
	c, err := New(Options{Dir: "/tmp"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	h, err := c.Spawn(ctx, execution.Spec{})
	if err != nil {
		return err
	}
	// Neither the nursery nor a supervisor shows its memory, files or
	// environment to a command.
	line := fmt.Sprintf(`for pid in %d $PPID; do for f in mem environ maps fd/3; do
		if head -c 1 /proc/$pid/$f; then echo "/proc/$pid/$f can be read"; fi; done; done 2>/dev/null
		cat /proc/self/environ >/dev/null || echo "own environment cannot be read"
		echo score $(cat /proc/self/oom_score_adj)`, nurseryOf(c))
	r, err := execution.Exec(ctx, h, execution.Command{Shell: line})
	if want := "score 500\n"; err != nil || string(r.Stdout) != want {
		return fmt.Errorf("%q, %q, %w", r.Stdout, r.Stderr, err)
	}
	err = execution.WriteFile(ctx, h, os.Getenv("CLOSED")+"/file", []byte("new"))
	if !errors.Is(err, execution.ErrPermission) || !strings.Contains(err.Error(), "directory") {
		return fmt.Errorf("WriteFile in a directory that is closed: %w", err)
	}
	if r, err = execution.Exec(ctx, h, execution.Command{Shell: "setsid sleep 1000 & kill -9 $PPID; sleep 1000"}); err != nil || r.Ending != execution.EndingSignalled {
		return fmt.Errorf("%+v, %w", r.ExitStatus, err)
	}
	return c.Close()
}
