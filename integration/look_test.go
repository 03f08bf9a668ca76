//go:build linux

package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
)

// Labels of Pinfold's own, as an outsider reads them.
const (
	processLabel = execution.LabelPrefix + "process" // "host:pid:start"
	derivedLabel = execution.LabelPrefix + "derived"
	baseLabel    = execution.LabelPrefix + "base" // the image ID that it is derived from
)

// errorf is for checks that are tried again.
func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// dockerOptions are the defaults, with a guest built from this checkout.
func dockerOptions() docker.Options { return dockerOptionsAt("") }

// dockerOptionsAt are those for one engine.
func dockerOptionsAt(host string) docker.Options {
	return docker.Options{Host: host, Guest: world.guest}
}

// ownedByUs reports whether this process made a container.
func ownedByUs(labels map[string]string) bool {
	return slices.Contains(strings.Split(labels[processLabel], ":"), fmt.Sprint(os.Getpid()))
}

// baseOf is the ID of the image that a derived image is made from, or "".
func baseOf(info image.InspectResponse) string {
	if info.Config == nil {
		return ""
	}
	return info.Config.Labels[baseLabel]
}

// derivedImages are the images that Pinfold derived from a base.
func derivedImages(ctx context.Context, engine *client.Client, base string) ([]string, error) {
	list, err := engine.ImageList(ctx, image.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", baseLabel+"="+base)),
	})
	var ids []string
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	return ids, err
}

// inspect looks at the container of a sandbox.
func inspect(t *testing.T, engine *client.Client, h execution.Handle) container.InspectResponse {
	t.Helper()
	info, err := engine.ContainerInspect(t.Context(), h.ID())
	if err != nil {
		t.Fatalf("looking at the sandbox: %v", err)
	}
	return info
}

// absent checks that the engine has no such container any more.
func absent(t *testing.T, engine *client.Client, id string) {
	t.Helper()
	ctx, cancel := cleanupContext()
	defer cancel()
	if _, err := engine.ContainerInspect(ctx, id); !cerrdefs.IsNotFound(err) {
		t.Errorf("the container is still there (%v)", err)
	}
}

// start starts a command that the test could not do without.
func start(t *testing.T, h execution.Handle, cmd execution.Command) execution.Process {
	t.Helper()
	p, err := h.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

// lost checks everything that must be true of a sandbox that has died, with a
// command that was pending then.
func lost(t *testing.T, h execution.Handle, pending execution.Process, reasons ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	status, err := pending.Wait(ctx)
	isError(t, err, execution.ErrLost, reasons...)
	if status.Ending != execution.EndingLost || status.Code != -1 || status.Success() || status.ShellCode() != 125 {
		t.Errorf("the pending command ended as %+v, want it lost", status)
	}
	if status.Reason == "" {
		t.Error("the status gives no reason")
	}
	select {
	case <-h.Done():
	case <-ctx.Done():
		t.Error("Done is not closed")
	}
	isError(t, h.Err(), execution.ErrLost, reasons...)
	_, err = execution.Exec(ctx, h, execution.Command{Args: []string{"true"}})
	isError(t, err, execution.ErrLost, reasons...)
	_, err = execution.ReadFile(ctx, h, "file", 0)
	isError(t, err, execution.ErrLost, reasons...)
	isError(t, execution.WriteFile(ctx, h, "file", nil), execution.ErrLost, reasons...)
	_, err = h.Stat(ctx, "file")
	isError(t, err, execution.ErrLost, reasons...)
	for _, err := range h.List(ctx, ".") {
		isError(t, err, execution.ErrLost, reasons...)
	}
	for range 2 {
		if err := h.Destroy(ctx); err != nil {
			t.Errorf("Destroy after the death: %v", err)
		}
	}
}
