package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
)

const logsHelp = `Print what a task has written: its standard output on standard output, its standard
error on standard error. Without TASK it is task-1, or the only one.

The two streams are kept apart, so --tail counts the lines of each, and an offset is
one into a single stream. Where a task has written more than is kept, its start and
its end are, and a line on standard error says how much is missing.`

type logsFlags struct {
	follow         bool
	tail           lineCount
	since          int64
	stdout, stderr bool
}

func (a *app) logsCommand() *cobra.Command {
	var (
		to    attachment
		flags = logsFlags{tail: allLines}
	)
	cmd := &cobra.Command{
		Use:               "logs [flags] ID [TASK]",
		Short:             "Print the output of a task",
		Long:              logsHelp,
		Args:              sandboxArgs(1, "logs takes one sandbox and one task"),
		ValidArgsFunction: a.completeTask,
		RunE: func(cmd *cobra.Command, args []string) error {
			streams, err := flags.streams(cmd.Flags().Changed)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			to.id = args[0]
			return a.withSandbox(cmd.Context(), to, func(ctx context.Context, h execution.Handle) error {
				task, err := pickTask(ctx, h, second(args))
				if err != nil {
					return err
				}
				return a.printLogs(ctx, task, streams, &flags)
			})
		},
	}
	to.register(cmd.Flags())
	cmd.Flags().BoolVarP(&flags.follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().VarP(&flags.tail, "tail", "n", "begin that many lines before the end")
	cmd.Flags().Int64Var(&flags.since, "since-offset", 0, "begin at this `byte` of the stream; negative ones count from the end")
	cmd.Flags().BoolVar(&flags.stdout, "stdout", false, "only standard output")
	cmd.Flags().BoolVar(&flags.stderr, "stderr", false, "only standard error")
	return cmd
}

// streams are those that are asked for.
func (f *logsFlags) streams(changed func(string) bool) ([]execution.OutputStream, error) {
	since := changed("since-offset")
	switch {
	case since && f.tail != allLines:
		return nil, errors.New("--since-offset and --tail exclude each other: both say where to begin")
	case since && f.stdout == f.stderr:
		return nil, errors.New("--since-offset needs --stdout or --stderr: each has its own offsets")
	case f.stdout == f.stderr:
		return []execution.OutputStream{execution.Stdout, execution.Stderr}, nil
	case f.stdout:
		return []execution.OutputStream{execution.Stdout}, nil
	}
	return []execution.OutputStream{execution.Stderr}, nil
}

// printLogs copies the streams side by side. Its goroutines have ended when it
// returns, but for a write to a reader that does not read.
func (a *app) printLogs(ctx context.Context, task execution.Task, streams []execution.OutputStream, flags *logsFlags) error {
	var out outlets
	defer out.close()
	var group errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, stream := range streams {
		w := a.stdout
		if stream == execution.Stderr {
			w = a.stderr.w
		}
		to := out.shownOn(w)
		group.Go(func() error {
			err := a.printLog(ctx, task, stream, to, flags)
			if err != nil {
				cancel() // the other one, which may follow for long
			}
			return err
		})
	}
	stop := context.AfterFunc(ctx, out.giveUp)
	err := group.Wait()
	stop()
	return err
}

func (a *app) printLog(ctx context.Context, task execution.Task, stream execution.OutputStream, w io.Writer, flags *logsFlags) error {
	opts := execution.OutputOptions{Offset: flags.since, Follow: flags.follow}
	if flags.tail != allLines {
		var err error
		if opts.Offset, err = tailOffset(ctx, task, stream, int64(flags.tail)); err != nil {
			return err
		}
	}
	r, err := task.OpenOutput(ctx, stream, opts)
	if err != nil {
		return err
	}
	err = copyOutput(w, r, opts.Offset, func(missing int64) {
		a.stderr.say("%d bytes of %s are not kept", missing, stream)
	})
	return errors.Join(err, r.Close())
}

const logsBuffer = 64 << 10

// copyOutput copies what r yields, and tells of what was dropped in between.
// at is where r begins, or negative where that is not known.
func copyOutput(w io.Writer, r execution.OutputReader, at int64, dropped func(int64)) error {
	buffer := make([]byte, logsBuffer)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			if missing := r.Offset() - int64(n) - at; at >= 0 && missing > 0 {
				dropped(missing)
			}
			at = r.Offset()
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// tailOffset is where the last lines of a stream begin. It reads backwards, in
// parts, to the start of what is kept at its end.
func tailOffset(ctx context.Context, task execution.Task, stream execution.OutputStream, lines int64) (int64, error) {
	info, err := task.Info(ctx)
	if err != nil {
		return 0, err
	}
	end := info.Stdout.Bytes
	if stream == execution.Stderr {
		end = info.Stderr.Bytes
	}
	if lines == 0 {
		return end, nil
	}
	for at, last := end, true; at > 0; last = false {
		from := max(0, at-logsBuffer)
		part, begins, err := readPart(ctx, task, stream, from, at)
		if err != nil {
			return 0, err
		}
		if last {
			part = bytes.TrimSuffix(part, []byte("\n")) // which ends the last line
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if lines--; lines == 0 {
				return begins + int64(i) + 1, nil
			}
		}
		if begins > from {
			return begins, nil // nothing before it is kept
		}
		at = from
	}
	return 0, nil
}

// readPart reads what is kept of a stream between two offsets, up to the last
// gap in it. begins is where that is.
func readPart(ctx context.Context, task execution.Task, stream execution.OutputStream, from, to int64,
) (part []byte, begins int64, err error) {
	r, err := task.OpenOutput(ctx, stream, execution.OutputOptions{Offset: from, Length: to - from})
	if err != nil {
		return nil, 0, err
	}
	begins = from
	buffer := make([]byte, logsBuffer)
	for at := from; err == nil && at < to; {
		var n int
		if n, err = r.Read(buffer); n == 0 {
			continue
		}
		if start := r.Offset() - int64(n); start > at {
			part, begins = part[:0], start
		}
		at = r.Offset()
		part = append(part, buffer[:n]...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(part) == 0 {
		begins = to
	}
	if beyond := begins + int64(len(part)) - to; beyond > 0 {
		part = part[:max(0, int64(len(part))-beyond)] // written meanwhile, behind a gap
	}
	return part, begins, errors.Join(err, r.Close())
}

// A lineCount is a flag that holds a number of lines, or "all".
type lineCount int64

const allLines lineCount = math.MaxInt64

// Set parses text.
func (n *lineCount) Set(text string) error {
	if text == "all" {
		*n = allLines
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		return fmt.Errorf("want a number of lines, or all")
	}
	*n = lineCount(value)
	return nil
}

// Type is what --help shows for the value.
func (n *lineCount) Type() string { return "lines" }

func (n *lineCount) String() string {
	if *n == allLines {
		return "all"
	}
	return strconv.FormatInt(int64(*n), 10)
}
