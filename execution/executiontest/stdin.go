package executiontest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func stdinCases() []check {
	return []check{
		{"empty_unless_given", stdinEmpty},
		{"passed_on_in_full", stdinFull},
		{"end_of_file_is_passed_on", stdinEOF},
		{"interactive", stdinInteractive},
		{"more_than_is_read", stdinMore},
		{"never_read", stdinNeverRead},
		{"reader_that_blocks", stdinStuck},
		{"reader_that_fails", stdinFailing},
		{"killed_while_reading", stdinKilled},
	}
}

func stdinEmpty(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	result := e.exec(ctx, h, e.command(Cat))
	e.wantExit(result.ExitStatus, 0)
	if len(result.Stdout) > 0 {
		e.Errorf("read %q from an empty stdin", result.Stdout)
	}
}

func stdinFull(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	size := int64(quantity(16<<20, 1<<20)) + 13
	out := &matcher{}
	cmd := e.command(Cat)
	cmd.Stdin, cmd.Stdout = &pattern{size: size}, out
	e.wantExit(e.wait(ctx, e.start(ctx, h, cmd)), 0)
	if out.wrong || out.at != size {
		e.Errorf("of %d bytes that went in, %d came out; wrong bytes: %v", size, out.at, out.wrong)
	}
}

func stdinEOF(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, text := range []string{"", "one line\n", "no newline"} {
		cmd := e.command(Cat)
		cmd.Stdin = strings.NewReader(text)
		result := e.exec(ctx, h, cmd)
		e.wantExit(result.ExitStatus, 0)
		if string(result.Stdout) != text {
			e.Errorf("stdin %q arrived as %q", text, result.Stdout)
		}
	}
}

func stdinInteractive(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	out := &tape{}
	cmd := e.command(Cat)
	cmd.Stdin, cmd.Stdout = in, out
	proc := e.start(ctx, h, cmd)
	for _, text := range []string{"first\n", "second", "\x00\xff"} {
		if _, err := io.WriteString(feed, text); err != nil {
			e.Fatalf("the reader was given up: %v", err)
		}
		out.awaitText(ctx, e, text)
	}
	_ = feed.Close()
	e.wantExit(e.wait(ctx, proc), 0)
}

func stdinMore(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Head, "10")
	cmd.Stdin = &endless{}
	result := e.exec(ctx, h, cmd)
	e.wantExit(result.ExitStatus, 0)
	if got := string(result.Stdout); got != strings.Repeat("x", 10) {
		e.Errorf("got %q", got)
	}
}

func stdinNeverRead(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Print, "done", "", "0")
	cmd.Stdin = bytes.NewReader(make([]byte, 1<<20))
	e.wantExit(e.exec(ctx, h, cmd).ExitStatus, 0)
	cmd.Stdin = &endless{}
	e.wantExit(e.exec(ctx, h, cmd).ExitStatus, 0)
}

func stdinStuck(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	reader := make(stuck)
	e.atEnd(func() { close(reader) })
	cmd := e.command(Print, "done", "", "0")
	cmd.Stdin = reader
	result := e.exec(ctx, h, cmd)
	e.wantExit(result.ExitStatus, 0)
	if string(result.Stdout) != "done" {
		e.Errorf("got %q", result.Stdout)
	}
	cmd = e.command(Sleep)
	cmd.Stdin = reader
	e.wantEnding(e.kill(ctx, e.start(ctx, h, cmd)), execution.EndingCancelled)
}

var errReader = errors.New("the source of stdin is gone")

func stdinFailing(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, size := range []int64{0, 10, 100_000} {
		out := &matcher{}
		cmd := e.command(Cat)
		cmd.Stdin, cmd.Stdout = &pattern{size: size, err: errReader}, out
		status, err := e.start(ctx, h, cmd).Wait(ctx)
		if !errors.Is(err, errReader) {
			e.Fatalf("Wait: error %v does not wrap the reader's", err)
		}
		e.wantEnding(status, execution.EndingCancelled)
		if out.wrong || out.at > size {
			e.Errorf("of %d good bytes, %d came out; wrong bytes: %v", size, out.at, out.wrong)
		}
	}
}

func stdinKilled(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	out := &tape{limit: 1}
	cmd := e.command(Cat)
	cmd.Stdin, cmd.Stdout = &endless{}, out
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "x")
	e.wantEnding(e.kill(ctx, proc), execution.EndingCancelled)
}
