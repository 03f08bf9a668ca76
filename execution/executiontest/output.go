package executiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func outputCases() []check {
	return []check{
		{"separate", outputSeparate},
		{"all_bytes", outputAllBytes},
		{"arguments_are_data", outputArguments},
		{"both_streams_in_full", outputBothStreams},
		{"short_commands_lose_nothing", outputShortCommands},
		{"streamed", outputStreamed},
		{"drained_before_wait_returns", outputDrained},
		{"dropped_without_writer", outputDropped},
		{"capture_is_bounded", outputCaptureBounded},
		{"host_memory_is_bounded", outputMemoryBounded},
		{"slow_writer_slows_the_command", outputBackpressure},
		{"failing_writer_ends_the_command", outputFailingWriter},
		{"short_write_ends_the_command", outputShortWrite},
		{"writer_that_reads_for_itself", outputReaderFrom},
	}
}

func outputSeparate(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, row := range []struct{ stdout, stderr string }{
		{"to stdout\n", "to stderr\n"},
		{"", "only stderr"},
		{"only stdout", ""},
		{"", ""},
		{"no newline", "none\neither"},
	} {
		result := e.exec(ctx, h, e.command(Print, row.stdout, row.stderr, "3"))
		e.wantExit(result.ExitStatus, 3)
		if string(result.Stdout) != row.stdout || string(result.Stderr) != row.stderr {
			e.Errorf("got stdout %q and stderr %q, want %q and %q",
				result.Stdout, result.Stderr, row.stdout, row.stderr)
		}
		if result.StdoutBytes != int64(len(row.stdout)) || result.StderrBytes != int64(len(row.stderr)) {
			e.Errorf("counted %d and %d bytes, want %d and %d",
				result.StdoutBytes, result.StderrBytes, len(row.stdout), len(row.stderr))
		}
	}
}

func outputAllBytes(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	var all []byte
	for range 1024 {
		for b := range 256 {
			all = append(all, byte(b))
		}
	}
	cmd := e.command(Cat)
	cmd.Stdin = bytes.NewReader(all)
	result := e.exec(ctx, h, cmd)
	e.wantExit(result.ExitStatus, 0)
	if !bytes.Equal(result.Stdout, all) {
		e.Errorf("%d bytes of all values came back as %d other ones", len(all), len(result.Stdout))
	}
}

func outputArguments(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, arg := range append(hostileNames(), "-n", "%s%d", "", strings.Repeat("x", 100_000)) {
		result := e.exec(ctx, h, e.command(Print, arg, "", "0"))
		e.wantExit(result.ExitStatus, 0)
		if string(result.Stdout) != arg {
			e.Errorf("argument %.100q arrived as %.100q", arg, result.Stdout)
		}
	}
}

func outputBothStreams(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	n := quantity(200_000, 20_000)
	// Each Write takes a moment, so that another at the same time meets it.
	linger := func(int64) error {
		time.Sleep(time.Nanosecond)
		return nil
	}
	stdout, stderr := &tape{each: linger}, &tape{each: linger}
	cmd := e.command(Count, fmt.Sprint(n))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	e.wantExit(e.wait(ctx, e.start(ctx, h, cmd)), 0)
	wantNumbers(e, "stdout", stdout.text(), 1, n)
	wantNumbers(e, "stderr", stderr.text(), n+1, 2*n)
	stdout.check(e)
	stderr.check(e)
}

// wantNumbers fails the case unless text is the numbers from first to last,
// one a line.
func wantNumbers(e *env, what, text string, first, last int) {
	e.Helper()
	next := first
	for line := range strings.Lines(text) {
		if line != fmt.Sprintf("%d\n", next) {
			e.Fatalf("%s: got the line %q, want %d", what, line, next)
		}
		next++
	}
	if next != last+1 {
		e.Fatalf("%s: ended before %d, want up to %d", what, next, last)
	}
}

func outputShortCommands(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for i := range quantity(1000, 100) {
		result := e.exec(ctx, h, e.command(Print, "x", "", "127"))
		if result.Ending != execution.EndingExited || result.Code != 127 || string(result.Stdout) != "x" {
			e.Fatalf("run %d: got %q and %v, want \"x\" and code 127", i, result.Stdout, result.ExitStatus)
		}
	}
}

func outputStreamed(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{}
	cmd := e.command(Trap)
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "ready\n") // the command sleeps from here on
	e.kill(ctx, proc)
}

func outputDrained(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	n := quantity(20_000, 2000)
	stdout := &tape{each: func(int64) error { runtime.Gosched(); return nil }}
	stderr := &tape{each: func(int64) error { runtime.Gosched(); return nil }}
	cmd := e.command(Count, fmt.Sprint(n))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	status := e.wait(ctx, e.start(ctx, h, cmd))
	stdout.close()
	stderr.close()
	e.wantExit(status, 0)
	wantNumbers(e, "stdout", stdout.text(), 1, n)
	wantNumbers(e, "stderr", stderr.text(), n+1, 2*n)
	e.run(ctx, h, Print, "", "", "0")
	stdout.check(e)
	stderr.check(e)
	if status.StdoutBytes != stdout.size() || status.StderrBytes != stderr.size() {
		e.Errorf("the status counts %d and %d bytes, the writers got %d and %d",
			status.StdoutBytes, status.StderrBytes, stdout.size(), stderr.size())
	}
}

func outputDropped(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	// Far more than a pipe holds: the command ends only if somebody reads it.
	cmd := e.command(Count, fmt.Sprint(50_000))
	e.wantExit(e.wait(ctx, e.start(ctx, h, cmd)), 0)
}

func outputCaptureBounded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Flood)
	cmd.OutputLimit = 3 * execution.CaptureLimit
	result := e.exec(ctx, h, cmd)
	e.wantEnding(result.ExitStatus, execution.EndingOutputLimit)
	if len(result.Stdout) != execution.CaptureLimit {
		e.Errorf("%d bytes were kept, want %d", len(result.Stdout), execution.CaptureLimit)
	}
	if got := int64(len(result.Stdout)) + result.StdoutDropped; got != result.StdoutBytes {
		e.Errorf("kept and dropped make %d bytes, want %d", got, result.StdoutBytes)
	}
}

func outputMemoryBounded(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const growth = 32 << 20
	total := int64(quantity(256<<20, 48<<20))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	step := int64(0)
	out := &tape{limit: 1, each: func(total int64) error {
		if total < step {
			return nil
		}
		step += 8 << 20
		runtime.ReadMemStats(&now)
		if now.HeapAlloc > before.HeapAlloc+growth {
			return fmt.Errorf("the heap grew by %d bytes after %d bytes of output", now.HeapAlloc-before.HeapAlloc, total)
		}
		return nil
	}}
	cmd := e.command(Flood)
	cmd.Stdout = out
	cmd.OutputLimit = total
	status, err := e.start(ctx, h, cmd).Wait(ctx)
	if err != nil {
		e.Fatalf("Wait: %v", err)
	}
	e.wantEnding(status, execution.EndingOutputLimit)
}

func outputBackpressure(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	blocked := newGate()
	e.atEnd(blocked.open)
	cmd := e.command(Flood)
	cmd.Stdout = blocked
	proc := e.start(ctx, h, cmd)
	await(ctx, e, blocked.reached, "the output reaches its writer")

	// Whatever else is done on the handle is none the slower.
	e.run(ctx, h, Print, "x", "", "0")
	e.write(ctx, h, "beside", "content")
	if got := e.read(ctx, h, "beside"); got != "content" {
		e.Errorf("a file beside a blocked command reads as %q", got)
	}
	if err := proc.Kill(ctx); err != nil {
		e.Errorf("Kill of a command whose writer blocks: %v", err)
	}
	blocked.open()
	e.wantEnding(e.wait(ctx, proc), execution.EndingCancelled)
}

var errWriter = errors.New("the disk of the host is full")

func outputFailingWriter(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, stderr := range []bool{false, true} {
		failing := &tape{each: func(total int64) error {
			if total > 1000 {
				return errWriter
			}
			return nil
		}}
		cmd := e.command(Flood)
		cmd.Stdout = failing
		if stderr {
			// This one would end by itself some day, but not because of stderr.
			cmd = e.command(Count, "100000000")
			cmd.Stderr = failing
		}
		status, err := e.start(ctx, h, cmd).Wait(ctx)
		failing.close()
		if !errors.Is(err, errWriter) {
			e.Fatalf("Wait: error %v does not wrap the writer's", err)
		}
		e.wantEnding(status, execution.EndingCancelled)
		failing.check(e)
	}
}

// A shortWriter takes less than it is given and says nothing.
type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) / 2, nil }

func outputShortWrite(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Flood)
	cmd.Stdout = shortWriter{}
	status, err := e.start(ctx, h, cmd).Wait(ctx)
	if !errors.Is(err, io.ErrShortWrite) {
		e.Fatalf("Wait: error %v does not wrap io.ErrShortWrite", err)
	}
	e.wantEnding(status, execution.EndingCancelled)
}

// A lateReader is a writer that can also read for itself, as a bytes.Buffer
// can, and does either only once its gate is open.
type lateReader struct {
	*gate

	got bytes.Buffer
}

func (w *lateReader) Write(p []byte) (int, error) {
	<-w.opened
	return w.got.Write(p)
}

func (w *lateReader) ReadFrom(r io.Reader) (int64, error) {
	<-w.opened
	return w.got.ReadFrom(r)
}

func outputReaderFrom(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for i := range quantity(200, 50) {
		var stdout, stderr bytes.Buffer
		cmd := e.command(Print, "to stdout", "to stderr", "3")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		e.wantExit(e.wait(ctx, e.start(ctx, h, cmd)), 3)
		if stdout.String() != "to stdout" || stderr.String() != "to stderr" {
			e.Fatalf("run %d: got %q and %q", i, stdout.String(), stderr.String())
		}
	}
	// It may come to reading only after the command has ended.
	late := &lateReader{gate: newGate()}
	e.atEnd(late.open)
	cmd := e.command(Print, "to stdout", "", "3")
	cmd.Stdout = late
	proc := e.start(ctx, h, cmd)
	e.eventually(ctx, "the command has ended", func() bool {
		return errors.Is(proc.Signal(ctx, execution.SIGCONT), execution.ErrFinished)
	})
	late.open()
	e.wantExit(e.wait(ctx, proc), 3)
	if late.got.String() != "to stdout" {
		e.Errorf("a writer that came late got %q", late.got.String())
	}
}
