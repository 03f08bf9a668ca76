//go:build linux

package integration

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// The guest for the other architecture answers, under qemu's user emulation.
func TestTheGuestForArm64Answers(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("there is no qemu-aarch64-static here; it is in the package qemu-user-static")
	}
	binary := filepath.Join(t.TempDir(), "pinfold-guest")
	data, err := world.guest("arm64")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, data, 0o755); err != nil {
		t.Fatal(err)
	}

	// It ends when its input does, and is not to be killed before.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), qemu, binary, "serve")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	client, err := guest.Dial(ctx, pipes{stdout, stdin}, guest.Options{
		Backend: "qemu", Handle: "arm64", Config: guest.Config{Dir: cmd.Dir, Env: []string{"PATH=/usr/bin:/bin"}},
	})
	if err != nil {
		t.Fatalf("the greeting: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the guest: %v", err)
		}
	})
	arm64Works(t, ctx, client, cmd.Dir)
}

func arm64Works(t *testing.T, ctx context.Context, client *guest.Client, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := client.OpenFile(ctx, "file", execution.ReadOptions{})
	if err != nil {
		t.Fatalf("reading a file: %v", err)
	}
	if data, err := io.ReadAll(r); err != nil || string(data) != "content" {
		t.Errorf("read %q, %v", data, err)
	}
	closeNow(t, r)
	var out execution.Capture
	process, err := client.Start(ctx, execution.Command{Shell: "echo out; exit 5", Stdout: &out})
	if err != nil {
		t.Fatalf("a command: %v", err)
	}
	status, err := process.Wait(ctx)
	text, _ := out.Take()
	if err != nil || status.Code != 5 || string(text) != "out\n" {
		t.Errorf("a command: %v, %v, output %q", status, err, text)
	}
	tree, err := client.Start(ctx, execution.Command{Shell: "setsid sleep 100000 & sleep 100000", Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Kill(ctx); err != nil {
		t.Errorf("Kill: %v", err)
	}
}

// pipes are the two ends as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }
