package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// trapping is a shell line that tells of each signal and goes on. It tells of
// them outside of their traps, since bash forgets a signal that comes within
// the trap of the same one; the traps only count, so that none is lost between
// two commands of the loop.
const trapping = `all="INT TERM HUP QUIT USR1 USR2"
for s in $all; do eval "got_$s=0 said_$s=0"; trap "got_$s=\$((got_$s+1))" $s; done
echo ready; while :; do sleep 0.02; for s in $all; do
eval "n=\$got_$s"; while eval "[ \$said_$s -lt $n ]"; do echo got-$s; eval "said_$s=\$((said_$s+1))"; done
done; done`

// The first signal goes to the command, which decides what becomes of it.
func TestFirstSignalGoesToTheCommand(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			for name, sig := range map[string]syscall.Signal{
				"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					line := `trap 'echo cleaned up; exit 7' ` + name + `; echo ready; while :; do sleep 0.02; done`
					run := launch(t, on.run(t, "-c", line))
					run.out.expect(t, "ready", 1)
					send(t, run, sig)
					if got := run.code(t); got != "7" {
						t.Errorf("exit code %s, want the command's 7", got)
					}
					run.out.expect(t, "cleaned up", 1)
				})
			}
		})
	}
}

// A command that does not care for signals ends by the first one.
func TestSignalEndsAnOrdinaryCommand(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			for sig, want := range map[syscall.Signal]string{syscall.SIGINT: "130", syscall.SIGTERM: "143"} {
				run := launch(t, on.run(t, "-c", "echo ready; exec sleep 1000"))
				run.out.expect(t, "ready", 1)
				send(t, run, sig)
				if got := run.code(t); got != want {
					t.Errorf("%v: exit code %s, want %s", sig, got, want)
				}
			}
		})
	}
}

// The second Ctrl-C kills the command and all it started, also what hid.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			for _, pair := range [][2]syscall.Signal{
				{syscall.SIGINT, syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGTERM, syscall.SIGINT},
			} {
				t.Run(pair[0].String()+", "+pair[1].String(), func(t *testing.T) {
					t.Parallel()
					hidden := unique(t)
					line := `(setsid env -i sh -c 'trap "" TERM INT; sleep ` + hidden + `' &) ; ` + trapping
					run := launch(t, on.run(t, "-c", line))
					run.out.expect(t, "ready", 1)
					send(t, run, pair[0])
					run.out.expect(t, "got-", 1)
					send(t, run, pair[1])
					if got := run.code(t); got != "137" {
						t.Errorf("exit code %s, want 137", got)
					}
					gone(t, hidden)
					if !strings.Contains(run.err.String(), "killed") {
						t.Errorf("standard error does not say that it was killed: %q", run.err)
					}
				})
			}
		})
	}
}

// Signals that programs use among themselves are passed on and do not count.
func TestOtherSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			run := launch(t, on.run(t, "-c", trapping))
			run.out.expect(t, "ready", 1)
			for n := range 3 {
				send(t, run, syscall.SIGUSR1)
				run.out.expect(t, "got-USR1", n+1)
			}
			send(t, run, syscall.SIGUSR2)
			run.out.expect(t, "got-USR2", 1)
			send(t, run, syscall.SIGINT)
			run.out.expect(t, "got-INT", 1)
			send(t, run, syscall.SIGINT)
			if got := run.code(t); got != "137" {
				t.Errorf("exit code %s, want 137", got)
			}
		})
	}
}

// What was ignored when pinfold began stays ignored, as nohup means it.
func TestNohupIsRespected(t *testing.T) {
	t.Parallel()
	cmd := pinfold(t, "run", "--backend", "process", "-c", trapping)
	nohup := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `trap '' HUP; exec "$@"`, "sh"}, cmd.Args...)...)
	nohup.Env = cmd.Env
	run := launch(t, nohup)
	run.out.expect(t, "ready", 1)
	send(t, run, syscall.SIGHUP)
	send(t, run, syscall.SIGUSR1) // delivered after it, so that would have been first
	run.out.expect(t, "got-USR1", 1)
	if strings.Contains(run.out.String(), "got-HUP") {
		t.Error("a hang-up that was to be ignored reached the command")
	}
	send(t, run, syscall.SIGTERM)
	run.out.expect(t, "got-TERM", 1)
	send(t, run, syscall.SIGTERM)
	run.code(t)
}

// A pinfold that is killed leaves nothing behind.
func TestKilledPinfoldLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			hidden := unique(t)
			line := `(setsid sh -c 'trap "" TERM HUP INT; sleep ` + hidden + `' &) ; ` + trapping
			run := launch(t, on.run(t, "-c", line))
			run.out.expect(t, "ready", 1)
			send(t, run, syscall.SIGKILL)
			run.code(t)
			goneSoon(t, hidden)
		})
	}
}

// A reader that has stopped reading does not keep a killed command's pinfold.
func TestSecondSignalEndsARunThatNobodyReads(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			cmd := on.run(t, "-c", "yes & trap 'echo got-INT >&2' INT; echo ready >&2; while :; do sleep 0.02; done")
			unread, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unread.Close() }() // Wait closes it as well.
			run := launch(t, cmd)
			run.err.expect(t, "ready", 1)
			send(t, run, syscall.SIGINT)
			run.err.expect(t, "got-INT", 1) // two that come together have no order
			send(t, run, syscall.SIGTERM)
			if got := run.code(t); got != "137" {
				t.Errorf("exit code %s, want 137", got)
			}
		})
	}
}

// A signal while pinfold is still making the sandbox ends it, and what was made
// is removed.
func TestSignalWhileStarting(t *testing.T) {
	t.Parallel()
	requireEngine(t)
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGINT: "130", syscall.SIGTERM: "143", syscall.SIGHUP: "129", syscall.SIGKILL: "signal: killed",
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			label := "pinfold-cli-test=" + unique(t)
			left := noSandboxes
			if sig == syscall.SIGKILL {
				left = noneStarted
			}
			t.Cleanup(func() { left(t, label) })
			run := launch(t, pinfold(t, "run", "--label", label, "--", "sleep", "1000"))
			sandboxAppears(t, label)
			send(t, run, sig)
			if got := run.code(t); got != want {
				t.Errorf("exit code %s, want %s; it says %q", got, want, run.err)
			}
		})
	}
}

func send(t *testing.T, run *running, sig syscall.Signal) {
	t.Helper()
	if err := run.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
