package executiontest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func leftoverCases() []check {
	return []check{
		{"do_not_hold_the_call", leftoverHeld},
		{"that_write_for_ever", leftoverFlood},
		{"do_not_cut_off_the_command", leftoverSlowWriter},
		{"that_end_in_time_lose_nothing", leftoverPrint},
		{"are_killed_on_demand", leftoverKill},
		{"live_until_the_handle_goes", leftoverDestroy},
		{"none_after_a_plain_command", leftoverNone},
	}
}

// leave starts a command that leaves a child behind, and waits for its end.
func (e *env) leave(ctx context.Context, h execution.Handle) (proc execution.Process, child int) {
	e.Helper()
	out := &tape{}
	cmd := e.command(Leave, "")
	cmd.Stdout = out
	proc = e.start(ctx, h, cmd)
	status := e.wait(ctx, proc)
	out.close()
	e.wantExit(status, 3)
	pids := e.pids(out.text())
	if len(pids) != 1 {
		e.Fatalf("the command wrote %q, want one process ID", out.text())
	}
	if !slices.ContainsFunc(status.Leftovers, func(p execution.ProcessInfo) bool { return p.PID == pids[0] }) {
		e.Fatalf("process %d was left behind and is not among the leftovers %v", pids[0], status.Leftovers)
	}
	return proc, pids[0]
}

func leftoverHeld(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc, child := e.leave(ctx, h)
	e.wantAlive(ctx, h, []int{child}, "after the command's end")
	status := e.wait(ctx, proc)
	for _, p := range status.Leftovers {
		if p.PID == child && (p.Command == "" || len(p.Command) > 256) {
			e.Errorf("the leftover's command is %q", p.Command)
		}
	}
}

func leftoverFlood(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{limit: 1 << 20}
	cmd := e.command(LeaveFlood)
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	status := e.wait(ctx, proc)
	out.close()
	e.wantExit(status, 3)
	if len(status.Leftovers) == 0 {
		e.Error("a child that writes for ever is not among the leftovers")
	}
	if strings.Trim(out.text(), "y\n") != "" {
		e.Error("the output is not what the child wrote")
	}
	e.run(ctx, h, Print, "", "", "0")
	out.check(e)
	if err := proc.Kill(ctx); err != nil {
		e.Errorf("Kill: %v", err)
	}
	out.check(e)
}

// leftoverSlowWriter has a writer that takes longer than output is collected
// for. What the command itself wrote still arrives in full.
func leftoverSlowWriter(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	text := string(patternText(60_000))
	out := &tape{}
	seen := int64(0)
	out.each = func(total int64) error {
		time.Sleep(time.Duration(total-seen) * 25 * time.Microsecond)
		seen = total
		return nil
	}
	cmd := e.command(Leave, text)
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	status := e.wait(ctx, proc)
	out.close()
	e.wantExit(status, 3)
	if _, got, _ := strings.Cut(out.text(), "\n"); got != text {
		e.Errorf("of %d bytes that the command wrote before its end, %d arrived", len(text), len(got))
	}
	if len(status.Leftovers) == 0 {
		e.Error("the child is not among the leftovers")
	}
	e.kill(ctx, proc)
	out.check(e)
}

func leftoverPrint(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for i := range quantity(100, 20) {
		result := e.exec(ctx, h, e.command(LeavePrint, "late words"))
		e.wantExit(result.ExitStatus, 0)
		// A child that the kernel has not let run yet may still be there.
		// But one that is gone has been heard.
		if got := string(result.Stdout); len(result.Leftovers) == 0 && got != "late words" {
			e.Fatalf("run %d: nothing was left running, and yet the output is %q", i, got)
		}
	}
}

func leftoverKill(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc, child := e.leave(ctx, h)
	other, spared := e.leave(ctx, h)
	if err := proc.Kill(ctx); err != nil {
		e.Fatalf("Kill: %v", err)
	}
	e.wantDead(ctx, h, []int{child}, "after Kill")
	e.wantAlive(ctx, h, []int{spared}, "after the kill of another command")
	e.wantExit(e.wait(ctx, proc), 3)
	if err := other.Kill(ctx); err != nil {
		e.Fatalf("Kill: %v", err)
	}
	e.wantDead(ctx, h, []int{spared}, "after Kill")
}

func leftoverDestroy(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	_, child := e.leave(ctx, h)
	e.run(ctx, h, Print, "", "", "0")
	e.wantAlive(ctx, h, []int{child}, "while the handle lives")
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	if e.harness.Alive != nil && e.harness.Alive(e, h, child) {
		e.Errorf("process %d is alive after Destroy", child)
	}
}

func leftoverNone(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for range 20 {
		result := e.exec(ctx, h, e.command(Print, "x", "y", "0"))
		if len(result.Leftovers) > 0 {
			e.Fatalf("a plain command left %v", result.Leftovers)
		}
	}
}
