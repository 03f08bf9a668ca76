//go:build linux

package integration

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A sandbox that has filled the engine's disk says so, goes on with what takes
// no disk, its tasks and their output included, and can be destroyed.
func TestTheEnginesDiskIsFull(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	data := filepath.Join(d.dir, "data")
	if err := os.Mkdir(data, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=192m"); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	image := d.image(t)
	backend := newBackend(t, dockerOptionsAt(d.host))
	h := newSandbox(t, backend, execution.Spec{Image: image, Limits: execution.Limits{Memory: 256 << 20}})
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	ticks, err := h.StartTask(ctx, execution.Command{Shell: "while :; do echo tick; sleep 0.05; done"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := h.StartTask(ctx, execution.Command{Shell: "cat /dev/zero > /workspace/all"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := writer.Wait(ctx)
	if err != nil || info.Status.Ending != execution.EndingExited || info.Status.Success() {
		t.Fatalf("the task that fills the disk: %v, %v", info.Status, err)
	}
	if said := taskOutput(ctx, t, writer, execution.Stderr, execution.OutputOptions{}); !strings.Contains(said, "No space") {
		t.Errorf("it says %q", said)
	}
	result, err := execution.Exec(ctx, h, execution.Command{Shell: "echo x > /workspace/more"})
	if err != nil || result.Success() || !strings.Contains(string(result.Stderr), "No space") {
		t.Errorf("a command that writes: %v, %q, %v", result.ExitStatus, result.Stderr, err)
	}
	if err := h.WriteFile(ctx, "more", strings.NewReader("x"), execution.WriteOptions{}); !errors.Is(err, execution.ErrNoSpace) {
		t.Errorf("WriteFile: %v, want ErrNoSpace", err)
	}
	if got := output(t, h, "echo here"); got != "here\n" {
		t.Errorf("a command that does not write: %q", got)
	}
	before, err := ticks.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	more := execution.OutputOptions{Offset: before.Stdout.Bytes, Length: 10, Follow: true}
	if got := taskOutput(ctx, t, ticks, execution.Stdout, more); got != "tick\ntick\n" {
		t.Errorf("the task that ticks: %q", got)
	}
	begun := time.Now()
	other, err := backend.Spawn(ctx, execution.Spec{Image: image})
	if err == nil {
		err = other.Destroy(ctx) // there was room, after all
	} else if !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("another sandbox, after %v: %v", time.Since(begun), err)
	}
	t.Logf("another sandbox: %v", err)
	if err := h.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	eventually(t, "the containers are removed", func() error { return noneLeft(t, d) })
	h = newSandbox(t, backend, execution.Spec{Image: image})
	if got := output(t, h, "echo again > file && cat file"); got != "again\n" {
		t.Errorf("with room again: %q", got)
	}
}

// taskOutput reads some of what a task wrote.
func taskOutput(ctx context.Context, t *testing.T, task execution.Task, stream execution.OutputStream, opts execution.OutputOptions) string {
	t.Helper()
	r, err := task.OpenOutput(ctx, stream, opts)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
