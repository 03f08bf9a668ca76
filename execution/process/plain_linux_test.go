//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"os"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// TestPlainConformance checks what other systems use on this one.
func TestPlainConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the other")
	}
	executiontest.Run(t, executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			c, err := New(Options{Dir: tb.TempDir()})
			if err != nil {
				tb.Fatal(err)
			}
			c.launcher.close()
			c.launcher = plainLauncher{}
			return c
		},
	})
}

// TestSupervisorsWhereOrphansGetAway runs a command under a supervisor also
// where New would not use one, which is under qemu-user.
func TestSupervisorsWhereOrphansGetAway(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	p, err := newPool(int(null.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisors{pool: p}
	defer s.close()
	fd := int(null.Fd())
	for range 3 {
		tr, err := s.launch(t.Context(), &launch{
			path: "/bin/sh", args: []string{"sh", "-c", "exit 5"}, dir: "/", files: [3]int{fd, fd, fd},
		})
		if err != nil {
			t.Fatal(err)
		}
		<-tr.drained()
		if res := tr.result(); res.code != 5 {
			t.Errorf("%+v", res)
		}
		_, err = s.launch(t.Context(), &launch{path: "/no/such", args: []string{"x"}, dir: "/", files: [3]int{fd, fd, fd}})
		var failed *launchError
		if !errors.As(err, &failed) || failed.stage != launchExec {
			t.Errorf("%v", err)
		}
	}
}
