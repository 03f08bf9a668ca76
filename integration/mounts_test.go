//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// Folders of the host and of memory.

// callerUID is somebody who is neither root nor the sandbox's default user.
const callerUID = 2345

// engineGroup is the group that may use the engine's socket.
func engineGroup(t *testing.T) uint32 {
	t.Helper()
	info, err := os.Stat("/var/run/docker.sock")
	if err != nil {
		t.Skip("the engine's socket is elsewhere")
	}
	return info.Sys().(*syscall.Stat_t).Gid
}

// The files that a command makes in a folder of the caller's belong to the
// caller, who can delete them.
func TestResultsInABindMountBelongToTheCaller(t *testing.T) {
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	group := engineGroup(t)
	dir := shortDir(t)
	for _, path := range []string{dir, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, callerUID, callerUID); err != nil {
			t.Fatal(err)
		}
	}
	m := mark()
	cmd := pinfoldRun(t, m, "-v", dir+":/mnt", "-w", "/mnt", "-c", "mkdir -p made/deep; echo result >made/deep/file")
	cmd.Path = worldReadable(t, cmd.Path)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "TMPDIR=/tmp")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: callerUID, Gid: callerUID, Groups: []uint32{group}}}
	if got := finish(t, cmd); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	for _, name := range []string{"made", "made/deep", "made/deep/file"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != callerUID {
			t.Errorf("%s belongs to %d, want %d", name, owner.Uid, callerUID)
		}
	}
	noContainer(t, m)
}

// worldReadable is a copy of a program that any user may run.
func worldReadable(t *testing.T, program string) string {
	t.Helper()
	dir := shortDir(t)
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "pinfold")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// The file API sees what the command sees: also in memory and in mounts.
func TestFilesInMountsAreSeenBothWays(t *testing.T) {
	need(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host"), []byte("host's\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path := dir; len(path) >= len(world.dir); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{ReadOnly: true, Mounts: []execution.Mount{
		{Type: execution.MountTmpfs, Target: "/memory", Size: 8 << 20},
		{Type: execution.MountBind, Source: dir, Target: "/host", ReadOnly: true},
	}})
	ctx := t.Context()
	if err := execution.WriteFile(ctx, h, "/memory/ours", []byte("ours\n")); err != nil {
		t.Fatal(err)
	}
	if got := output(t, h, "cat /memory/ours; echo theirs >/memory/theirs; cat /host/host"); got != "ours\nhost's\n" {
		t.Errorf("the command sees %q", got)
	}
	for path, want := range map[string]string{"/memory/theirs": "theirs\n", "/host/host": "host's\n"} {
		if got, err := execution.ReadFile(ctx, h, path, 0); err != nil || string(got) != want {
			t.Errorf("the file API sees %q in %s, %v", got, path, err)
		}
	}
	// Read-only is read-only for both.
	for _, path := range []string{"/host/new", "/etc/new"} {
		isError(t, execution.WriteFile(ctx, h, path, nil), execution.ErrPermission, path)
		if result := run(t, h, "touch "+path); result.Success() {
			t.Errorf("the command made %s", path)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("there is a new file on the host")
	}
}
