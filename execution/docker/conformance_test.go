package docker

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// Every line of the contract on the default profile, and on the other what
// depends on who one is and what one may do. gvisor_test.go asks the same of
// another kernel.
func TestConformance(t *testing.T) {
	needEngine(t)
	for name, row := range map[string]struct {
		spec     execution.Spec
		subjects []string
		present  bool
	}{
		"default": {execution.Spec{Image: world.shell}, nil, true},
		"dev": {
			execution.Spec{Image: world.shell, Profile: execution.ProfileDev},
			[]string{"kill", "files", "paths", "limits", "declared", "cwdenv"},
			!testing.Short(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !row.present {
				t.Skip("not asked for")
			}
			h := harness(row.spec)
			h.Subjects = row.subjects
			h.Large = name == "default" && !testing.Short()
			executiontest.Run(t, h)
		})
	}
}

func harness(spec execution.Spec) executiontest.Harness {
	bare := spec
	bare.Image = world.bare
	return executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			c, err := New(context.Background(), testOptions())
			if err != nil {
				tb.Fatal(err)
			}
			return c
		},
		Spec:    spec,
		NoShell: &bare,
		Kill: func(tb testing.TB, h execution.Handle) {
			tb.Helper()
			err := world.plain.ContainerRemove(context.Background(), h.ID(), container.RemoveOptions{Force: true})
			if err = errors.Join(err, world.plain.Close()); err != nil {
				tb.Errorf("remove behind the backend's back: %v", err)
			}
		},
		Inventory: func(tb testing.TB) []string {
			tb.Helper()
			ids, err := ours(context.Background())
			// An idle connection of the test's own, made anew after a long case,
			// would look like one of the backend's.
			if err = errors.Join(err, world.plain.Close()); err != nil {
				tb.Fatal(err)
			}
			return ids
		},
		BindDir: func(tb testing.TB) string {
			tb.Helper()
			dir := tb.TempDir()
			if os.Getuid() == 0 {
				// Root's own folders are refused where no user is named.
				if err := os.Chown(dir, 1000, 1000); err != nil {
					tb.Fatal(err)
				}
			}
			return dir
		},
	}
}
