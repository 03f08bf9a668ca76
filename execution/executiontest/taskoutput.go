package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskOutputCases() []check {
	return []check{
		{"output_of_both_streams", taskOutputBoth},
		{"output_by_offset", taskOutputOffset},
		{"output_past_the_end", taskOutputPastEnd},
		{"output_of_what_is_there_now", taskOutputNow},
		{"output_is_live", taskOutputLive},
		{"output_follows_to_the_end", taskOutputFollow},
		{"output_by_many_readers", taskOutputMany},
		{"output_head_and_tail", taskOutputHeadTail},
		{"output_flood", taskOutputFlood},
		{"output_reader_lets_go", taskOutputLetsGo},
	}
}

// numbers is what Count writes to one stream.
func numbers(first, last int) string {
	var text strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintln(&text, i)
	}
	return text.String()
}

func taskOutputBoth(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Print, "to stdout\n\xff\xfe", "to stderr \x01\x7f", "3")
	n := quantity(100_000, 10_000)
	big := e.task(ctx, h, Count, fmt.Sprint(n))
	e.wantExit(e.taskEnd(ctx, t).Status, 3)
	e.wantExit(e.taskEnd(ctx, big).Status, 0)
	for _, row := range []struct {
		task   execution.Task
		stream execution.OutputStream
		want   string
	}{
		{t, execution.Stdout, "to stdout\n\xff\xfe"},
		{t, execution.Stderr, "to stderr \x01\x7f"},
		{big, execution.Stdout, numbers(1, n)},
		{big, execution.Stderr, numbers(n+1, 2*n)},
	} {
		if got := e.taskOutput(ctx, row.task, row.stream, execution.OutputOptions{}); got != row.want {
			e.Errorf("%v of %s is %.100q (%d bytes), want %.100q (%d bytes)",
				row.stream, row.task.ID(), got, len(got), row.want, len(row.want))
		}
	}
	info := e.taskInfo(ctx, big)
	if info.Stdout != (execution.OutputInfo{Bytes: int64(len(numbers(1, n)))}) || info.Stderr != (execution.OutputInfo{Bytes: int64(len(numbers(n+1, 2*n)))}) {
		e.Errorf("told of %+v and %+v", info.Stdout, info.Stderr)
	}
}

func taskOutputOffset(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const text = "0123456789"
	t := e.task(ctx, h, Print, text, "", "0")
	e.taskEnd(ctx, t)
	for _, opts := range []execution.OutputOptions{
		{},
		{Offset: 4},
		{Offset: 4, Length: 3},
		{Offset: 9, Length: 100},
		{Offset: 10},
		{Offset: -3},
		{Offset: -3, Length: 2},
		{Offset: -10},
		{Offset: -11},
		{Offset: math.MinInt64},
		{Length: 1},
		{Offset: 2, Follow: true},
		{Offset: -3, Length: 2, Follow: true},
	} {
		at := max(0, opts.Offset)
		if opts.Offset < 0 {
			at = max(0, int64(len(text))+opts.Offset)
		}
		want := text[at:]
		if opts.Length > 0 {
			want = want[:min(int64(len(want)), opts.Length)]
		}
		r := e.openOutput(ctx, t, execution.Stdout, opts)
		got, err := io.ReadAll(r)
		if string(got) != want || err != nil {
			e.Errorf("of %q, %+v is %q, %v; want %q", text, opts, got, err, want)
		}
		if r.Offset() != at+int64(len(want)) {
			e.Errorf("%+v was read up to the offset %d, want %d", opts, r.Offset(), at+int64(len(want)))
		}
	}
}

func taskOutputPastEnd(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	running, ended := e.task(ctx, h, Trap), e.task(ctx, h, Print, "123456", "", "0")
	e.follow(ctx, running, "ready\n")
	e.taskEnd(ctx, ended)
	for _, t := range []execution.Task{running, ended} {
		for _, opts := range []execution.OutputOptions{{Offset: 7}, {Offset: math.MaxInt64}, {Offset: 7, Follow: true}} {
			_, err := t.OpenOutput(ctx, execution.Stdout, opts)
			e.wantError(err, execution.ErrInvalid, "OpenOutput past the end")
			if !strings.Contains(err.Error(), "6") {
				e.Errorf("the error for an offset past the end does not say that there are 6 bytes: %v", err)
			}
		}
		_, err := t.OpenOutput(ctx, execution.Stdout, execution.OutputOptions{Length: -1})
		e.wantError(err, execution.ErrInvalid, "OpenOutput with a negative length")
		_, err = t.OpenOutput(ctx, 0, execution.OutputOptions{})
		e.wantError(err, execution.ErrInvalid, "OpenOutput of no stream")
	}
	e.killTask(ctx, running)
}

func taskOutputNow(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	e.follow(ctx, t, "ready\n")
	now := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{})
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	e.taskEnd(ctx, t)
	if got, err := io.ReadAll(now); string(got) != "ready\n" || err != nil {
		e.Errorf("what was there when the output was opened is %q, %v; want \"ready\\n\"", got, err)
	}
	if got := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{}); got != "ready\nterm\n" {
		e.Errorf("all of the output is %q", got)
	}
}

// taskOutputLive hears a task that sleeps before the task is asked to end, and
// then what it says to that.
func taskOutputLive(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	r := e.follow(ctx, t, "ready\n")
	if info := e.taskInfo(ctx, t); !info.Running() {
		e.Errorf("a task that sleeps is told as %s", info.State())
	}
	if r.Offset() != 6 {
		e.Errorf("after 6 bytes the offset is %d", r.Offset())
	}
	if err := t.Signal(ctx, execution.SIGTERM); err != nil {
		e.Fatalf("Signal: %v", err)
	}
	if got, err := io.ReadAll(r); string(got) != "term\n" || err != nil {
		e.Errorf("following went on with %q, %v; want \"term\\n\"", got, err)
	}
	if info := e.taskInfo(ctx, t); info.Running() {
		e.Error("following has ended, and the task is told to run")
	}
}

func taskOutputFollow(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	n := quantity(100_000, 10_000)
	t := e.task(ctx, h, Count, fmt.Sprint(n))
	out := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
	stderr := make(chan string, 1)
	go func() { stderr <- e.taskOutput(ctx, t, execution.Stderr, execution.OutputOptions{Follow: true}) }()
	got, err := io.ReadAll(out)
	if err != nil {
		e.Errorf("following stdout: %v", err)
	}
	wantNumbers(e, "stdout", string(got), 1, n)
	wantNumbers(e, "stderr", await(ctx, e, stderr, "stderr has been followed to its end"), n+1, 2*n)
	e.wantExit(e.taskEnd(ctx, t).Status, 0)
}

func taskOutputMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	n := quantity(50_000, 5000)
	t := e.task(ctx, h, Count, fmt.Sprint(n))
	texts := make(chan string)
	const readers = 10
	for range readers {
		go func() {
			text := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
			select {
			case texts <- text:
			case <-ctx.Done():
			}
		}()
	}
	for range readers {
		wantNumbers(e, "one of many readers", await(ctx, e, texts, "all have read to the end"), 1, n)
	}
}

func taskOutputHeadTail(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const keep, each = 64 << 10, 32 << 10
	n := 30_000
	t := e.startTask(ctx, h, e.command(Count, fmt.Sprint(n)), execution.TaskOptions{Keep: keep})
	e.taskEnd(ctx, t)
	info := e.taskInfo(ctx, t)
	for s, want := range map[execution.OutputStream]string{execution.Stdout: numbers(1, n), execution.Stderr: numbers(n+1, 2*n)} {
		told := map[execution.OutputStream]execution.OutputInfo{execution.Stdout: info.Stdout, execution.Stderr: info.Stderr}[s]
		total := int64(len(want))
		if told.Bytes != total || told.Dropped != total-each {
			e.Errorf("of %d bytes of %v, of which %d are kept, is told %+v", total, s, each, told)
		}
		r := e.openOutput(ctx, t, s, execution.OutputOptions{})
		read, buf := int64(0), make([]byte, 5000)
		for {
			before := r.Offset()
			got, err := r.Read(buf)
			from := r.Offset() - int64(got)
			if from < before || r.Offset() > total || string(buf[:got]) != want[from:r.Offset()] {
				e.Fatalf("%v: %d bytes up to %d, read after %d, are not what was written there", s, got, r.Offset(), before)
			}
			if gap := from - before; got > 0 && gap > 0 && (before != each/2 || gap != told.Dropped) {
				e.Errorf("%v: %d bytes are missing after %d, want %d after %d", s, gap, before, told.Dropped, each/2)
			}
			read += int64(got)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				e.Fatalf("Read: %v", err)
			}
		}
		if read != total-told.Dropped {
			e.Errorf("%v: %d bytes can be read, and %d of %d are told to be dropped", s, read, told.Dropped, total)
		}
		if got := e.taskOutput(ctx, t, s, execution.OutputOptions{Offset: -100}); got != want[total-100:] {
			e.Errorf("the last 100 bytes of %v are %q, want %q", s, got, want[total-100:])
		}
		if got := e.taskOutput(ctx, t, s, execution.OutputOptions{Offset: total / 2, Length: 50}); got != want[total-each/2:][:50] {
			e.Errorf("50 bytes from the gap of %v on are %q, want the first ones after it", s, got)
		}
	}
}

func taskOutputFlood(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	limit := int64(quantity(256<<20, 16<<20))
	cmd := e.command(Flood)
	cmd.OutputLimit = limit
	t := e.startTask(ctx, h, cmd, execution.TaskOptions{Keep: 1 << 20})
	info := e.taskEnd(ctx, t)
	e.wantEnding(info.Status, execution.EndingOutputLimit)
	if want := (execution.OutputInfo{Bytes: limit, Dropped: limit - 512<<10}); info.Stdout != want {
		e.Errorf("of a flood is told %+v, want %+v", info.Stdout, want)
	}
	if got := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{}); got != strings.Repeat("y\n", 256<<10) {
		e.Errorf("of a flood are kept %d bytes, want %d", len(got), 512<<10)
	}
}

func taskOutputLetsGo(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	t := e.task(ctx, h, Trap)
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	byContext := e.openOutput(limited, t, execution.Stdout, execution.OutputOptions{Offset: 0, Follow: true})
	byClose := e.follow(ctx, t, "ready\n")
	e.readUntil(byContext, func(text []byte) bool { return len(text) == 6 })
	ended := make(chan error, 2)
	for _, r := range []io.Reader{byContext, byClose} {
		go func() {
			_, err := r.Read(make([]byte, 1))
			ended <- err
		}()
	}
	cancel()
	if err := await(ctx, e, ended, "a Read returns after its context"); !errors.Is(err, context.Canceled) {
		e.Errorf("a Read whose context ended: %v", err)
	}
	if err := byClose.Close(); err != nil {
		e.Errorf("Close: %v", err)
	}
	if err := await(ctx, e, ended, "a Read returns after Close"); err == nil || errors.Is(err, io.EOF) {
		e.Errorf("a Read of a reader that was closed: %v, want an error other than io.EOF", err)
	}
	if info := e.taskInfo(ctx, t); !info.Running() {
		e.Errorf("the task ended with its readers: %+v", info)
	}
	e.killTask(ctx, t)
}
