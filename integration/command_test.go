//go:build linux

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// The command, as a user has it.

// An outcome is how a run of the command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// pinfoldRun is `pinfold run` in the plain image, with a mark to find its
// container by.
func pinfoldRun(t *testing.T, mark string, args ...string) *exec.Cmd {
	t.Helper()
	need(t)
	args = append([]string{"run", "--quiet", "--image", plainImage(t), "--label", runLabel + "=" + mark}, args...)
	return pinfoldCommand(t, args...)
}

// pinfoldCommand is the command with any arguments. It is killed when the test
// ends.
func pinfoldCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if world.broken != nil {
		t.Fatal(world.broken)
	}
	return exec.CommandContext(t.Context(), world.pinfold, args...)
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func mark() string { return world.id + "-" + uniqueName() }

func TestCommandKeepsStreamsApartAndReturnsTheExitCode(t *testing.T) {
	m := mark()
	need(t)
	got := finish(t, pinfoldRun(t, m, "-c", "echo out; echo err >&2; exit 3"))
	if want := (outcome{3, "out\n", "err\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	noContainer(t, m)
}

func TestCommandTimeoutLeavesNothingAlive(t *testing.T) {
	need(t)
	m := mark()
	// A number that nobody else's sleep has, to be looked for on this host.
	seconds := "1000" + strings.TrimLeft(fmt.Sprint(syscall.Getpid()), "0") + uniqueName()
	line := strings.ReplaceAll(`setsid env -i sh -c "sleep 1000" & sleep 1000`, "1000", seconds)
	cmd := pinfoldRun(t, m, "--timeout", "1s", "-c", line)

	done := make(chan outcome, 1)
	go func() { done <- finish(t, cmd) }()
	// Both of them are there, or their absence later proves nothing.
	eventually(t, "both sleeps run", func() error {
		if n := len(sleeping(seconds)); n < 2 {
			return fmt.Errorf("%d of them run", n)
		}
		return nil
	})
	got := <-done
	if left := sleeping(seconds); len(left) > 0 {
		t.Errorf("still alive on this host: %v", left)
	}
	if got.code != 124 {
		t.Errorf("got %+v, want exit code 124", got)
	}
	noContainer(t, m)
}

// sleeping are the processes of this host, in whatever container, that sleep
// for so long.
func sleeping(seconds string) []hostProcess {
	var found []hostProcess
	for _, p := range hostProcesses() {
		if strings.HasSuffix(p.args, "sleep "+seconds) && !strings.Contains(p.args, "run") {
			found = append(found, p)
		}
	}
	return found
}

func TestKilledHostLeavesNoContainer(t *testing.T) {
	need(t)
	m := mark()
	cmd := pinfoldRun(t, m, "--", "sleep", "100000")
	startAndWaitFor(t, cmd, m)
	gone := watchForEnd(t, m)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	<-gone
	eventually(t, "the container is removed", func() error { return stillThere(t, m) })
}

func TestInterruptedCommandLeavesNoContainer(t *testing.T) {
	need(t)
	for name, row := range map[string]struct {
		line  string
		again bool
		code  int
	}{
		"once":                     {"echo up; sleep 100000", false, 130},
		"twice, and it ignores it": {`trap "" INT TERM; echo up; while :; do sleep 1; done`, true, 137},
	} {
		t.Run(name, func(t *testing.T) {
			m := mark()
			cmd := pinfoldRun(t, m, "-c", row.line)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(stdout, make([]byte, len("up\n"))); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait() // the code says it
				close(ended)
			}()
			if row.again {
				insist(cmd.Process, ended)
			}
			<-ended
			if code := cmd.ProcessState.ExitCode(); code != row.code {
				t.Errorf("got exit code %d, want %d", code, row.code)
			}
			noContainer(t, m)
		})
	}
}

// insist interrupts a process again until it has ended. The kernel makes one of
// two signals that come at once, so that a single repetition may not be seen.
func insist(p *os.Process, ended <-chan struct{}) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_ = p.Signal(syscall.SIGINT) // it may have ended just now
		case <-ended:
			return
		}
	}
}

func TestEndOfInputReachesTheCommand(t *testing.T) {
	need(t)
	for name, row := range map[string]struct {
		flags []string
		want  string
	}{
		"without -i there is no input": {nil, "0\n"},
		"with -i it is passed on":      {[]string{"-i"}, "7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := pinfoldRun(t, mark(), append(row.flags, "--", "wc", "-c")...)
			cmd.Stdin = strings.NewReader("content")
			if got := finish(t, cmd); got.code != 0 || strings.TrimSpace(got.stdout)+"\n" != row.want {
				t.Errorf("got %+v, want %q", got, row.want)
			}
		})
	}
}

// startAndWaitFor starts the command and returns once its container runs.
func startAndWaitFor(t *testing.T, cmd *exec.Cmd, m string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command runs in its container", func() error {
		for _, c := range marked(t, world.engine, m) {
			top, err := world.engine.ContainerTop(t.Context(), c.ID, nil)
			if err == nil && strings.Contains(fmt.Sprint(top.Processes), "100000") {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

// watchForEnd returns what is closed when the container has ended.
func watchForEnd(t *testing.T, m string) <-chan struct{} {
	t.Helper()
	ended := make(chan struct{})
	list := marked(t, world.engine, m)
	if len(list) != 1 {
		t.Fatalf("there are %d containers", len(list))
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	statuses, failed := world.engine.ContainerWait(ctx, list[0].ID, container.WaitConditionNotRunning)
	go func() {
		defer cancel()
		defer close(ended)
		select {
		case <-statuses:
		case err := <-failed:
			t.Logf("it is gone already: %v", err)
		}
	}()
	return ended
}

func stillThere(t *testing.T, m string) error {
	t.Helper()
	if list := marked(t, world.engine, m); len(list) > 0 {
		return fmt.Errorf("there is %.12s: %s", list[0].ID, list[0].Status)
	}
	return nil
}

func noContainer(t *testing.T, m string) {
	t.Helper()
	if err := stillThere(t, m); err != nil {
		t.Error(err)
	}
}

func contains(text, word string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(word))
}
