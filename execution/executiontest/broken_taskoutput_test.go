package executiontest_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskOutputFaults() []fault {
	return []fault{
		{
			name: "a task's streams are mixed up", cases: []string{"tasks/output_of_both_streams", "tasks/output_follows_to_the_end"},
			make: opens(func(s *execution.OutputStream, _ *execution.OutputOptions) { *s = execution.Stdout }),
		},
		{
			name: "a task's output is made valid text", cases: []string{"tasks/output_of_both_streams"},
			make: reads(func(r execution.OutputReader, p []byte) (int, error) {
				n, err := r.Read(p)
				return copy(p, strings.ToValidUTF8(string(p[:n]), "?")), err
			}),
		},
		{
			name: "a task's last byte is lost", cases: []string{"tasks/output_of_both_streams", "tasks/output_by_offset", "tasks/many_in_sequence"},
			make: reads(func(r execution.OutputReader, p []byte) (int, error) {
				n, err := r.Read(p)
				return max(0, n-1), err
			}),
		},
		{name: "the offset is ignored", cases: []string{"tasks/output_by_offset"}, make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Offset = 0 })},
		{name: "a negative offset is the beginning", cases: []string{"tasks/output_by_offset"}, make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Offset = max(0, o.Offset) })},
		{name: "the length is ignored", cases: []string{"tasks/output_by_offset"}, make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Length = max(0, -o.Length) })},
		{
			name: "an offset past the end is the end", cases: []string{"tasks/output_past_the_end"},
			make: func(w *world) {
				w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
					if info, err := t.Info(ctx); err == nil {
						opts.Offset = min(opts.Offset, info.Stdout.Bytes)
					}
					return t.OpenOutput(ctx, s, opts)
				}
			},
		},
		{
			name: "what is read grows while it is read", cases: []string{"tasks/output_of_what_is_there_now"},
			make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Follow = true }),
		},
		{
			name: "a task's output comes at its end", cases: []string{"tasks/output_is_live"}, told: "hangs",
			make: func(w *world) {
				w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
					r, err := t.OpenOutput(ctx, s, opts)
					if err != nil {
						return nil, err
					}
					return brokenReader{r, func(r execution.OutputReader, p []byte) (int, error) {
						if _, err := t.Wait(ctx); err != nil {
							return 0, err
						}
						return r.Read(p)
					}}, nil
				}
			},
		},
		{
			name: "following stops at the end of what is there", cases: []string{"tasks/output_is_live"},
			make: opens(func(_ *execution.OutputStream, o *execution.OutputOptions) { o.Follow = false }),
		},
		{
			name: "following never ends", cases: []string{"tasks/output_follows_to_the_end", "tasks/leftovers_that_write_for_ever"}, told: "hangs",
			make: func(w *world) {
				reads(func(r execution.OutputReader, p []byte) (int, error) {
					n, err := r.Read(p)
					if errors.Is(err, io.EOF) {
						<-w.stop
					}
					return n, err
				})(w)
			},
		},
		{
			name: "the reader does not know where it is", cases: []string{"tasks/output_by_offset", "tasks/output_is_live", "tasks/output_head_and_tail"},
			make: func(w *world) {
				w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
					r, err := t.OpenOutput(ctx, s, opts)
					return lostReader{r}, err
				}
			},
		},
		{
			name: "only the head is kept", cases: []string{"tasks/output_head_and_tail"},
			make: reads(func(r execution.OutputReader, p []byte) (int, error) {
				before := r.Offset()
				n, err := r.Read(p)
				if r.Offset()-int64(n) > before {
					return 0, io.EOF
				}
				return n, err
			}),
		},
		{
			name: "what was dropped is not counted", cases: []string{"tasks/output_head_and_tail", "tasks/output_flood"},
			make: tells(func(i *execution.TaskInfo) { i.Stdout.Dropped = 0 }),
		},
		{
			name: "Keep is ignored", cases: []string{"tasks/output_head_and_tail", "tasks/output_flood"},
			make: starts(func(_ *execution.Command, opts *execution.TaskOptions) {
				if opts.Keep > 0 {
					opts.Keep = 2 << 20
				}
			}),
		},
		{
			name: "readers hold on", cases: []string{"tasks/output_reader_lets_go"}, told: "hangs",
			make: func(w *world) {
				w.task.open = func(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
					ctx, cancel := w.stubborn(ctx)
					context.AfterFunc(ctx, cancel)
					return t.OpenOutput(ctx, s, opts)
				}
			},
			change: impatient,
		},
		{
			name: "a writer that reads itself is cut off at the end", cases: []string{"output/writer_that_reads_for_itself"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					from, ok := cmd.Stdout.(io.ReaderFrom)
					left := len("to std")
					cmd.Stdout = writerFunc(func(p []byte) (int, error) {
						take := min(left, len(p))
						left -= take
						if ok {
							_, _ = from.ReadFrom(strings.NewReader(string(p[:take])))
						}
						return len(p), nil
					})
				})
			},
		},
	}
}

// A lostReader says that it is at the beginning.
type lostReader struct{ execution.OutputReader }

func (lostReader) Offset() int64 { return 0 }
