package executiontest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// broken makes a start hook out of a change to the command.
func (w *world) command(change func(cmd *execution.Command)) {
	w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
		change(&cmd)
		return next(ctx, cmd)
	}
}

// status makes a wait hook out of a change to the outcome.
func (w *world) status(change func(p *brokenProcess, status *execution.ExitStatus, err *error)) {
	w.wait = func(ctx context.Context, p *brokenProcess) (execution.ExitStatus, error) {
		status, err := p.Process.Wait(ctx)
		change(p, &status, &err)
		return status, err
	}
}

// A writerFunc is a function that writes.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// impatient shortens the watchdog, for faults that keep the processor busy
// until it barks.
func impatient(h *executiontest.Harness) { h.Timeout = 3 * time.Second }

func outputFaults() []fault {
	filter := func(change func(w io.Writer, p []byte) []byte) func(w *world) {
		return func(w *world) {
			w.command(func(cmd *execution.Command) {
				out := cmd.Stdout
				if out == nil {
					return
				}
				cmd.Stdout = writerFunc(func(p []byte) (int, error) {
					_, err := out.Write(change(out, p))
					return len(p), err
				})
			})
		}
	}
	return []fault{
		{
			name: "last byte lost", cases: []string{"output/separate", "output/short_commands_lose_nothing", "stdin/passed_on_in_full"},
			make: filter(func(_ io.Writer, p []byte) []byte { return p[:len(p)-1] }),
		},
		{
			name: "invalid UTF-8 replaced", cases: []string{"output/all_bytes", "output/arguments_are_data"},
			make: filter(func(_ io.Writer, p []byte) []byte { return bytes.ToValidUTF8(p, []byte("?")) }),
		},
		{
			name: "frame headers left in", cases: []string{"output/separate", "output/all_bytes", "ending/output_limit"},
			make: filter(func(_ io.Writer, p []byte) []byte { return slices.Concat([]byte{1, 0, 0, 0}, p) }),
		},
		{
			name: "streams mixed", cases: []string{"output/separate", "output/both_streams_in_full"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					if cmd.TTY == nil {
						cmd.Stderr = cmd.Stdout
					}
				})
			},
		},
		{
			name: "output kept until the end", cases: []string{"output/streamed", "stdin/interactive"}, told: "hangs",
			make: func(w *world) {
				kept := map[execution.Process]func(){}
				var mu sync.Mutex
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					var buf bytes.Buffer
					out := cmd.Stdout
					cmd.Stdout = &buf
					p, err := next(ctx, cmd)
					mu.Lock()
					defer mu.Unlock()
					kept[p] = func() {
						if out != nil {
							_, _ = out.Write(buf.Bytes())
						}
					}
					return p, err
				}
				w.status(func(p *brokenProcess, _ *execution.ExitStatus, err *error) {
					mu.Lock()
					defer mu.Unlock()
					if flush := kept[p.Process]; *err == nil && flush != nil {
						flush()
						delete(kept, p.Process)
					}
				})
			},
		},
		{
			name: "all output held in memory", cases: []string{"output/host_memory_is_bounded"}, told: "heap",
			make: func(w *world) {
				var held bytes.Buffer
				filter(func(_ io.Writer, p []byte) []byte { held.Write(p); return p })(w)
			},
		},
		{
			name: "writer called after Wait", cases: []string{"output/drained_before_wait_returns"}, told: "after Wait",
			make: func(w *world) {
				var earlier io.Writer
				w.command(func(cmd *execution.Command) {
					if earlier != nil {
						_, _ = earlier.Write([]byte("late"))
					}
					earlier = cmd.Stdout
				})
			},
		},
		{
			name: "writer called by two at once", cases: []string{"output/both_streams_in_full"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					out := cmd.Stdout
					cmd.Stdout = writerFunc(func(p []byte) (int, error) {
						var both sync.WaitGroup
						for _, half := range [][]byte{p[:len(p)/2], p[len(p)/2:]} {
							both.Go(func() {
								for piece := range slices.Chunk(half, 64) {
									_, _ = out.Write(piece)
									runtime.Gosched()
								}
							})
						}
						both.Wait()
						return len(p), nil
					})
				})
			},
		},
		{
			name: "writer's error swallowed", told: "hangs",
			cases: []string{"output/failing_writer_ends_the_command", "output/short_write_ends_the_command"},
			make:  filter(func(_ io.Writer, p []byte) []byte { return nil }),
		},
		{
			name: "one slow writer blocks all", cases: []string{"output/slow_writer_slows_the_command", "concurrency/slow_command_blocks_nobody"},
			told: "hangs",
			make: func(w *world) {
				turn := make(chan struct{}, 1)
				filter(func(out io.Writer, p []byte) []byte {
					select {
					case turn <- struct{}{}:
					case <-w.stop:
						return nil
					}
					_, _ = out.Write(p)
					<-turn
					return nil
				})(w)
			},
		},
		{
			name: "writers that read get nothing", cases: []string{"output/writer_that_reads_for_itself"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					if _, reads := cmd.Stdout.(io.ReaderFrom); reads {
						cmd.Stdout = nil
					}
				})
			},
		},
		{
			name: "output of a terminal counted in blocks", cases: []string{"tty/output_limit"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					if cmd.TTY != nil {
						cmd.OutputLimit = max(1, cmd.OutputLimit-4096)
					}
				})
			},
		},
		{
			name: "bytes not counted", cases: []string{"output/separate", "output/drained_before_wait_returns"}, told: "count",
			make: func(w *world) {
				w.status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) { s.StdoutBytes = 0 })
			},
		},
	}
}

func endingFaults() []fault {
	status := func(change func(p *brokenProcess, s *execution.ExitStatus, err *error)) func(*world) {
		return func(w *world) { w.status(change) }
	}
	become := func(from execution.Ending, to execution.ExitStatus) func(*world) {
		return status(func(_ *brokenProcess, s *execution.ExitStatus, err *error) {
			if s.Ending == from {
				*s, *err = to, nil
			}
		})
	}
	zero := execution.ExitStatus{Ending: execution.EndingExited}
	return []fault{
		{
			name: "exit 0 invented for a lost sandbox", cases: []string{"death/pending_wait", "death/later_calls"},
			make: become(execution.EndingLost, zero),
		},
		{
			name: "exit 0 invented for a signal", cases: []string{"ending/signals", "kill/signal"},
			make: become(execution.EndingSignalled, zero),
		},
		{
			name: "127 becomes 0", cases: []string{"output/short_commands_lose_nothing", "ending/exit_codes"},
			make: status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) {
				if s.Code == 127 {
					s.Code = 0
				}
			}),
		},
		{
			name: "137 taken for a kill", cases: []string{"ending/exit_codes"},
			make: status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) {
				if s.Code == 137 {
					s.Ending, s.Signal, s.Code = execution.EndingSignalled, execution.SIGKILL, -1
				}
			}),
		},
		{
			name: "timeout told as a signal", cases: []string{"ending/timeout", "kill/tree_by_timeout"},
			make: become(execution.EndingTimedOut, execution.ExitStatus{Ending: execution.EndingSignalled, Signal: 9, Code: -1}),
		},
		{
			name: "timeout ignored", cases: []string{"ending/timeout", "ending/timeout_with_output_held_open"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.Timeout = 0 }) },
		},
		{
			name: "timeout kills the sandbox", cases: []string{"ending/timeout_leaves_the_sandbox"},
			make: status(func(p *brokenProcess, s *execution.ExitStatus, _ *error) {
				if s.Ending == execution.EndingTimedOut {
					_ = p.handle.Handle.Destroy(context.Background())
				}
			}),
		},
		{
			name: "a hidden timeout", cases: []string{"ending/closed_output_is_no_end"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.Timeout = 100 * time.Millisecond }) },
		},
		{
			name: "output limit overshot", cases: []string{"ending/output_limit"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.OutputLimit += 4096 }) },
		},
		{
			name: "output limit for each stream", cases: []string{"ending/output_limit_over_both_streams"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.OutputLimit *= 2 }) },
		},
		{
			name: "output limit one too low", cases: []string{"ending/output_limit_not_reached", "ending/output_limit_over_both_streams"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.OutputLimit-- }) },
		},
		{
			name: "only one may wait", cases: []string{"ending/many_waiters"},
			make: func(w *world) {
				w.status(func(p *brokenProcess, s *execution.ExitStatus, err *error) {
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.waited {
						*s, *err = execution.ExitStatus{}, errors.New("waited already")
					}
					p.waited = true
				})
			},
		},
		{
			name: "an ending invented when Wait gives up", cases: []string{"ending/wait_gives_up"},
			make: status(func(_ *brokenProcess, s *execution.ExitStatus, err *error) {
				if errors.Is(*err, context.DeadlineExceeded) {
					s.Ending = execution.EndingTimedOut
				}
			}),
		},
		{
			name: "the command ends with Start's context", cases: []string{"ending/start_context_bounds_the_start"},
			make: func(w *world) {
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					p, err := next(ctx, cmd)
					if err == nil {
						late := context.WithoutCancel(ctx)
						context.AfterFunc(ctx, func() { _ = p.Kill(late) })
					}
					return p, err
				}
			},
		},
		{
			name: "starts in spite of an ended context", cases: []string{"ending/start_with_ended_context"},
			make: func(w *world) {
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					return next(context.WithoutCancel(ctx), cmd)
				}
			},
		},
		{
			name: "a missing program is an exit code", cases: []string{"ending/command_not_found"},
			make: func(w *world) {
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					p, err := next(ctx, cmd)
					if errors.Is(err, execution.ErrCommandNotFound) {
						return next(ctx, execution.Command{Args: []string{"print", "", "not found", "127"}})
					}
					return p, err
				}
			},
		},
		{
			name: "no shell reads as not found", cases: []string{"ending/no_shell"},
			make: startErrorBecomes(execution.ErrNoShell, execution.ErrCommandNotFound),
		},
		{
			name: "cannot be run reads as not found", cases: []string{"ending/command_cannot_run"},
			make: startErrorBecomes(execution.ErrCannotRun, execution.ErrCommandNotFound),
		},
	}
}

// startErrorBecomes replaces one error of Start with another.
func startErrorBecomes(from, to error) func(*world) {
	return func(w *world) {
		w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
			p, err := next(ctx, cmd)
			if errors.Is(err, from) {
				err = &execution.Error{Op: "start", Err: to}
			}
			return p, err
		}
	}
}
