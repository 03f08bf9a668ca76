//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// newForKit makes a Context that the kit closes.
func newForKit(tb testing.TB) *Context {
	tb.Helper()
	c, err := New(Options{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	executiontest.Run(t, executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			return newForKit(tb)
		},
		Large: !testing.Short() && os.Getenv("PINFOLD_TEST_LARGE") != "",
		Alive: func(_ testing.TB, _ execution.Handle, pid int) bool {
			stat, ok := readStat(pid)
			return ok && !stat.zombie
		},
		Inventory: func(testing.TB) []string {
			var items []string
			for _, pid := range below(os.Getpid()) {
				// The supervisors are the Context's, and stay until it is closed.
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if name := strings.TrimSpace(string(comm)); name != "" && name != "pinfold-watch" {
					items = append(items, fmt.Sprintf("process %d %s", pid, name))
				}
			}
			return items
		},
	})
}
