//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
)

// helperVariable makes the test binary play another part than that of tests.
const helperVariable = "PINFOLD_PROCESS_TEST_HELPER"

// helpers are the parts, by name.
var helpers = map[string]func() error{
	"host":          helpHost,
	"first process": helpFirstProcess,
	"oom":           helpOOM,
	"unprivileged":  helpUnprivileged,
	"pids":          helpPIDs,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		if err := helpers[name](); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Whoever runs the tests may ignore it, as nohup does. The plain launcher
	// hands that on; a signal that is received is not ignored in commands.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	goleak.VerifyTestMain(m)
}

// hang bounds what must come, far above what it takes.
const hang = 60 * time.Second

func newTestContext(tb testing.TB, opts Options) *Context {
	tb.Helper()
	if opts.Dir == "" {
		opts.Dir = tb.TempDir()
	}
	c, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// newTestHandle is for tests of what takes supervisors.
func newTestHandle(tb testing.TB) (*Context, execution.Handle) {
	tb.Helper()
	c := newTestContext(tb, Options{})
	needSupervisors(tb, c)
	return c, spawn(tb, c)
}

func spawn(tb testing.TB, c *Context) execution.Handle {
	tb.Helper()
	h, err := c.Spawn(context.Background(), execution.Spec{})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// run runs a shell line to its end.
func run(tb testing.TB, h execution.Handle, line string) execution.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	r, err := execution.Exec(ctx, h, execution.Command{Shell: line})
	if err != nil {
		tb.Fatalf("%s: %v", line, err)
	}
	return r
}

// eventually waits until something is so that comes by itself.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.Now().Add(hang)
	for pause := time.Millisecond; !is(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not so after %v: %s", hang, what)
		}
		time.Sleep(pause)
	}
}

// withMark lists the living processes whose arguments or environment hold a
// text, by a look at /proc from outside.
func withMark(mark string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(args)+string(env), mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// below lists all processes below pid, the dead ones too.
func below(pid int) (pids []int) {
	all := processes()
	for child := range all {
		for at := child; at > 1; at = all[at].parent {
			if all[at].parent == pid {
				pids = append(pids, child)
				break
			}
		}
	}
	return pids
}

// zombies counts the dead processes below pid that nobody has reaped.
func zombies(pid int) (n int) {
	for _, p := range below(pid) {
		if stat, ok := readStat(p); ok && stat.zombie {
			n++
		}
	}
	return n
}

func openFDs(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// mark is a text that no other process has among its arguments.
func mark(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("31%d%d", os.Getpid(), time.Now().UnixNano()%1e9)
}
