package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

func concurrencyCases() []check {
	return []check{
		{"fifty_commands_at_once", concurrencyFifty},
		{"slow_command_blocks_nobody", concurrencySlow},
		{"slow_file_blocks_nobody", concurrencySlowFile},
		{"everything_at_once", concurrencyEverything},
		{"many_sandboxes", concurrencySandboxes},
		{"nothing_grows", concurrencyGrowth},
	}
}

func concurrencyFifty(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const n = 50
	var procs []execution.Process
	var feeds []*io.PipeWriter
	var outs []*tape
	for range n {
		in, feed := io.Pipe()
		e.atEnd(func() { _ = feed.Close() })
		out := &tape{}
		cmd := e.command(Cat)
		cmd.Stdin, cmd.Stdout = in, out
		procs, feeds, outs = append(procs, e.start(ctx, h, cmd)), append(feeds, feed), append(outs, out)
	}
	// All of them answer before the first one ends: they do run at once.
	for i, feed := range feeds {
		if _, err := fmt.Fprintf(feed, "command %d\n", i); err != nil {
			e.Fatal(err)
		}
	}
	for i, out := range outs {
		out.awaitText(ctx, e, fmt.Sprintf("command %d\n", i))
	}
	for i, proc := range procs {
		_ = feeds[i].Close()
		e.wantExit(e.wait(ctx, proc), 0)
		if want := fmt.Sprintf("command %d\n", i); outs[i].text() != want {
			e.Errorf("command %d wrote %q", i, outs[i].text())
		}
	}
}

func concurrencySlow(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	sleeper := e.start(ctx, h, e.command(Sleep))
	flooder := e.command(Flood)
	blocked := newGate()
	e.atEnd(blocked.open)
	flooder.Stdout = blocked
	flood := e.start(ctx, h, flooder)
	await(ctx, e, blocked.reached, "the output reaches its writer")
	for range 20 {
		e.run(ctx, h, Print, "x", "", "0")
	}
	e.write(ctx, h, "file", "content")
	e.read(ctx, h, "file")
	e.names(ctx, h, ".")
	blocked.open()
	e.kill(ctx, flood)
	e.kill(ctx, sleeper)
}

func concurrencySlowFile(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const size = 2 << 20
	e.send(ctx, h, "file", size)
	r, err := h.OpenFile(ctx, "file", execution.ReadOptions{})
	if err != nil {
		e.Fatalf("OpenFile: %v", err)
	}
	defer func() { _ = r.Close() }()
	in, feed := io.Pipe()
	e.atEnd(func() { _ = feed.Close() })
	written := make(chan error, 1)
	go func() { written <- h.WriteFile(ctx, "slow", in, execution.WriteOptions{}) }()
	if _, err := io.WriteString(feed, "first"); err != nil {
		e.Fatal(err)
	}
	// One transfer waits for its reader, one for its writer; nobody else does.
	e.run(ctx, h, Print, "x", "", "0")
	e.send(ctx, h, "other", size)
	e.names(ctx, h, ".")
	_ = feed.Close()
	if err := await(ctx, e, written, "WriteFile returns"); err != nil {
		e.Errorf("WriteFile: %v", err)
	}
	if got := e.read(ctx, h, "slow"); got != "first" {
		e.Errorf("the slowly written file reads as %q", got)
	}
	rest := &matcher{}
	if _, err := io.Copy(rest, r); err != nil || rest.wrong || rest.at != size {
		e.Errorf("the slowly read file: %d bytes, wrong: %v, %v", rest.at, rest.wrong, err)
	}
}

func concurrencyEverything(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "shared", "content")
	var group sync.WaitGroup
	for i := range quantity(40, 16) {
		group.Go(func() {
			if err := everything(ctx, e, h, i); err != nil {
				e.Errorf("worker %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

// everything does a bit of all that a handle can.
func everything(ctx context.Context, e *env, h execution.Handle, i int) error {
	text := fmt.Sprintf("worker %d", i)
	result, err := execution.Exec(ctx, h, e.command(Print, text, "", fmt.Sprint(i)))
	if err != nil || result.Code != i || string(result.Stdout) != text {
		return fmt.Errorf("ran a command: %q, %v, %w", result.Stdout, result.ExitStatus, orUnknown(err))
	}
	name := fmt.Sprintf("dir-%d/file", i)
	if err := execution.WriteFile(ctx, h, name, []byte(text)); err != nil {
		return err
	}
	if data, err := execution.ReadFile(ctx, h, name, 0); err != nil || string(data) != text {
		return fmt.Errorf("read a file: %q, %w", data, orUnknown(err))
	}
	if _, err := h.Stat(ctx, "shared"); err != nil {
		return err
	}
	for _, err := range h.List(ctx, ".") {
		if err != nil {
			return err
		}
	}
	for _, err := range h.Glob(ctx, ".", "**/file") {
		if err != nil {
			return err
		}
	}
	proc, err := h.Start(ctx, e.command(Sleep))
	if err != nil {
		return err
	}
	if err := proc.Kill(ctx); err != nil {
		return err
	}
	status, err := proc.Wait(ctx)
	if err != nil || status.Ending != execution.EndingCancelled {
		return fmt.Errorf("killed a command: %v, %w", status, orUnknown(err))
	}
	return h.Err()
}

var errWrong = errors.New("not what was asked for")

// orUnknown stands in where a result is wrong and no error says why.
func orUnknown(err error) error {
	if err == nil {
		return errWrong
	}
	return err
}

func concurrencySandboxes(ctx context.Context, e *env) {
	e.context()
	var group sync.WaitGroup
	for i := range quantity(6, 3) {
		group.Go(func() {
			h, err := e.trySpawn(ctx, e.spec())
			if err != nil {
				e.Errorf("Spawn %d: %v", i, err)
				return
			}
			if err := execution.WriteFile(ctx, h, "shared", nil); err != nil {
				e.Errorf("WriteFile: %v", err)
			}
			if err := everything(ctx, e, h, i); err != nil {
				e.Errorf("sandbox %d: %v", i, err)
			}
			if err := h.Destroy(ctx); err != nil {
				e.Errorf("Destroy %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func concurrencyGrowth(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Print, "x", "", "0")
	e.write(ctx, h, "file", "content")
	round := func() {
		cmd.Stdin = &endless{}
		e.exec(ctx, h, cmd)
		e.read(ctx, h, "file")
	}
	count := func() (goroutines, files int) {
		for _, n := range openFiles() {
			files += n
		}
		return runtime.NumGoroutine(), files
	}
	for range 20 {
		round()
	}
	const slack = 20 // what a backend may keep ready for the next command
	goroutines, files := count()
	for range quantity(500, 100) {
		round()
	}
	e.eventually(ctx, fmt.Sprintf("goroutines (%d) and open files (%d) are back where they were", goroutines, files), func() bool {
		nowGoroutines, nowFiles := count()
		return nowGoroutines <= goroutines+slack && nowFiles <= files+slack
	})
}
