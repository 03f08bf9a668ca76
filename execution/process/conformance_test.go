//go:build linux && (amd64 || arm64)

package process_test

import (
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/process"
)

func TestConformance(t *testing.T) {
	executiontest.Run(t, executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			c, err := process.New(process.Options{Dir: tb.TempDir()})
			if err != nil {
				tb.Fatal(err)
			}
			return c
		},
	})
}
