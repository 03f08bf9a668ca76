//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// TestKillLeavesNoProcess tries to get away in all the ways that there are.
func TestKillLeavesNoProcess(t *testing.T) {
	for name, line := range map[string]string{
		"plain child":      `sleep %[1]s & sleep %[1]s`,
		"double fork":      `(sh -c 'sleep %[1]s & sleep %[1]s &' &); sleep %[1]s`,
		"new session":      `setsid sleep %[1]s & setsid setsid sh -c 'sleep %[1]s & wait' & sleep %[1]s`,
		"no environment":   `env -i setsid sleep %[1]s & exec env -i sleep %[1]s`,
		"ignores SIGTERM":  `trap '' TERM HUP INT; setsid sh -c "trap '' TERM; sleep %[1]s; sleep %[1]s" & sleep %[1]s; sleep %[1]s`,
		"stopped":          `sleep %[1]s & kill -STOP $!; kill -STOP $$; sleep %[1]s`,
		"leader gone soon": `trap 'setsid sleep %[1]s & exit' TERM; setsid sleep %[1]s & wait`,
		"deep":             `f() { if [ "$1" = 0 ]; then sleep %[1]s; else setsid sh -c "$2" sh $(($1-1)) "$2"; fi; }; g='if [ "$1" = 0 ]; then sleep %[1]s; else setsid sh -c "$2" sh $(($1-1)) "$2"; fi'; sh -c "$g" sh 30 "$g"`,
		"respawns":         `while :; do setsid sleep %[1]s & sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			_, h := newTestHandle(t)
			text := mark(t)
			p, err := h.Start(t.Context(), execution.Command{Shell: fmt.Sprintf(line, text), Grace: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it has started", func() bool {
				for _, pid := range withMark(text) {
					if stat, _ := readStat(pid); name == "stopped" && stat.stopped {
						return true
					}
					if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(args), "sleep\x00"+text) {
						return true
					}
				}
				return false
			})
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			if err := p.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			if alive := withMark(text); len(alive) > 0 {
				t.Errorf("alive when Kill returned: %v", alive)
			}
			if status, err := p.Wait(ctx); err != nil || status.Ending != execution.EndingCancelled || len(status.Leftovers) > 0 {
				t.Errorf("%+v, %v", status, err)
			}
		})
	}
}

// TestForkBombLoses has a bomb against a limit on processes, as a container
// has one. The bound on the time is far above what it takes.
func TestForkBombLoses(t *testing.T) {
	for name, bomb := range map[string]string{
		"one group":     `f() { f & f & }; f; sleep 1000`,
		"many sessions": `exec sh bomb`,
	} {
		t.Run(name, func(t *testing.T) {
			c, h := newTestHandle(t)
			if err := execution.WriteFile(t.Context(), h, "bomb", []byte("trap '' TERM\nwhile :; do setsid sh bomb & done\n")); err != nil {
				t.Fatal(err)
			}
			join := limitPIDs(t, 256)
			p, err := h.Start(t.Context(), execution.Command{Shell: join + bomb, Grace: -1})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the bomb has gone off", func() bool { return len(below(nurseryOf(c))) > 100 })
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			if err := p.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			t.Logf("killed in %v", time.Since(began))
			if left := below(nurseryOf(c)); len(left) > maxIdle {
				t.Errorf("%d processes are left", len(left))
			}
			if _, err := p.Wait(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// limitPIDs makes a control group of version 1 for so many processes, and
// returns the start of a shell line that joins it.
func limitPIDs(t *testing.T, most int) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/pids", "pinfold-test-"+mark(t))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control group to be made: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, "the control group is empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(dir+"/pids.max", fmt.Append(nil, most), 0o600); err != nil {
		t.Skip(err)
	}
	return "echo $$ > " + dir + "/cgroup.procs; ulimit -u unlimited 2>/dev/null; exec 2>/dev/null; "
}

// TestKilledSupervisor has a command kill what watches it.
func TestKilledSupervisor(t *testing.T) {
	_, h := newTestHandle(t)
	for range 20 {
		text := mark(t)
		r := run(t, h, "setsid sleep "+text+" & sleep "+text+" & kill -9 $PPID; exec sleep "+text)
		if r.Ending != execution.EndingSignalled || r.Signal != execution.SIGKILL || r.Reason == "" {
			t.Errorf("%+v", r.ExitStatus)
		}
		if alive := withMark(text); len(alive) > 0 {
			t.Errorf("alive after a command killed its supervisor: %v", alive)
		}
	}
	if r := run(t, h, "echo on we go"); !r.Success() {
		t.Errorf("%+v", r.ExitStatus)
	}
}

func TestKilledSupervisorOfOthersIsSpared(t *testing.T) {
	_, h := newTestHandle(t)
	text := mark(t)
	beside, err := h.Start(t.Context(), execution.Command{Shell: "setsid sleep " + text + " & sleep " + text})
	if err != nil {
		t.Fatal(err)
	}
	sleepers := func() (pids []int) { // not the shell, whose line has the mark too
		for _, pid := range withMark(text) {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sleep\n" {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	eventually(t, "it has started", func() bool { return len(sleepers()) == 2 })
	before := sleepers()
	run(t, h, "kill -9 $PPID; sleep 1000")
	if got := sleepers(); !slices.Equal(got, before) {
		t.Errorf("another command had the processes %v and now has %v", before, got)
	}
	if err := beside.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKilledNurseryAndSupervisor leaves nothing to find the rest by: that must
// be said.
func TestKilledNurseryAndSupervisor(t *testing.T) {
	c, h := newTestHandle(t)
	text := mark(t)
	defer func() {
		for _, pid := range withMark(text) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}()
	line := fmt.Sprintf("kill -9 %d; sleep 0.1; setsid sleep %s & kill -9 $PPID; exec sleep %s", nurseryOf(c), text, text)
	p, err := h.Start(t.Context(), execution.Command{Shell: line})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	status, err := p.Wait(ctx)
	if !errors.Is(err, execution.ErrLost) || status.Ending != execution.EndingLost || status.Reason == "" {
		t.Errorf("%+v, %v", status, err)
	}
	if r := run(t, h, "echo on we go"); !r.Success() {
		t.Errorf("%+v", r.ExitStatus)
	}
}

// TestStoppedSupervisor has a command stop what watches it: it must still be
// possible to kill it.
func TestStoppedSupervisor(t *testing.T) {
	_, h := newTestHandle(t)
	text := mark(t)
	cmd := execution.Command{Shell: "kill -STOP $PPID; setsid sleep " + text + " & exec sleep " + text, Timeout: 300 * time.Millisecond}
	p, err := h.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if status, err := p.Wait(ctx); err != nil || status.Ending != execution.EndingTimedOut {
		t.Errorf("%+v, %v", status, err)
	}
	if alive := withMark(text); len(alive) > 0 {
		t.Errorf("alive after the timeout: %v", alive)
	}
}

// TestOrphansAreReaped has thousands of short processes lose their parent.
func TestOrphansAreReaped(t *testing.T) {
	n := 18_000
	if testing.Short() {
		n = 2_000
	}
	c, h := newTestHandle(t)
	p, err := h.Start(t.Context(), execution.Command{
		Shell: fmt.Sprintf("i=0; while [ $i -lt %d ]; do (:&) ; i=$((i+1)); done; sleep 1000", n),
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "only the last sleep is left", func() bool {
		if n := zombies(nurseryOf(c)); n > 200 {
			t.Fatalf("%d zombies", n)
		}
		for _, pid := range below(nurseryOf(c)) {
			if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(args), "sleep\x001000") {
				return zombies(nurseryOf(c)) == 0
			}
		}
		return false
	})
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHostKilled kills a host with SIGKILL in the middle of commands. The host
// is this test binary in another part.
func TestHostKilled(t *testing.T) {
	text := mark(t)
	host := exec.CommandContext(t.Context(), os.Args[0])
	host.Env = append(os.Environ(), helperVariable+"=host", "MARK="+text)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var ready [6]byte
	if _, err := out.Read(ready[:]); err != nil || string(ready[:]) != "ready\n" {
		t.Fatalf("%q, %v", ready, err)
	}
	watchers := below(host.Process.Pid)
	if len(withMark(text)) < 6 {
		t.Fatalf("only %v have started", withMark(text))
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	eventually(t, "no command is left", func() bool { return len(withMark(text)) == 0 })
	eventually(t, "no supervisor is left", func() bool {
		for _, pid := range watchers {
			if stat, ok := readStat(pid); ok && !stat.zombie {
				return false
			}
		}
		return true
	})
}

// helpHost runs commands of several kinds until it is killed.
func helpHost() error {
	c, err := New(Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	h, err := c.Spawn(ctx, execution.Spec{})
	if err != nil {
		return err
	}
	text := os.Getenv("MARK")
	for _, line := range []string{
		"exec sleep " + text,
		"trap '' TERM HUP; setsid env -i sleep " + text + " & sleep " + text + "; sleep " + text,
		"(setsid sh -c 'sleep " + text + " & sleep " + text + " & wait' &)",
	} {
		if _, err := h.Start(ctx, execution.Command{Shell: line}); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(hang); len(withMark(text)) < 7 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	select {}
}
