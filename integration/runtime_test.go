//go:build linux

package integration

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// gvisorDaemon is an engine of the test's own that has gVisor's runtime, set
// up so that it works in a virtual machine too and without a bridge.
func gvisorDaemon(t *testing.T) *daemon {
	t.Helper()
	need(t)
	runsc, err := exec.LookPath("runsc")
	if err != nil {
		t.Skip("there is no runsc here; it is in the package of that name")
	}
	config, err := json.Marshal(map[string]any{"runtimes": map[string]any{
		"runsc": map[string]any{"path": runsc, "runtimeArgs": []string{"--platform=ptrace", "--network=none"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	return startDaemon(t, "--config-file", file)
}

// Under gVisor PID 1 can be killed from inside: the sandbox is lost, which is said.
func TestUnderGVisorAKilledFirstProcessIsALostSandbox(t *testing.T) {
	d := gvisorDaemon(t)
	h := newSandbox(t, newBackend(t, dockerOptionsAt(d.host)), execution.Spec{
		Image: d.image(t), Runtime: "runsc", Relax: []execution.Relaxation{execution.RelaxPIDs},
	})
	if got := inspect(t, d.client, h).HostConfig.Runtime; got != "runsc" {
		t.Fatalf("it runs under %q", got)
	}
	// It waits for a word, so that Start has returned before the deed.
	in, word := io.Pipe()
	pending := start(t, h, execution.Command{Shell: "read word; kill -9 1; sleep 100000", Stdin: in})
	_, err := io.WriteString(word, "now\n")
	if err = errors.Join(err, word.Close()); err != nil {
		t.Fatal(err)
	}
	lost(t, h, pending)
	eventually(t, "the container is removed", func() error { return noneLeft(t, d) })
}
