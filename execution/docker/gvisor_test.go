package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// gVisor is another kernel: orphans fall to the first process whatever a
// supervisor asks, so that a kill goes by the mark that commands carry, and a
// sandbox that needs too much memory dies as a whole. This is what the kit, in
// the test below, does not ask or cannot look at.
func TestUnderGVisor(t *testing.T) {
	c := newBackend(t)
	needGVisor(t, c)
	sandbox := func(t *testing.T, spec execution.Spec) execution.Handle {
		t.Helper()
		spec.Runtime, spec.Relax = "runsc", []execution.Relaxation{execution.RelaxPIDs}
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
	t.Run("what does not hold is refused", func(t *testing.T) {
		for _, spec := range []execution.Spec{{Runtime: "runsc"}, {Runtime: "runsc", Limits: execution.Limits{PIDs: 4096}}} {
			_, err := c.Spawn(t.Context(), spec)
			if !errors.Is(err, execution.ErrUnsupported) || !strings.Contains(err.Error(), `pid limit`) ||
				!strings.Contains(err.Error(), `relaxation "pids"`) {
				t.Errorf("a limit on processes: got %v, want ErrUnsupported that names it", err)
			}
		}
		h := sandbox(t, execution.Spec{})
		if got := h.Spec().Limits; got.PIDs != 0 || got.Memory != DefaultMemory || got.CPUs == 0 {
			t.Errorf("the limits in force are %+v", got)
		}
		again, err := newBackend(t).Attach(t.Context(), h.ID(), execution.AttachOptions{Mode: execution.AttachTakeOver})
		if err != nil {
			t.Fatal(err)
		}
		for name, h := range map[string]execution.Handle{"who made it": sandbox(t, execution.Spec{}), "who attached": again} {
			tty := execution.Command{Shell: "tty", TTY: &execution.TerminalSize{Rows: 24, Cols: 80}}
			_, err := h.Start(t.Context(), tty)
			if !errors.Is(err, execution.ErrUnsupported) || !strings.Contains(err.Error(), "terminal") {
				t.Errorf("a terminal for %s: got %v, want ErrUnsupported that names it", name, err)
			}
			if _, err := h.StartTask(t.Context(), tty, execution.TaskOptions{}); !errors.Is(err, execution.ErrUnsupported) {
				t.Errorf("a task on a terminal for %s: got %v, want ErrUnsupported", name, err)
			}
		}
		if err := again.Destroy(t.Context()); err != nil {
			t.Error(err)
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

func needGVisor(t *testing.T, c *Context) {
	t.Helper()
	if !slices.Contains(c.info.Runtimes, "runsc") {
		t.Skip("the engine has no runtime runsc")
	}
}

// The kit under gVisor asks everything but what underGVisor takes back.
func TestConformanceUnderGVisor(t *testing.T) {
	if testing.Short() {
		t.Skip("not asked for")
	}
	needGVisor(t, newBackend(t))
	h := harness(execution.Spec{Image: world.shell, Runtime: "runsc"})
	docker := h.New
	h.New = func(tb testing.TB) execution.Context {
		tb.Helper()
		return underGVisor{docker(tb).(*Context)}
	}
	executiontest.Run(t, h)
}

// underGVisor is a backend whose every sandbox has gVisor's kernel, and which
// declares no more than what holds there. A limit on processes and terminals
// the backend itself refuses, which the kit checks.
type underGVisor struct{ *Context }

func (c underGVisor) Capabilities() execution.Capabilities {
	can := c.Context.Capabilities()
	can.PIDLimit = false    // refused: at the limit the sandbox dies
	can.TTY = false         // refused: no end of output, no keys
	can.MemoryLimit = false // holds, but ends the sandbox and not a command; see above
	can.CPULimit = false    // holds, but times of a command count its waiting
	return can
}

func (c underGVisor) Spawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	if err := spec.Validate(); err == nil {
		can := c.Capabilities()
		can.PIDLimit = true // that is for the backend to refuse
		if err := can.Check(spec); err != nil {
			return nil, &execution.Error{Op: "spawn", Backend: Type, Err: err}
		}
		if spec.Limits.PIDs == 0 && !slices.Contains(spec.Relax, execution.RelaxPIDs) {
			spec.Relax = append(slices.Clone(spec.Relax), execution.RelaxPIDs)
		}
	}
	return c.Context.Spawn(ctx, spec)
}
