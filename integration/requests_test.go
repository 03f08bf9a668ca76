//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// What Pinfold asks of the engine, as a proxy between them sees it.

// Content that untrusted code has touched is never unpacked by the engine or
// on the host (CVE-2018-15664 and its successors).
func TestTheEnginesFileCopyIsNeverUsedOnASandbox(t *testing.T) {
	need(t)
	p := startProxy(t, nil)
	h := newSandbox(t, newBackend(t, dockerOptionsAt(p.host)), execution.Spec{})
	everyFileOperation(t, h)
	output(t, h, "true")
	if err := h.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range p.requests() {
		if !strings.Contains(path, "/containers/"+h.ID()) {
			continue
		}
		seen++
		for _, call := range []string{"/archive", "/copy", "/export", "/exec"} {
			if strings.Contains(path, call) {
				t.Errorf("asked for %s", path)
			}
		}
	}
	if seen == 0 {
		t.Errorf("no request about the sandbox %s was seen in %q", h.ID(), p.requests())
	}
}

func TestTheAPIVersionIsTheEngines(t *testing.T) {
	need(t)
	p := startProxy(t, nil)
	h := newSandbox(t, newBackend(t, dockerOptionsAt(p.host)), execution.Spec{})
	output(t, h, "true")
	version, err := world.engine.ServerVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, path := range p.requests() {
		rest, ok := strings.CutPrefix(path, "/v")
		if !ok {
			continue // the ping that negotiates
		}
		asked++
		if used, _, _ := strings.Cut(rest, "/"); versionLess(version.APIVersion, used) {
			t.Errorf("asked for %s of an engine that speaks %s", path, version.APIVersion)
		}
	}
	if asked == 0 {
		t.Error("no request was seen")
	}
}

func versionLess(a, b string) bool {
	var majorA, minorA, majorB, minorB int
	_, _ = fmt.Sscanf(a, "%d.%d", &majorA, &minorA)
	_, _ = fmt.Sscanf(b, "%d.%d", &majorB, &minorB)
	return majorA < majorB || majorA == majorB && minorA < minorB
}

func TestACancelledSpawnLeavesNothing(t *testing.T) {
	need(t)
	image := plainImage(t)
	for name, at := range map[string]string{
		"at create": "/containers/create",
		"at attach": "/attach",
		"at start":  "/start",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := startProxy(t, func(method, path string) {
				if before, _, _ := strings.Cut(path, "?"); method == http.MethodPost && strings.HasSuffix(before, at) {
					cancel()
				}
			})
			backend := newBackend(t, dockerOptionsAt(p.host))
			m := mark()
			h, err := backend.Spawn(ctx, execution.Spec{Image: image, Labels: map[string]string{runLabel: m}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v", h, err)
			}
			// The engine may have been asked already and not have answered.
			eventually(t, "no container is left", func() error { return stillThere(t, m) })
		})
	}
}
