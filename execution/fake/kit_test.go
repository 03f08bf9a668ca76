package fake_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
	"github.com/pinfold-dev/pinfold/execution/internal/fakekit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func itself(backend execution.Context) execution.Context { return backend }

// TestConformance checks the fake with all capabilities.
func TestConformance(t *testing.T) {
	executiontest.Run(t, fakekit.Harness(fake.Options{}, itself))
}

// TestConformanceWithout checks it with none.
func TestConformanceWithout(t *testing.T) {
	var all execution.Capabilities
	all.Isolation, all.Images, all.Names, all.Users, all.Mounts = true, true, true, true, true
	all.ReadOnlyRoot, all.Networks, all.Runtimes, all.Profiles, all.Labels = true, true, true, true, true
	all.MemoryLimit, all.CPULimit, all.PIDLimit, all.StorageLimit, all.TTY = true, true, true, true, true
	harness := fakekit.Harness(fake.Options{Without: all}, itself)
	harness.NoShell = nil
	executiontest.Run(t, harness)
}
