package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// soon is the timeout of commands that are meant to run into it.
const soon = 300 * time.Millisecond

func endingCases() []check {
	return []check{
		{"exit_codes", endingExitCodes},
		{"signals", endingSignals},
		{"timeout", endingTimeout},
		{"timeout_with_output_held_open", endingTimeoutHeld},
		{"timeout_leaves_the_sandbox", endingTimeoutSandbox},
		{"timeout_not_reached", endingTimeoutUnused},
		{"output_limit", endingOutputLimit},
		{"output_limit_over_both_streams", endingOutputLimitBoth},
		{"output_limit_not_reached", endingOutputLimitUnused},
		{"cancelled_by_kill", endingKilled},
		{"cancelled_by_context", endingContext},
		{"closed_output_is_no_end", endingMute},
		{"times", endingTimes},
		{"many_waiters", endingManyWaiters},
		{"wait_gives_up", endingWaitGivesUp},
		{"start_context_bounds_the_start", endingStartContext},
		{"start_with_ended_context", endingStartEnded},
		{"command_not_found", endingNotFound},
		{"command_cannot_run", endingCannotRun},
		{"invalid_command", endingInvalid},
		{"no_shell", endingNoShell},
	}
}

func endingExitCodes(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 128, 130, 137, 143, 255} {
		result := e.exec(ctx, h, e.command(Print, "", "", fmt.Sprint(code)))
		e.wantExit(result.ExitStatus, code)
		if result.Success() != (code == 0) {
			e.Errorf("exit code %d: Success is %v", code, result.Success())
		}
	}
}

func endingSignals(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, sig := range []execution.Signal{
		execution.SIGHUP, execution.SIGINT, execution.SIGKILL, execution.SIGUSR1, 13, execution.SIGTERM,
	} {
		result := e.exec(ctx, h, e.command(Raise, fmt.Sprint(int(sig))))
		e.wantEnding(result.ExitStatus, execution.EndingSignalled)
		if result.Signal != sig {
			e.Errorf("the command ended by %v, reported as %v", sig, result.Signal)
		}
	}
}

func endingTimeout(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Sleep)
	cmd.Timeout = soon
	result := e.exec(ctx, h, cmd)
	e.wantEnding(result.ExitStatus, execution.EndingTimedOut)
	if result.Duration < soon {
		e.Errorf("timed out after %v, before the timeout of %v", result.Duration, soon)
	}
}

func endingTimeoutHeld(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{}
	cmd := e.command(Group)
	cmd.Stdout, cmd.Timeout = out, time.Second
	status := e.wait(ctx, e.start(ctx, h, cmd))
	out.close()
	e.wantEnding(status, execution.EndingTimedOut)
	out.check(e)
	if alive := e.alive(ctx, h, e.pids(out.text())); len(alive) > 0 {
		e.Errorf("alive after the timeout: processes %v", alive)
	}
}

func endingTimeoutSandbox(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "kept", "content")
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	beside := e.command(Cat)
	out := &tape{}
	beside.Stdin, beside.Stdout = in, out
	proc := e.start(ctx, h, beside)

	cmd := e.command(Sleep)
	cmd.Timeout = soon
	e.wantEnding(e.exec(ctx, h, cmd).ExitStatus, execution.EndingTimedOut)

	if _, err := io.WriteString(feed, "still here\n"); err != nil {
		e.Fatal(err)
	}
	out.awaitText(ctx, e, "still here\n")
	_ = feed.Close()
	e.wantExit(e.wait(ctx, proc), 0)
	if got := e.read(ctx, h, "kept"); got != "content" {
		e.Errorf("a file reads as %q after a timeout", got)
	}
	if err := h.Err(); err != nil {
		e.Errorf("the handle died of a command's timeout: %v", err)
	}
}

func endingTimeoutUnused(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Print, "done", "", "5")
	cmd.Timeout = time.Hour
	e.wantExit(e.exec(ctx, h, cmd).ExitStatus, 5)
}

func endingOutputLimit(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const limit = 100_001
	out := &tape{}
	cmd := e.command(Flood)
	cmd.Stdout, cmd.OutputLimit = out, limit
	status := e.wait(ctx, e.start(ctx, h, cmd))
	e.wantEnding(status, execution.EndingOutputLimit)
	if out.size() != limit || status.StdoutBytes != limit {
		e.Errorf("the writer got %d bytes and %d were counted, want the limit of %d", out.size(), status.StdoutBytes, limit)
	}
	if want := strings.Repeat("y\n", limit/2+1)[:limit]; out.text() != want {
		e.Error("the output up to the limit is not what was written")
	}
}

func endingOutputLimitBoth(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const n = 1000
	var size int64
	for i := 1; i <= 2*n; i++ {
		size += int64(len(fmt.Sprintln(i)))
	}
	cmd := e.command(Count, fmt.Sprint(n))
	cmd.OutputLimit = size - 1
	result := e.exec(ctx, h, cmd)
	e.wantEnding(result.ExitStatus, execution.EndingOutputLimit)
	if got := result.StdoutBytes + result.StderrBytes; got > size-1 {
		e.Errorf("%d bytes came through a limit of %d", got, size-1)
	}
	cmd.OutputLimit = size
	e.wantExit(e.exec(ctx, h, cmd).ExitStatus, 0)
}

func endingOutputLimitUnused(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Print, "12345", "67890", "0")
	cmd.OutputLimit = 10
	result := e.exec(ctx, h, cmd)
	e.wantExit(result.ExitStatus, 0)
	if string(result.Stdout)+string(result.Stderr) != "1234567890" {
		e.Errorf("got %q and %q", result.Stdout, result.Stderr)
	}
}

func endingKilled(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.wantEnding(e.kill(ctx, e.start(ctx, h, e.command(Sleep))), execution.EndingCancelled)
}

func endingContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &tape{each: func(int64) error { cancel(); return nil }}
	cmd := e.command(Trap)
	cmd.Stdout = out
	result, err := execution.Exec(limited, h, cmd)
	if err != nil {
		e.Fatalf("Exec whose context ended: %v", err)
	}
	e.wantEnding(result.ExitStatus, execution.EndingCancelled)
}

func endingMute(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.wantExit(e.exec(ctx, h, e.command(Mute, "9")).ExitStatus, 9)
}

func endingTimes(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	before := time.Now()
	result := e.exec(ctx, h, e.command(Mute, "0"))
	if took := time.Since(before); result.Duration <= 0 || result.Duration > took {
		e.Errorf("a command's duration is %v; the call took %v", result.Duration, took)
	}
	if result.UserTime < 0 || result.SystemTime < 0 {
		e.Errorf("negative times: %v and %v", result.UserTime, result.SystemTime)
	}
}

func endingManyWaiters(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	cmd := e.command(Cat)
	cmd.Stdin = in
	proc := e.start(ctx, h, cmd)
	const waiters = 20
	statuses := make([]execution.ExitStatus, waiters+1)
	errs := make([]error, waiters+1)
	var group sync.WaitGroup
	for i := range waiters {
		group.Go(func() { statuses[i], errs[i] = proc.Wait(ctx) })
	}
	_ = feed.Close()
	group.Wait()
	statuses[waiters], errs[waiters] = proc.Wait(ctx)
	for i, status := range statuses {
		if errs[i] != nil || !status.Success() || status.Duration != statuses[0].Duration {
			e.Fatalf("waiter %d got %+v, %v; the first one got %+v", i, status, errs[i], statuses[0])
		}
	}
}

func endingWaitGivesUp(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Trap))
	limited, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	status, err := proc.Wait(limited)
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("Wait whose context ended: got the error %v", err)
	}
	if status.Ending != "" {
		e.Errorf("Wait whose context ended invents the ending %q", status.Ending)
	}
	if err := proc.Signal(ctx, execution.SIGCONT); err != nil {
		e.Errorf("the command did not go on: Signal: %v", err)
	}
	e.wantEnding(e.kill(ctx, proc), execution.EndingCancelled)
}

func endingStartContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	out := &tape{}
	cmd := e.command(Cat)
	cmd.Stdin, cmd.Stdout = in, out
	limited, cancel := context.WithCancel(ctx)
	proc := e.start(limited, h, cmd)
	cancel()
	for _, text := range []string{"first\n", "second\n"} {
		if _, err := io.WriteString(feed, text); err != nil {
			e.Fatalf("the command stopped reading: %v", err)
		}
		out.awaitText(ctx, e, text)
	}
	_ = feed.Close()
	e.wantExit(e.wait(ctx, proc), 0)
}

func endingStartEnded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	proc, err := h.Start(ended, e.command(Store, "made", "text"))
	if err == nil {
		status, err := proc.Wait(ctx)
		e.Fatalf("Start with an ended context worked: %v, %v", status, err)
	}
	if !errors.Is(err, context.Canceled) {
		e.Errorf("Start with an ended context: error %v does not match it", err)
	}
	if _, err := h.Stat(ctx, "made"); !errors.Is(err, execution.ErrNotFound) {
		e.Errorf("Start failed, and yet the command ran (Stat: %v)", err)
	}
}

// startError is the error of a command that must not start.
func startError(ctx context.Context, e *env, h execution.Handle, cmd execution.Command) error {
	e.Helper()
	proc, err := h.Start(ctx, cmd)
	if err == nil {
		status, err := proc.Wait(ctx)
		e.Fatalf("Start %s worked: %v, %v", describe(cmd), status, err)
	}
	return err
}

func endingNotFound(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, program := range []string{
		"executiontest-no-such-program", "/no/such/program", "./missing", "$(echo sh)", "sh -c true", "-c",
	} {
		err := startError(ctx, e, h, execution.Command{Args: []string{program}})
		e.wantError(err, execution.ErrCommandNotFound, fmt.Sprintf("Start %q", program))
	}
	args := e.command(Print, "", "", "0").Args
	if len(args) == 0 || strings.Contains(args[0], "/") {
		return
	}
	err := startError(ctx, e, h, execution.Command{Args: args, Env: []string{"PATH=/no/such/dir"}})
	e.wantError(err, execution.ErrCommandNotFound, "Start with a PATH that does not have it")
	e.run(ctx, h, Print, "", "", "0")
}

func endingCannotRun(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "not-executable", "text")
	garbage := strings.NewReader("\x00\x01 no program")
	if err := h.WriteFile(ctx, "garbage", garbage, execution.WriteOptions{Mode: 0o755}); err != nil {
		e.Fatal(err)
	}
	for _, program := range []string{"./not-executable", "./garbage", h.Dir() + "/not-executable", h.Dir()} {
		err := startError(ctx, e, h, execution.Command{Args: []string{program}})
		e.wantError(err, execution.ErrCannotRun, fmt.Sprintf("Start %q", program))
	}
	e.run(ctx, h, Print, "", "", "0")
}

func endingInvalid(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for name, cmd := range map[string]execution.Command{
		"nothing to run":     {},
		"both kinds":         {Args: []string{"true"}, Shell: "true"},
		"empty program":      {Args: []string{""}},
		"NUL in an argument": {Args: []string{"echo", "a\x00b"}},
		"NUL in the line":    {Shell: "echo \x00"},
		"NUL in the folder":  {Shell: "true", Dir: "a\x00b"},
		"negative timeout":   {Shell: "true", Timeout: -1},
		"negative limit":     {Shell: "true", OutputLimit: -1},
		"env without name":   {Shell: "true", Env: []string{"=x"}},
		"env without equals": {Shell: "true", Env: []string{"NAME"}},
		"NUL in the env":     {Shell: "true", Env: []string{"A=\x00"}},
	} {
		e.wantError(startError(ctx, e, h, cmd), execution.ErrInvalid, "Start with "+name)
	}
}

func endingNoShell(ctx context.Context, e *env) {
	if e.harness.NoShell == nil {
		e.Skip("the harness knows no sandbox without a shell")
	}
	h := e.spawn(ctx, *e.harness.NoShell)
	e.wantError(startError(ctx, e, h, execution.Command{Shell: "true"}), execution.ErrNoShell, "Start of a shell line")
	e.write(ctx, h, "file", "content")
	if got := e.read(ctx, h, "file"); got != "content" {
		e.Errorf("without a shell a file reads as %q", got)
	}
}
