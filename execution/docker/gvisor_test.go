package docker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// gVisor is another kernel, and the one that Debian 12 has lacks some of Linux:
// orphans fall to the first process whatever a supervisor asks, so that what a
// command started is told by a mark instead, and a sandbox that needs too much
// memory dies as a whole. What holds nevertheless is tried here.
func TestUnderGVisor(t *testing.T) {
	c := newBackend(t)
	if !slices.Contains(c.info.Runtimes, "runsc") {
		t.Skip("the engine has no runtime runsc")
	}
	sandbox := func(t *testing.T, spec execution.Spec) execution.Handle {
		t.Helper()
		spec.Runtime = "runsc"
		return spawn(t, c, spec)
	}
	t.Run("commands", func(t *testing.T) {
		h := sandbox(t, execution.Spec{})
		for code := range 5 {
			result, err := execution.Exec(t.Context(), h, execution.Command{
				Shell: fmt.Sprintf("echo out; echo err >&2; exit %d", code),
			})
			if err != nil || result.Code != code || string(result.Stdout) != "out\n" || string(result.Stderr) != "err\n" {
				t.Errorf("got %v, %q, %q, %v", result.ExitStatus, result.Stdout, result.Stderr, err)
			}
		}
		if got := shell(t, h, "id -u; cat /proc/version; head -c 5000000 /dev/zero | wc -c"); !strings.HasPrefix(got, "1000\n") ||
			strings.Contains(got, c.info.Kernel) || !strings.HasSuffix(got, "5000000\n") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("files", func(t *testing.T) {
		h := sandbox(t, execution.Spec{})
		content := bytes.Repeat([]byte("pinfold\x00\xff\n"), 1<<18)
		if err := h.WriteFile(t.Context(), "a/b c/\xffd", bytes.NewReader(content), execution.WriteOptions{Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
		got, err := execution.ReadFile(t.Context(), h, "a/b c/\xffd", 16<<20)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(content))
		}
	})
	t.Run("kill", func(t *testing.T) {
		h := sandbox(t, execution.Spec{})
		result, err := execution.Exec(t.Context(), h, execution.Command{
			Shell: "trap '' TERM; sleep 1000 & sleep 1000; sleep 1000", Timeout: time.Second,
		})
		if err != nil || result.Ending != execution.EndingTimedOut {
			t.Errorf("got %v, %v", result.ExitStatus, err)
		}
		if got := shell(t, h, "ps | grep -c '[s]leep 1000'; true"); got != "0\n" {
			t.Errorf("%s processes are left", strings.TrimSpace(got))
		}
	})
	t.Run("the first process can be killed from inside", func(t *testing.T) {
		h := sandbox(t, execution.Spec{})
		_, err := execution.Exec(t.Context(), h, execution.Command{Shell: "kill -9 1; sleep 1000"})
		if !errors.Is(err, execution.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		h := sandbox(t, execution.Spec{Limits: execution.Limits{Memory: 256 << 20}})
		_, err := execution.Exec(t.Context(), h, execution.Command{Shell: "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"})
		if !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("got %v, want ErrLost because out of memory", err)
		}
	})
}
