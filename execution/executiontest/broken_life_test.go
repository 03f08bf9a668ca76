package executiontest_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// spawns makes a spawn hook out of a change to the spec.
func spawns(change func(*execution.Spec)) func(*world) {
	return func(w *world) {
		w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
			asked := spec
			change(&spec)
			w.spec = func(s execution.Spec) execution.Spec {
				asked.Dir, asked.Env = s.Dir, nil
				return asked
			}
			return next(ctx, spec)
		}
	}
}

func lifeFaults() []fault {
	destroy := func(f func(ctx context.Context, h *brokenHandle) error) func(*world) {
		return func(w *world) { w.destroy = f }
	}
	return []fault{
		{
			name: "destroy not idempotent", cases: []string{"destroy/idempotent", "destroy/later_calls_fail", "destroy/by_many_at_once"},
			make: destroy(func(ctx context.Context, h *brokenHandle) error {
				h.mu.Lock()
				again := h.destroyed
				h.destroyed = true
				h.mu.Unlock()
				if again {
					return errors.New("no such container")
				}
				return h.Handle.Destroy(ctx)
			}),
		},
		{
			name: "destroy does nothing", cases: []string{"destroy/idempotent", "destroy/during_commands"},
			make: destroy(func(context.Context, *brokenHandle) error { return nil }),
		},
		{
			name: "destroy returns too soon", cases: []string{"destroy/by_many_at_once"}, told: "Done is open",
			make: destroy(func(ctx context.Context, h *brokenHandle) error {
				h.mu.Lock()
				again := h.destroyed
				h.destroyed = true
				h.mu.Unlock()
				if again {
					return nil
				}
				time.Sleep(time.Second)
				return h.Handle.Destroy(ctx)
			}),
		},
		{
			name: "destroy asks politely", cases: []string{"destroy/quick"},
			make: destroy(func(ctx context.Context, h *brokenHandle) error {
				select {
				case <-time.After(10 * time.Second):
					return h.Handle.Destroy(ctx)
				case <-ctx.Done():
					return ctx.Err()
				}
			}),
		},
		{
			name: "destroy gives up for good with its context", cases: []string{"destroy/with_ended_context"},
			make: destroy(func(ctx context.Context, h *brokenHandle) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.destroyed || ctx.Err() != nil {
					h.destroyed = true
					return ctx.Err()
				}
				return h.Handle.Destroy(ctx)
			}),
		},
		{
			name: "destroyed reads as lost", cases: []string{"destroy/idempotent", "destroy/close_destroys_what_lives"}, told: "does not match",
			make: func(w *world) {
				w.err = func(h execution.Handle) error {
					if h.Err() == nil {
						return nil
					}
					return &execution.Error{Op: "call", Err: execution.ErrLost}
				}
			},
		},
		{
			name: "lost reads as destroyed", cases: []string{"death/later_calls"}, told: "does not match",
			make: func(w *world) {
				w.err = func(h execution.Handle) error {
					if h.Err() == nil {
						return nil
					}
					return &execution.Error{Op: "call", Err: execution.ErrClosed}
				}
			},
		},
		{
			name: "death goes unnoticed", cases: []string{"death/later_calls", "death/destroy_afterwards", "death/the_backend_lives_on"}, told: "hangs",
			make: func(w *world) { w.done = func(execution.Handle) <-chan struct{} { return w.stop } },
		},
		{
			name: "death is not explained", cases: []string{"death/pending_wait"}, told: "reason",
			make: func(w *world) { w.status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) { s.Reason = "" }) },
		},
		{
			name: "a command hangs when its sandbox dies", cases: []string{"death/pending_wait", "death/pending_output"}, told: "hangs",
			make: func(w *world) {
				w.wait = func(ctx context.Context, p *brokenProcess) (execution.ExitStatus, error) {
					status, err := p.Process.Wait(ctx)
					if status.Ending == execution.EndingLost {
						<-ctx.Done()
						return execution.ExitStatus{}, ctx.Err()
					}
					return status, err
				}
			},
		},
		{
			name: "a failed spawn leaves a sandbox", cases: []string{"destroy/failed_spawn_leaves_nothing", "cwdenv/spawn_in_a_missing_directory"},
			told: "left",
			make: func(w *world) {
				w.close = func(func() error) error { return nil }
				w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
					h, err := next(ctx, spec)
					if err != nil {
						_, _ = next(ctx, execution.Spec{})
					}
					return h, err
				}
			},
		},
		{
			name: "the sandbox ends with Spawn's context", cases: []string{"destroy/spawn_with_ended_context"},
			make: func(w *world) {
				w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
					h, err := next(ctx, spec)
					if err == nil {
						late := context.WithoutCancel(ctx)
						context.AfterFunc(ctx, func() { _ = h.Destroy(late) })
					}
					return h, err
				}
			},
		},
		{
			name: "close leaves sandboxes", cases: []string{"destroy/close_destroys_what_lives"},
			make: func(w *world) { w.close = func(func() error) error { return nil } },
		},
		{
			name: "commands wait for each other", cases: []string{"concurrency/fifty_commands_at_once", "concurrency/slow_command_blocks_nobody"},
			told: "hangs",
			make: func(w *world) {
				turn := make(chan struct{}, 1)
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					select {
					case turn <- struct{}{}:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					p, err := next(ctx, cmd)
					if err != nil {
						<-turn
						return nil, err
					}
					go func() {
						_, _ = p.Wait(context.WithoutCancel(ctx))
						<-turn
					}()
					return p, nil
				}
			},
		},
		{
			name: "a goroutine leaked for each command", cases: []string{"ending/exit_codes", "concurrency/nothing_grows"},
			make: func(w *world) { w.command(func(*execution.Command) { go func() { <-w.stop }() }) },
		},
		{
			name: "a goroutine leaked for each sandbox", cases: []string{"ending/exit_codes", "files/roundtrip"}, told: "left behind",
			make: spawnsLeaking,
		},
		{
			name: "a file descriptor leaked for each command", cases: []string{"ending/exit_codes", "concurrency/nothing_grows"},
			make: func(w *world) {
				var mu sync.Mutex
				var held []*os.File
				w.command(func(*execution.Command) {
					f, err := os.Open(os.DevNull)
					if err == nil {
						mu.Lock()
						defer mu.Unlock()
						held = append(held, f)
					}
				})
				go func() {
					<-w.stop
					for _, f := range held {
						_ = f.Close()
					}
				}()
			},
		},
	}
}

func spawnsLeaking(w *world) {
	w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
		go func() { <-w.stop }()
		return next(ctx, spec)
	}
}
