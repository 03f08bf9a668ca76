package docker

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// Podman reads the filter from a file, and knows no bound on the files of a
// tmpfs.
func TestRequestsForPodman(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m := &moby{proto: "unix"}
	req := requestFor(execution.Spec{Mounts: []execution.Mount{{Type: execution.MountTmpfs, Target: "/d"}}})
	for range 2 { // The file is there the second time.
		got, err := m.forPodman(req)
		if err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(got.Seccomp); err != nil || string(content) != seccompProfile {
			t.Errorf("the filter's file: %v", err)
		}
		if strings.Contains(got.Mounts[0].tmpfs(), "nr_inodes") || req.Mounts[0].MaxInodes == 0 {
			t.Errorf("the tmpfs is %s, and was %d", got.Mounts[0].tmpfs(), req.Mounts[0].MaxInodes)
		}
	}
	far := &moby{proto: "tcp"}
	if _, err := far.forPodman(req); !errors.Is(err, execution.ErrUnsupported) {
		t.Errorf("on another machine: got %v, want ErrUnsupported", err)
	}
	req.Seccomp = seccompOff
	if got, err := far.forPodman(req); err != nil || got.Seccomp != seccompOff {
		t.Errorf("relaxed: got %v", err)
	}
}
