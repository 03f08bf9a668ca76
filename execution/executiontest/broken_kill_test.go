package executiontest_test

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

func killFaults() []fault {
	return []fault{
		{
			name: "only the process group dies", cases: []string{"kill/tree", "kill/many_trees", "kill/no_grace"}, told: "alive",
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					err := p.Signal(ctx, execution.SIGKILL)
					_, _ = p.Wait(ctx)
					return err
				}
			},
		},
		{
			name: "a timeout kills only the group", cases: []string{"kill/tree_by_timeout"}, told: "alive",
			make: func(w *world) {
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					timeout := cmd.Timeout
					cmd.Timeout = 0
					p, err := next(ctx, cmd)
					if err == nil && timeout > 0 {
						late := context.WithoutCancel(ctx)
						time.AfterFunc(timeout, func() { _ = p.Signal(late, execution.SIGKILL) })
					}
					return p, err
				}
			},
		},
		{
			name: "SIGKILL comes first", cases: []string{"kill/term_comes_first", "kill/term_comes_first_at_timeout"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.Grace = -1 }) },
		},
		{
			name: "SIGKILL never comes", cases: []string{"kill/tree", "kill/no_grace", "kill/tree_by_timeout"}, told: "hangs",
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.Grace = 24 * time.Hour }) },
		},
		{
			name: "a kill hits the whole sandbox", cases: []string{"kill/only_its_own_tree", "leftovers/are_killed_on_demand"},
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					err := p.Process.Kill(ctx)
					p.handle.killAll(ctx)
					return err
				}
			},
		},
		{
			name: "a kill returns too soon", cases: []string{"kill/tree", "kill/by_many"}, told: "alive",
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					go func() { _ = p.Process.Kill(ctx) }()
					return nil
				}
			},
		},
		{
			name: "killing what has ended is an error", cases: []string{"kill/what_has_ended"},
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					return p.Signal(ctx, execution.SIGKILL)
				}
			},
		},
		{
			name: "signals vanish", cases: []string{"kill/signal", "kill/signal_reaches_the_group"}, told: "hangs",
			make: func(w *world) {
				w.signal = func(context.Context, *brokenProcess, execution.Signal) error { return nil }
			},
		},
		{
			name: "a signal after the end is no error", cases: []string{"kill/signal_after_the_end"},
			make: func(w *world) {
				w.signal = func(ctx context.Context, p *brokenProcess, sig execution.Signal) error {
					if err := p.Process.Signal(ctx, sig); !errors.Is(err, execution.ErrFinished) {
						return err
					}
					return nil
				}
			},
		},
		{
			name: "any number is a signal", cases: []string{"kill/signal_invalid"},
			make: func(w *world) {
				w.signal = func(ctx context.Context, p *brokenProcess, sig execution.Signal) error {
					return p.Process.Signal(ctx, min(max(sig, 17), 17))
				}
			},
		},
		{
			name: "a background child holds the call", cases: []string{"leftovers/do_not_hold_the_call", "leftovers/that_write_for_ever"},
			told: "hangs", change: impatient,
			make: func(w *world) {
				w.wait = func(ctx context.Context, p *brokenProcess) (execution.ExitStatus, error) {
					status, err := p.Process.Wait(ctx)
					for len(p.handle.own().Processes()) > 0 && ctx.Err() == nil {
						time.Sleep(10 * time.Millisecond)
					}
					return status, err
				}
			},
		},
		{
			name: "leftovers not reported", cases: []string{"leftovers/do_not_hold_the_call", "leftovers/that_write_for_ever"},
			make: func(w *world) {
				w.status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) { s.Leftovers = nil })
			},
		},
		{
			name: "leftovers die at once", cases: []string{"leftovers/do_not_hold_the_call", "leftovers/live_until_the_handle_goes"},
			make: func(w *world) {
				w.status(func(p *brokenProcess, s *execution.ExitStatus, _ *error) {
					if len(s.Leftovers) > 0 {
						_ = p.Process.Kill(context.Background())
					}
				})
			},
		},
		{
			name: "leftovers survive a kill", cases: []string{"leftovers/are_killed_on_demand"}, told: "alive",
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					if status, err := p.Process.Wait(ctx); err == nil && len(status.Leftovers) > 0 {
						return nil
					}
					return p.Process.Kill(ctx)
				}
			},
		},
		{
			name: "output of what is left running is passed on", cases: []string{"leftovers/that_write_for_ever"}, told: "after Wait",
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error {
					_, _ = p.cmd.Stdout.Write([]byte("late"))
					return p.Process.Kill(ctx)
				}
			},
		},
		{
			name: "the command is cut off with its leftovers", cases: []string{"leftovers/do_not_cut_off_the_command"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					out, left := cmd.Stdout, 50_000
					if out == nil {
						return
					}
					cmd.Stdout = writerFunc(func(p []byte) (int, error) {
						take := min(left, len(p))
						left -= take
						_, err := out.Write(p[:take])
						return len(p), err
					})
				})
			},
		},
		{
			name: "short-lived children are not heard", cases: []string{"leftovers/that_end_in_time_lose_nothing"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) { cmd.Stdout = io.Discard })
			},
		},
	}
}

// own is the fake behind a handle.
func (h *brokenHandle) own() *fake.Handle { return h.Handle.(*fake.Handle) }

// killAll kills all commands of the sandbox.
func (h *brokenHandle) killAll(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.started {
		_ = p.Kill(ctx)
	}
}
