//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// A daemon is an engine of the test's own, to be stopped, killed and frozen.
// It has no network, and shares nothing with the machine's engine.
type daemon struct {
	dir    string
	host   string // for DOCKER_HOST
	args   []string
	cmd    *exec.Cmd
	client *client.Client
}

// startDaemon starts a second dockerd, which ends with the test. It skips
// where that cannot be.
func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := newDaemon(t, args...)
	d.start(t)
	return d
}

// newDaemon is one that has not been started.
func newDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("an engine of the test's own takes root")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Skip("there is no dockerd here to start a second one")
	}
	dir := shortDir(t)
	d := &daemon{dir: dir, host: "unix://" + filepath.Join(dir, "docker.sock"), args: args}
	t.Cleanup(func() {
		d.end(t)
		if t.Failed() {
			d.showLog(t)
		}
	})
	var err error
	if d.client, err = client.NewClientWithOpts(client.WithHost(d.host), client.WithAPIVersionNegotiation()); err != nil {
		t.Fatal(err)
	}
	return d
}

// showLog shows the end of what the engine had to say.
func (d *daemon) showLog(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "log"))
	if err != nil {
		t.Error(err)
	}
	const tail = 4 << 10
	t.Logf("the second engine's log ends with:\n%s", data[max(0, len(data)-tail):])
}

// start starts the engine and waits until it answers.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(t, log)
	args := append([]string{
		"--exec-root", filepath.Join(d.dir, "exec"), "--data-root", filepath.Join(d.dir, "data"),
		"--pidfile", filepath.Join(d.dir, "pid"), "--host", d.host,
		"--bridge=none", "--iptables=false",
	}, d.args...)
	// Its life is the test's, not that of a context.
	d.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), "dockerd", args...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.dir)
	// In a network of its own: an engine without a bridge removes docker0, and
	// that one is the machine's.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM,
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second engine answers", func() error {
		_, err := d.client.Ping(t.Context())
		return err
	})
}

// stop ends the engine as an init system would, and waits for it.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGTERM, true)
}

// kill ends the engine as a crash would. Its containers go on. It takes its
// containerd with it, and leaves the pid files of both, which would keep the
// next one from starting where nobody reaps zombies: removing them is an init
// system's work.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGKILL, true)
	const config = "containerd.toml" // an argument of containerd, and not of its shims
	eventually(t, "the second engine's containerd has ended", func() error {
		for _, p := range hostProcesses() {
			if strings.Contains(p.args, d.dir) && strings.Contains(p.args, config) {
				return fmt.Errorf("%d: %s", p.pid, p.args)
			}
		}
		return nil
	})
	for _, name := range []string{"pid", "exec/containerd/containerd.pid"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

// freeze stops the engine in its tracks: it takes connections and never
// answers. thaw lets it go on.
func (d *daemon) freeze(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGSTOP, false)
}

func (d *daemon) thaw(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGCONT, false)
}

func (d *daemon) signal(t *testing.T, sig syscall.Signal, ends bool) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v to the second engine: %v", sig, err)
	}
	if ends {
		_ = d.cmd.Wait() // the status of what we killed
		d.cmd = nil
	}
}

// end leaves no process of the engine behind, whatever state it is in.
func (d *daemon) end(t *testing.T) {
	t.Helper()
	if d.cmd != nil {
		d.thaw(t)
		d.stop(t)
	}
	_ = d.client.Close()
	// After a crash its containerd, shims and containers are still there.
	pids := d.processes()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(t, "the second engine's processes are gone", func() error {
		if left := d.processes(); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	d.unmount(t)
}

// processes are those whose arguments name the engine's folder: dockerd,
// containerd, the shims.
func (d *daemon) processes() []int {
	var pids []int
	for _, p := range hostProcesses() {
		if strings.Contains(p.args, d.dir) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// unmount takes away what a crash left mounted.
func (d *daemon) unmount(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], d.dir) {
			if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", fields[1], err)
			}
		}
	}
}

// image puts the busybox image onto the engine.
func (d *daemon) image(t *testing.T) string {
	t.Helper()
	ref := imageRepo + ":own"
	importImage(t, d.client, ref, "", rootfs(t))
	return ref
}

// shortDir is a folder outside of TMPDIR: a socket's path may have 107 bytes
// at most, and other users get there.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pinfold-test-") //nolint:usetesting // t.TempDir's names are too long.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// gVisor looks for its files as nobody.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// eventually waits for something that is known to come, without a bound that
// a slow machine could miss: hangTime is for hangs.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(hangTime)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, hangTime, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// hangTime is when something counts as hung.
const hangTime = time.Minute

// A hostProcess is a process as the host sees it.
type hostProcess struct {
	pid  int
	args string // joined with spaces
	exe  string // "" where it may not be read
}

// hostProcesses reads the host's /proc. Zombies have no arguments.
func hostProcesses() []hostProcess {
	names, _ := os.ReadDir("/proc")
	var all []hostProcess
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", name.Name(), "cmdline"))
		if err != nil {
			continue
		}
		exe, _ := os.Readlink(filepath.Join("/proc", name.Name(), "exe"))
		all = append(all, hostProcess{
			pid: pid, exe: exe,
			args: strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " ")),
		})
	}
	return all
}
