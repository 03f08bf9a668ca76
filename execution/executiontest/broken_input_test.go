package executiontest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

func inputFaults() []fault {
	stuck := func(w *world) io.Reader {
		return readerFunc(func([]byte) (int, error) {
			<-w.stop
			return 0, io.EOF
		})
	}
	command := func(change func(w *world, cmd *execution.Command)) func(*world) {
		return func(w *world) { w.command(func(cmd *execution.Command) { change(w, cmd) }) }
	}
	return []fault{
		{
			name: "stdin open where none was given", cases: []string{"stdin/empty_unless_given"}, told: "hangs",
			make: command(func(w *world, cmd *execution.Command) {
				if cmd.Stdin == nil {
					cmd.Stdin = stuck(w)
				}
			}),
		},
		{
			name: "end of stdin not passed on", cases: []string{"stdin/end_of_file_is_passed_on", "stdin/interactive"}, told: "hangs",
			make: command(func(w *world, cmd *execution.Command) {
				if cmd.Stdin != nil {
					cmd.Stdin = io.MultiReader(cmd.Stdin, stuck(w))
				}
			}),
		},
		{
			name: "stdin cut at 64 KiB", cases: []string{"stdin/passed_on_in_full"},
			make: command(func(_ *world, cmd *execution.Command) {
				if cmd.Stdin != nil {
					cmd.Stdin = io.LimitReader(cmd.Stdin, 64<<10)
				}
			}),
		},
		{
			name: "unread stdin is an error", cases: []string{"stdin/more_than_is_read", "stdin/never_read"},
			make: func(w *world) {
				w.status(func(p *brokenProcess, _ *execution.ExitStatus, err *error) {
					if p.cmd.Stdin != nil {
						*err = &execution.Error{Op: "wait", Err: errors.New("broken pipe")}
					}
				})
			},
		},
		{
			name: "a reader that blocks holds the call", cases: []string{"stdin/reader_that_blocks"}, told: "hangs",
			make: func(w *world) {
				w.wait = func(ctx context.Context, p *brokenProcess) (execution.ExitStatus, error) {
					status, err := p.Process.Wait(ctx)
					if p.cmd.Stdin != nil {
						<-ctx.Done()
					}
					return status, err
				}
			},
		},
		{
			name: "a reader's error is taken for its end", cases: []string{"stdin/reader_that_fails"},
			make: command(func(_ *world, cmd *execution.Command) {
				in := cmd.Stdin
				if in == nil {
					return
				}
				cmd.Stdin = readerFunc(func(p []byte) (int, error) {
					n, err := in.Read(p)
					if err != nil {
						err = io.EOF
					}
					return n, err
				})
			}),
		},
		{
			name: "directory ignored", cases: []string{"cwdenv/relative_directory", "cwdenv/absolute_directory"},
			make: command(func(_ *world, cmd *execution.Command) { cmd.Dir = "" }),
		},
		{
			name: "a missing directory is an exit code", cases: []string{"cwdenv/missing_directory"},
			make: func(w *world) {
				w.start = func(ctx context.Context, _ execution.Handle, cmd execution.Command, next startFunc) (execution.Process, error) {
					p, err := next(ctx, cmd)
					if errors.Is(err, execution.ErrDirNotFound) {
						return next(ctx, execution.Command{Args: []string{"print", "OCI runtime exec failed", "", "126"}})
					}
					return p, err
				}
			},
		},
		{
			name: "a missing directory is not named", cases: []string{"cwdenv/missing_directory"}, told: "name",
			make: startErrorBecomes(execution.ErrDirNotFound, execution.ErrDirNotFound),
		},
		{
			name: "the host's environment gets in", cases: []string{"cwdenv/env_of_the_host_stays_out"},
			make: command(func(_ *world, cmd *execution.Command) { cmd.Env = append(os.Environ(), cmd.Env...) }),
		},
		{
			name: "the first of two variables counts", cases: []string{"cwdenv/env_of_the_command"},
			make: command(func(_ *world, cmd *execution.Command) { slices.Reverse(cmd.Env) }),
		},
		{
			name: "the sandbox's environment is dropped", cases: []string{"cwdenv/env_of_the_sandbox"},
			make: func(w *world) {
				w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
					spec.Env = nil
					return next(ctx, spec)
				}
			},
		},
		{
			name: "Spec tells the environment", cases: []string{"cwdenv/env_of_the_sandbox"}, told: "secrets",
			make: func(w *world) {
				w.spec = func(s execution.Spec) execution.Spec { s.Env = []string{"TOKEN=secret"}; return s }
			},
		},
	}
}
