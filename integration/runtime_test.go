//go:build linux

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// Under gVisor a sandbox does the same; its PID 1 can be killed from inside,
// which is then a sandbox lost.
func TestUnderGVisor(t *testing.T) {
	need(t)
	info, err := world.engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := info.Runtimes["runsc"]; !ok {
		t.Skip("this engine has no runtime called runsc")
	}
	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Runtime: "runsc"})
	if got := inspect(t, world.engine, h).HostConfig.Runtime; got != "runsc" {
		t.Errorf("it runs under %q", got)
	}
	everyFileOperation(t, h)
	if result := run(t, h, "echo out; echo err >&2; exit 3"); result.Code != 3 ||
		string(result.Stdout) != "out\n" || string(result.Stderr) != "err\n" {
		t.Errorf("got %v, %q, %q", result.ExitStatus, result.Stdout, result.Stderr)
	}
	// It is another kernel, or this proves nothing.
	if got := output(t, h, "cat /proc/version"); !strings.Contains(got, "gVisor") &&
		!slices.Contains(strings.Fields(got), "4.4.0") {
		t.Errorf("the kernel says %q", got)
	}
	pending := start(t, h, execution.Command{Shell: "kill -9 1; sleep 100000"})
	if status, err := pending.Wait(t.Context()); err == nil && status.Ending != execution.EndingSignalled {
		t.Errorf("after PID 1 was killed from inside: %v", status)
	}
}
