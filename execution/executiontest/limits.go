package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func limitCases() []check {
	return []check{
		{"memory", limitMemory},
		{"memory_spares_the_sandbox", limitMemorySandbox},
		{"pids", limitPIDs},
		{"files_without_a_process_left", limitPIDsFiles},
		{"cpus", limitCPUs},
		{"storage", limitStorage},
		{"readonly_root", limitReadOnly},
		{"tmpfs_mount", limitTmpfs},
		{"tmpfs_size", limitTmpfsSize},
		{"bind_mount", limitBind},
		{"bind_mount_missing", limitBindMissing},
		{"user", limitUser},
		{"user_unknown", limitUserUnknown},
		{"network_none", limitNetwork},
		{"name", limitName},
		{"labels", limitLabels},
		{"profiles", limitProfiles},
		{"image_unknown", limitImage},
		{"runtime_unknown", limitRuntime},
		{"isolation", limitIsolation},
	}
}

// declares skips the case unless the backend declares what it is about.
func (e *env) declares(declared bool) {
	e.Helper()
	if !declared {
		e.Skip("the backend does not declare it")
	}
}

// memoryLimit is what the eater of memory gets.
const memoryLimit = 128 << 20

func limitMemory(ctx context.Context, e *env) {
	e.declares(e.can().MemoryLimit)
	spec := e.spec()
	spec.Limits.Memory = memoryLimit
	h := e.spawn(ctx, spec)
	if got := h.Spec().Limits.Memory; got != memoryLimit {
		e.Errorf("Spec() tells a memory limit of %d, want %d", got, memoryLimit)
	}
	result := e.exec(ctx, h, e.command(EatMemory))
	e.wantEnding(result.ExitStatus, execution.EndingOutOfMemory)
}

func limitMemorySandbox(ctx context.Context, e *env) {
	e.declares(e.can().MemoryLimit)
	spec := e.spec()
	spec.Limits.Memory = memoryLimit
	h := e.spawn(ctx, spec)
	e.write(ctx, h, "file", "content")
	for range 3 {
		result := e.exec(ctx, h, e.command(EatMemory))
		e.wantEnding(result.ExitStatus, execution.EndingOutOfMemory)
	}
	if got := e.read(ctx, h, "file"); got != "content" {
		e.Errorf("a file reads as %q afterwards", got)
	}
	// A plain SIGKILL after that is not taken for another one.
	result := e.exec(ctx, h, e.command(Raise, "9"))
	e.wantEnding(result.ExitStatus, execution.EndingSignalled)
}

func limitPIDs(ctx context.Context, e *env) {
	e.declares(e.can().PIDLimit)
	const limit = 64
	spec := e.spec()
	spec.Limits.PIDs = limit
	h := e.spawn(ctx, spec)
	if got := h.Spec().Limits.PIDs; got != limit {
		e.Errorf("Spec() tells a limit of %d processes, want %d", got, limit)
	}
	out := &tape{}
	few := e.command(Fork, "10")
	few.Stdout = out
	proc := e.start(ctx, h, few)
	out.awaitText(ctx, e, "done\n")
	e.kill(ctx, proc)

	// Beyond the limit it must fail: at once, or by trying for as long as it
	// is let. A kill must work there as well.
	out = &tape{}
	many := e.command(Fork, fmt.Sprint(4*limit))
	many.Stdout, many.Timeout = out, 3*time.Second
	proc = e.start(ctx, h, many)
	status := e.wait(ctx, proc)
	if status.Success() || out.text() != "" {
		e.Errorf("with a limit of %d processes, %d more were made: %v", limit, 4*limit, status)
	}
	if err := proc.Kill(ctx); err != nil {
		e.Fatalf("Kill at the limit of processes: %v", err)
	}
	e.run(ctx, h, Print, "", "", "0")
}

// limitPIDsFiles has a command take all processes that there may be. What the
// backend itself needs to go on is not among them.
func limitPIDsFiles(ctx context.Context, e *env) {
	e.declares(e.can().PIDLimit)
	h := e.sandbox(ctx)
	many := e.command(Fork, fmt.Sprint(4*h.Spec().Limits.PIDs))
	many.Grace = -1
	proc := e.start(ctx, h, many)
	var calls sync.WaitGroup
	for n := range 40 {
		calls.Go(func() {
			name := fmt.Sprintf("file-%d", n)
			for range 20 { // for about a second, in which they become too many
				time.Sleep(50 * time.Millisecond)
				if err := h.WriteFile(ctx, name, &pattern{size: 256 << 10}, execution.WriteOptions{}); err != nil {
					e.Errorf("WriteFile where no further process can be made: %v", err)
					return
				}
				if _, err := execution.ReadFile(ctx, h, name, 256<<10); err != nil {
					e.Errorf("ReadFile where no further process can be made: %v", err)
					return
				}
			}
		})
	}
	calls.Wait()
	if err := proc.Kill(ctx); err != nil {
		e.Fatalf("Kill at the limit of processes: %v", err)
	}
	e.run(ctx, h, Print, "", "", "0")
}

func limitCPUs(ctx context.Context, e *env) {
	e.declares(e.can().CPULimit)
	const limit = 0.25
	spec := e.spec()
	spec.Limits.CPUs = limit
	h := e.spawn(ctx, spec)
	if got := h.Spec().Limits.CPUs; got != limit {
		e.Errorf("Spec() tells a limit of %v processors, want %v", got, limit)
	}
	cmd := e.command(Spin)
	cmd.Timeout, cmd.Grace = 2*time.Second, -1
	result := e.exec(ctx, h, cmd)
	e.wantEnding(result.ExitStatus, execution.EndingTimedOut)
	used := (result.UserTime + result.SystemTime).Seconds()
	// A busy machine only makes this smaller; twice the limit leaves room for
	// the first period, which the kernel may grant in full.
	if share := used / result.Duration.Seconds(); share > 2*limit {
		e.Errorf("with a limit of %v processors a command used %.2f", limit, share)
	}
}

func limitStorage(ctx context.Context, e *env) {
	e.declares(e.can().StorageLimit)
	const limit = 32 << 20
	spec := e.spec()
	spec.Limits.Storage = limit
	h := e.spawn(ctx, spec)
	if got := h.Spec().Limits.Storage; got != limit {
		e.Errorf("Spec() tells a storage limit of %d, want %d", got, limit)
	}
	e.full(ctx, h, "dir", limit)
}

// full fills a place of that size to its end and beyond.
func (e *env) full(ctx context.Context, h execution.Handle, dir string, size int64) {
	e.Helper()
	e.write(ctx, h, dir+"/small", "content")
	err := h.WriteFile(ctx, dir+"/large", &pattern{size: 2 * size}, execution.WriteOptions{})
	e.wantError(err, execution.ErrNoSpace, "WriteFile of more than there is room for")
	if names := e.names(ctx, h, dir); len(names) != 1 {
		e.Errorf("a write without room left %q", names)
	}
	e.write(ctx, h, dir+"/small", "there is room again")
}

func limitReadOnly(ctx context.Context, e *env) {
	e.declares(e.can().ReadOnlyRoot)
	writable := func(h execution.Handle, dir string) error {
		return execution.WriteFile(ctx, h, dir+"/executiontest-probe", []byte("x"))
	}
	plain := e.sandbox(ctx)
	spec := e.spec()
	spec.ReadOnly = true
	h := e.spawn(ctx, spec)
	if !h.Spec().ReadOnly {
		e.Error("Spec() does not tell that the root is read-only")
	}
	// Some of these may be mounts of the backend's own, which stay writable.
	refused := 0
	for _, dir := range []string{"", "/var/tmp", "/tmp", plain.Dir(), "/home", "/usr"} {
		if writable(plain, dir) != nil {
			continue
		}
		err := writable(h, dir)
		if err == nil {
			continue
		}
		refused++
		e.wantError(err, execution.ErrPermission, "WriteFile on a read-only root")
		if result := e.exec(ctx, h, e.command(Store, dir+"/executiontest-probe", "x")); result.Success() {
			e.Errorf("a command could write to %q on a read-only root", dir)
		}
	}
	if refused == 0 {
		e.Error("on a read-only root, every place that is writable without it is writable")
	}
	e.run(ctx, h, Print, "", "", "0")
}

func limitTmpfs(ctx context.Context, e *env) {
	e.declares(e.can().Mounts)
	spec := e.spec()
	const target = "/mnt/executiontest-tmpfs"
	spec.Mounts = []execution.Mount{{Type: execution.MountTmpfs, Target: target}}
	h := e.spawn(ctx, spec)
	e.wantMode(ctx, h, target, fs.ModeDir|fs.ModeSticky|0o777)
	// The file calls see what commands see, also below a mount.
	e.write(ctx, h, target+"/by-api", "from outside")
	if got := e.run(ctx, h, Load, target+"/by-api"); got != "from outside" {
		e.Errorf("a command reads %q below a mount", got)
	}
	e.run(ctx, h, Store, target+"/by-command", "from inside")
	if got := e.read(ctx, h, target+"/by-command"); got != "from inside" {
		e.Errorf("ReadFile reads %q below a mount", got)
	}
	if mounts := h.Spec().Mounts; len(mounts) == 0 {
		e.Error("Spec() does not tell of the mount")
	}

	spec.Mounts[0].ReadOnly = true
	h = e.spawn(ctx, spec)
	err := execution.WriteFile(ctx, h, target+"/file", []byte("x"))
	e.wantError(err, execution.ErrPermission, "WriteFile on a read-only mount")
}

func limitTmpfsSize(ctx context.Context, e *env) {
	e.declares(e.can().Mounts)
	const target, size = "/mnt/executiontest-tmpfs", 4 << 20
	spec := e.spec()
	spec.Mounts = []execution.Mount{{Type: execution.MountTmpfs, Target: target, Size: size, Mode: 0o777}}
	h := e.spawn(ctx, spec)
	e.wantMode(ctx, h, target, fs.ModeDir|0o777)
	e.full(ctx, h, target+"/dir", size)
}

func limitBind(ctx context.Context, e *env) {
	e.declares(e.can().Mounts)
	if e.harness.BindDir == nil {
		e.Skip("the harness has no folder to bind")
	}
	const target = "/mnt/executiontest-bind"
	spec := e.spec()
	spec.Mounts = []execution.Mount{{Type: execution.MountBind, Target: target, Source: e.harness.BindDir(e)}}
	h := e.spawn(ctx, spec)
	e.write(ctx, h, target+"/file", "content")
	e.run(ctx, h, Store, target+"/other", "content")

	spec.Mounts[0].ReadOnly = true
	h = e.spawn(ctx, spec)
	for _, name := range []string{"file", "other"} {
		if got := e.read(ctx, h, target+"/"+name); got != "content" {
			e.Errorf("what one sandbox wrote reads in the next as %q", got)
		}
	}
	err := execution.WriteFile(ctx, h, target+"/file", []byte("x"))
	e.wantError(err, execution.ErrPermission, "WriteFile on a read-only mount")
	if result := e.exec(ctx, h, e.command(Store, target+"/file", "x")); result.Success() {
		e.Error("a command could write to a read-only mount")
	}
}

func limitBindMissing(ctx context.Context, e *env) {
	e.declares(e.can().Mounts)
	if e.harness.BindDir == nil {
		e.Skip("the harness has no folder to bind")
	}
	spec := e.spec()
	spec.Mounts = []execution.Mount{{
		Type: execution.MountBind, Target: "/mnt/executiontest-bind", Source: e.harness.BindDir(e) + "/no/such/folder",
	}}
	_, err := e.trySpawn(ctx, spec)
	if !errors.Is(err, execution.ErrInvalid) && !errors.Is(err, execution.ErrNotFound) {
		e.Errorf("Spawn with a bind of a missing folder: got %v, want %q or %q", err, execution.ErrInvalid, execution.ErrNotFound)
	}
}
