package executiontest

import (
	"context"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
)

func ttyCases() []check {
	return []check{
		{"undeclared", ttyUndeclared},
		{"is_a_terminal_of_that_size", ttySize},
		{"resize", ttyResize},
		{"all_output_on_stdout", ttyOutput},
		{"output_limit", ttyOutputLimit},
		{"end_of_input", ttyEOF},
		{"interrupt_key", ttyInterrupt},
		{"kill", ttyKill},
		{"with_stderr_is_invalid", ttyStderr},
	}
}

func ttyUndeclared(ctx context.Context, e *env) {
	if e.can().TTY {
		e.Skip("the backend declares it")
	}
	h := e.sandbox(ctx)
	cmd := e.command(Terminal)
	cmd.TTY = &execution.TerminalSize{Rows: 24, Cols: 80}
	e.wantError(startError(ctx, e, h, cmd), execution.ErrUnsupported, "Start with an undeclared terminal")
}

// terminal starts a script on a terminal and gives back its keyboard and its
// screen.
func (e *env) terminal(ctx context.Context, script Script, args ...string) (execution.Process, *io.PipeWriter, *tape) {
	e.Helper()
	e.declares(e.can().TTY)
	h := e.sandbox(ctx)
	in, keyboard := io.Pipe()
	e.atEnd(func() { _ = keyboard.Close() })
	screen := &tape{}
	cmd := e.command(script, args...)
	cmd.Stdin, cmd.Stdout = in, screen
	cmd.TTY = &execution.TerminalSize{Rows: 41, Cols: 123}
	return e.start(ctx, h, cmd), keyboard, screen
}

func ttySize(ctx context.Context, e *env) {
	proc, keyboard, screen := e.terminal(ctx, Terminal)
	screen.awaitText(ctx, e, "41 123")
	_ = keyboard.Close()
	e.wantExit(e.wait(ctx, proc), 0)
	screen.check(e)

	// And without being asked for there is none.
	h := e.sandbox(ctx)
	e.wantExit(e.exec(ctx, h, e.command(Terminal)).ExitStatus, 1)
}

func ttyResize(ctx context.Context, e *env) {
	proc, keyboard, screen := e.terminal(ctx, Terminal)
	screen.awaitText(ctx, e, "41 123")
	resizer, ok := proc.(execution.Resizer)
	if !ok {
		e.Fatalf("a process on a terminal (%T) is no execution.Resizer", proc)
	}
	// Not larger: busybox takes what is above 30000 for a mistake.
	for _, size := range []execution.TerminalSize{{Rows: 50, Cols: 132}, {Rows: 2, Cols: 29999}} {
		if err := resizer.Resize(ctx, size); err != nil {
			e.Fatalf("Resize: %v", err)
		}
		if _, err := io.WriteString(keyboard, "\n"); err != nil {
			e.Fatal(err)
		}
		screen.awaitText(ctx, e, fmt.Sprintf("%d %d", size.Rows, size.Cols))
	}
	_ = keyboard.Close()
	e.wantExit(e.wait(ctx, proc), 0)
	e.wantError(resizer.Resize(ctx, execution.TerminalSize{Rows: 1, Cols: 1}), execution.ErrFinished, "Resize after the end")
}

func ttyOutput(ctx context.Context, e *env) {
	proc, _, screen := e.terminal(ctx, Print, "to stdout ", "to stderr", "3")
	status := e.wait(ctx, proc)
	e.wantExit(status, 3)
	if want := "to stdout to stderr"; screen.text() != want {
		e.Errorf("the screen shows %q, want %q", screen.text(), want)
	}
}

func ttyOutputLimit(ctx context.Context, e *env) {
	e.declares(e.can().TTY)
	h := e.sandbox(ctx)
	cmd := e.command(Print, "12345", "67890", "3")
	cmd.TTY = &execution.TerminalSize{Rows: 24, Cols: 80}
	for _, limit := range []int64{10, 11, 100_000} {
		cmd.OutputLimit = limit
		result := e.exec(ctx, h, cmd)
		e.wantExit(result.ExitStatus, 3)
		if string(result.Stdout) != "1234567890" {
			e.Errorf("with a limit of %d bytes the screen shows %q", limit, result.Stdout)
		}
	}
	cmd = e.command(Flood)
	cmd.TTY, cmd.OutputLimit = &execution.TerminalSize{Rows: 24, Cols: 80}, 10_001
	result := e.exec(ctx, h, cmd)
	e.wantEnding(result.ExitStatus, execution.EndingOutputLimit)
	if result.StdoutBytes != cmd.OutputLimit {
		e.Errorf("%d bytes came through a limit of %d", result.StdoutBytes, cmd.OutputLimit)
	}
}

func ttyEOF(ctx context.Context, e *env) {
	proc, keyboard, screen := e.terminal(ctx, Cat)
	if _, err := io.WriteString(keyboard, "typed\n"); err != nil {
		e.Fatal(err)
	}
	screen.awaitText(ctx, e, "typed")
	_ = keyboard.Close()
	e.wantExit(e.wait(ctx, proc), 0)

	h := e.sandbox(ctx)
	cmd := e.command(Cat)
	cmd.TTY = &execution.TerminalSize{Rows: 24, Cols: 80}
	e.wantExit(e.exec(ctx, h, cmd).ExitStatus, 0)
}

func ttyInterrupt(ctx context.Context, e *env) {
	// Not Terminal: a shell that waits for a program may leave the decision
	// about SIGINT to that.
	proc, keyboard, screen := e.terminal(ctx, Trap)
	screen.awaitText(ctx, e, "ready")
	if _, err := io.WriteString(keyboard, "\x03"); err != nil {
		e.Fatal(err)
	}
	status := e.wait(ctx, proc)
	e.wantEnding(status, execution.EndingSignalled)
	if status.Signal != execution.SIGINT {
		e.Errorf("the interrupt key ended the command by %v", status.Signal)
	}
	e.kill(ctx, proc)
}

func ttyKill(ctx context.Context, e *env) {
	proc, _, screen := e.terminal(ctx, Terminal)
	screen.awaitText(ctx, e, "41 123")
	e.wantEnding(e.kill(ctx, proc), execution.EndingCancelled)
}

func ttyStderr(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Terminal)
	cmd.TTY, cmd.Stderr = &execution.TerminalSize{Rows: 24, Cols: 80}, &tape{}
	err := startError(ctx, e, h, cmd)
	if !e.can().TTY {
		return
	}
	e.wantError(err, execution.ErrInvalid, "Start with a terminal and a Stderr")
}
