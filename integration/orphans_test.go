//go:build linux

package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/internal/guest/guesttest"
)

// orphanHost makes the test binary be a host of many sandboxes, on the engine
// that it names.
const orphanHost = "PINFOLD_INTEGRATION_ORPHAN_HOST"

const (
	orphans     = 20
	orphanLease = 5 * time.Second
	orphanLabel = "pinfold-integration-orphan"
)

// playOrphanHost spawns sandboxes, tells when all are there, and waits to be
// killed.
func playOrphanHost() error {
	ctx := context.Background()
	opts := docker.Options{Host: os.Getenv(orphanHost), Lease: orphanLease, Guest: guesttest.Binary}
	backend, err := docker.New(ctx, opts)
	if err != nil {
		return err
	}
	for range orphans {
		h, err := backend.Spawn(ctx, execution.Spec{
			Image: os.Getenv(orphanLabel), Labels: map[string]string{orphanLabel: "yes"},
		})
		if err != nil {
			return err
		}
		if _, err := h.StartTask(ctx, execution.Command{Shell: "trap '' TERM HUP; while :; do sleep 1; done"}, execution.TaskOptions{}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	select {}
}

// A host that is killed while it holds many sandboxes leaves nothing once their
// lease is over, with no help from anybody.
func TestOrphansEndWithTheirLease(t *testing.T) {
	d := startDaemon(t)
	image := d.image(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.CommandContext(t.Context(), self)
	host.Env = append(os.Environ(), orphanHost+"="+d.host, orphanLabel+"="+image)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatalf("the host says %q, %v", line, err)
	}
	left := func() int {
		list, err := d.client.ContainerList(t.Context(), container.ListOptions{
			All: true, Filters: filters.NewArgs(filters.Arg("label", orphanLabel)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := left(); n != orphans {
		t.Fatalf("there are %d sandboxes, want %d", n, orphans)
	}
	killed := time.Now()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	eventually(t, "the sandboxes are gone", func() error {
		if n := left(); n > 0 {
			return errorf("%d are there", n)
		}
		return nil
	})
	t.Logf("gone %v after the host was killed, with a lease of %v", time.Since(killed).Round(time.Millisecond), orphanLease)
}
