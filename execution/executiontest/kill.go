package executiontest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func killCases() []check {
	return []check{
		{"group", killGroup},
		{"tree", killTree},
		{"tree_by_timeout", killTreeByTimeout},
		{"tree_by_context", killTreeByContext},
		{"term_comes_first", killTermFirst},
		{"term_comes_first_at_timeout", killTermFirstTimeout},
		{"no_grace", killNoGrace},
		{"stopped_command", killStopped},
		{"only_its_own_tree", killOnlyOwn},
		{"what_has_ended", killEnded},
		{"by_many", killByMany},
		{"many_trees", killManyTrees},
		{"signal", killSignal},
		{"signal_reaches_the_group", killSignalGroup},
		{"signal_after_the_end", killSignalEnded},
		{"signal_invalid", killSignalInvalid},
	}
}

// provenKill skips the case unless the backend promises to find every
// descendant.
func (e *env) provenKill() {
	e.Helper()
	if !e.can().ProvenKill {
		e.Skip("the backend does not declare ProvenKill")
	}
}

func (e *env) wantDead(ctx context.Context, h execution.Handle, pids []int, when string) {
	e.Helper()
	if alive := e.alive(ctx, h, pids); len(alive) > 0 {
		e.Errorf("alive %s: %v of the processes %v", when, alive, pids)
	}
}

func (e *env) wantAlive(ctx context.Context, h execution.Handle, pids []int, when string) {
	e.Helper()
	if alive := e.alive(ctx, h, pids); len(alive) != len(pids) {
		e.Fatalf("alive %s: only %v of the processes %v", when, alive, pids)
	}
}

func killGroup(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc, pids := e.grow(ctx, h, e.command(Group), 2)
	e.wantAlive(ctx, h, pids, "before the kill")
	status := e.kill(ctx, proc)
	e.wantDead(ctx, h, pids, "after Kill")
	e.wantEnding(status, execution.EndingCancelled)
}

func killTree(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	proc, pids := e.grow(ctx, h, e.command(Tree), TreeSize)
	e.wantAlive(ctx, h, pids, "before the kill")
	if err := proc.Kill(ctx); err != nil {
		e.Fatalf("Kill: %v", err)
	}
	e.wantDead(ctx, h, pids, "when Kill returned")
	e.wantEnding(e.wait(ctx, proc), execution.EndingCancelled)
}

func killTreeByTimeout(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	cmd := e.command(Tree)
	cmd.Timeout = 2 * time.Second
	proc, pids := e.grow(ctx, h, cmd, TreeSize)
	status := e.wait(ctx, proc)
	e.wantDead(ctx, h, pids, "after the timeout")
	e.wantEnding(status, execution.EndingTimedOut)
	if len(status.Leftovers) > 0 {
		e.Errorf("left over after the timeout: %v", status.Leftovers)
	}
}

func killTreeByContext(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &tape{}
	out.each = func(int64) error {
		if strings.Count(out.text(), "\n") == TreeSize {
			cancel()
		}
		return nil
	}
	cmd := e.command(Tree)
	cmd.Stdout = out
	result, err := execution.Exec(limited, h, cmd)
	if err != nil {
		e.Fatalf("Exec: %v", err)
	}
	e.wantDead(ctx, h, e.pids(out.text()), "when Exec returned")
	e.wantEnding(result.ExitStatus, execution.EndingCancelled)
}

func killTermFirst(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{}
	cmd := e.command(Trap)
	cmd.Stdout, cmd.Grace = out, time.Hour
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "ready\n")
	status := e.kill(ctx, proc)
	e.wantEnding(status, execution.EndingCancelled)
	if want := "ready\nterm\n"; out.text() != want {
		e.Errorf("a command that handles SIGTERM wrote %q, want %q", out.text(), want)
	}
}

func killTermFirstTimeout(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{}
	cmd := e.command(Trap)
	cmd.Stdout, cmd.Grace, cmd.Timeout = out, time.Hour, 2*time.Second
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "ready\n")
	e.wantEnding(e.wait(ctx, proc), execution.EndingTimedOut)
	if want := "ready\nterm\n"; out.text() != want {
		e.Errorf("a command that handles SIGTERM wrote %q, want %q", out.text(), want)
	}
}

func killNoGrace(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	cmd := e.command(Tree)
	cmd.Grace = -1
	proc, pids := e.grow(ctx, h, cmd, TreeSize)
	status := e.kill(ctx, proc)
	e.wantDead(ctx, h, pids, "after Kill")
	e.wantEnding(status, execution.EndingCancelled)
}

func killStopped(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc, pids := e.grow(ctx, h, e.command(Group), 2)
	if err := proc.Signal(ctx, execution.SIGSTOP); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	e.wantEnding(e.kill(ctx, proc), execution.EndingCancelled)
	e.wantDead(ctx, h, pids, "after Kill")
}

func killOnlyOwn(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	out := &tape{}
	cmd := e.command(Cat)
	cmd.Stdin, cmd.Stdout = in, out
	beside := e.start(ctx, h, cmd)
	other, others := e.grow(ctx, h, e.command(Group), 2)
	proc, _ := e.grow(ctx, h, e.command(Group), 2)
	e.kill(ctx, proc)

	e.wantAlive(ctx, h, others, "after another command was killed")
	if _, err := io.WriteString(feed, "still here\n"); err != nil {
		e.Fatal(err)
	}
	out.awaitText(ctx, e, "still here\n")
	_ = feed.Close()
	e.wantExit(e.wait(ctx, beside), 0)
	e.kill(ctx, other)
}

func killEnded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Print, "", "", "4"))
	e.wantExit(e.wait(ctx, proc), 4)
	for range 2 {
		if err := proc.Kill(ctx); err != nil {
			e.Errorf("Kill of a command that has ended: %v", err)
		}
	}
	e.wantExit(e.wait(ctx, proc), 4)
}

func killByMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	script, size := Group, 2
	if e.can().ProvenKill {
		script, size = Tree, TreeSize
	}
	proc, pids := e.grow(ctx, h, e.command(script), size)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := proc.Kill(ctx); err != nil {
				e.Errorf("Kill by one of many: %v", err)
			}
		})
	}
	group.Wait()
	e.wantDead(ctx, h, pids, "after Kill")
	e.wantEnding(e.wait(ctx, proc), execution.EndingCancelled)
}

func killManyTrees(ctx context.Context, e *env) {
	e.provenKill()
	h := e.sandbox(ctx)
	var procs []execution.Process
	var pids []int
	for range quantity(10, 4) {
		proc, more := e.grow(ctx, h, e.command(Tree), TreeSize)
		procs, pids = append(procs, proc), append(pids, more...)
	}
	e.wantAlive(ctx, h, pids, "before the kill")
	var group sync.WaitGroup
	for _, proc := range procs {
		group.Go(func() {
			if err := proc.Kill(ctx); err != nil {
				e.Errorf("Kill: %v", err)
			}
		})
	}
	group.Wait()
	e.wantDead(ctx, h, pids, "after all were killed at once")
	for _, proc := range procs {
		e.wantEnding(e.wait(ctx, proc), execution.EndingCancelled)
	}
}

func killSignal(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{}
	cmd := e.command(Trap)
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "ready\n")
	if err := proc.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	e.wantExit(e.wait(ctx, proc), 7)
	if want := "ready\nterm\n"; out.text() != want {
		e.Errorf("a command that handles SIGTERM wrote %q, want %q", out.text(), want)
	}

	for _, sig := range []execution.Signal{execution.SIGUSR1, execution.SIGKILL} {
		proc := e.start(ctx, h, e.command(Sleep))
		if err := proc.Signal(ctx, sig); err != nil {
			e.Fatalf("Signal: %v", err)
		}
		status := e.wait(ctx, proc)
		e.wantEnding(status, execution.EndingSignalled)
		if status.Signal != sig {
			e.Errorf("sent %v, reported %v", sig, status.Signal)
		}
	}
}

func killSignalGroup(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc, pids := e.grow(ctx, h, e.command(Group), 2)
	if err := proc.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	status := e.wait(ctx, proc)
	e.wantEnding(status, execution.EndingSignalled)
	// Wait follows the leader; the child got the same signal and is on its way.
	e.eventually(ctx, "the whole group ends", func() bool { return len(e.alive(ctx, h, pids)) == 0 })
}

func killSignalEnded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Print, "", "", "0"))
	e.wait(ctx, proc)
	e.wantError(proc.Signal(ctx, execution.SIGTERM), execution.ErrFinished, "Signal after the end")
}

func killSignalInvalid(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Sleep))
	for _, sig := range []execution.Signal{0, -1, -9, 65, 1 << 30} {
		e.wantError(proc.Signal(ctx, sig), execution.ErrInvalid, fmt.Sprintf("Signal %d", int(sig)))
	}
	e.kill(ctx, proc)
}
