package executiontest

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

func deathCases() []check {
	return []check{
		{"pending_wait", deathPendingWait},
		{"pending_output", deathPendingOutput},
		{"pending_files", deathPendingFiles},
		{"later_calls", deathLater},
		{"destroy_afterwards", deathDestroy},
		{"the_backend_lives_on", deathBackend},
	}
}

// killSandbox makes the sandbox die from outside.
func (e *env) killSandbox(h execution.Handle) {
	e.Helper()
	e.harness.Kill(e, h)
}

// mortal makes a sandbox for a case that kills it.
func (e *env) mortal(ctx context.Context) execution.Handle {
	e.Helper()
	if e.harness.Kill == nil {
		e.Skip("the harness cannot kill a sandbox")
	}
	return e.sandbox(ctx)
}

// wantLost fails the case unless a command ended with its sandbox.
func (e *env) wantLost(ctx context.Context, proc execution.Process) {
	e.Helper()
	status, err := proc.Wait(ctx)
	e.wantError(err, execution.ErrLost, "Wait for a command whose sandbox died")
	if status.Ending != execution.EndingLost || status.Code != -1 || status.Reason == "" {
		e.Errorf("a command whose sandbox died ended as %+v, want lost with code -1 and a reason", status)
	}
}

func deathPendingWait(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	sleep, out := e.command(Trap), &tape{}
	sleep.Stdout = out
	proc := e.start(ctx, h, sleep)
	out.awaitText(ctx, e, "ready\n")
	reader := make(stuck)
	e.atEnd(func() { close(reader) })
	cat := e.command(Cat)
	cat.Stdin = reader
	second := e.start(ctx, h, cat)

	var group sync.WaitGroup
	for _, proc := range []execution.Process{proc, proc, second} {
		group.Go(func() { _, _ = proc.Wait(ctx) })
	}
	e.killSandbox(h)
	group.Wait()
	e.wantLost(ctx, proc)
	e.wantLost(ctx, second)
	out.close()
	if text := out.text(); !strings.HasPrefix(text, "ready\n") {
		e.Errorf("the output from before the death is %q", text)
	}
	out.check(e)
}

func deathPendingOutput(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	out := &tape{limit: 1}
	cmd := e.command(Flood)
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	out.awaitText(ctx, e, "y")
	e.killSandbox(h)
	e.wantLost(ctx, proc)
}

func deathPendingFiles(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	const size = 8 << 20
	e.send(ctx, h, "file", size)
	r, err := h.OpenFile(ctx, "file", execution.ReadOptions{})
	if err != nil {
		e.Fatalf("OpenFile: %v", err)
	}
	defer func() { _ = r.Close() }()
	reached := make(chan struct{})
	var once sync.Once
	written := make(chan error, 1)
	go func() {
		written <- h.WriteFile(ctx, "other", &pattern{size: 1 << 50, each: func(at int64) {
			if at > 0 {
				once.Do(func() { close(reached) })
			}
		}}, execution.WriteOptions{})
	}()
	await(ctx, e, reached, "the write is under way")
	e.killSandbox(h)
	e.wantError(await(ctx, e, written, "WriteFile returns"), execution.ErrLost, "WriteFile while the sandbox died")
	await(ctx, e, h.Done(), "Done is closed")
	if n, err := io.Copy(io.Discard, r); n < size || err != nil {
		e.wantError(err, execution.ErrLost, "Read while the sandbox died")
	}
}

func deathLater(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	ended := e.start(ctx, h, e.command(Print, "", "", "6"))
	e.wantExit(e.wait(ctx, ended), 6)
	running := e.start(ctx, h, e.command(Sleep))
	e.killSandbox(h)
	e.wantGone(ctx, h, execution.ErrLost)
	e.wantExit(e.wait(ctx, ended), 6)
	e.wantLost(ctx, running)
	status, _ := running.Wait(ctx)
	if why := h.Err().Error(); !strings.Contains(why, status.Reason) {
		e.Errorf("the handle says %q, the command's status %q", why, status.Reason)
	}
}

func deathDestroy(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	e.killSandbox(h)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := h.Destroy(ctx); err != nil {
				e.Errorf("Destroy of a dead sandbox: %v", err)
			}
		})
	}
	group.Wait()
	await(ctx, e, h.Done(), "Done is closed")
	if h.Err() == nil {
		e.Error("Err of a dead and destroyed sandbox is nil")
	}
}

func deathBackend(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	beside := e.sandbox(ctx)
	e.killSandbox(h)
	await(ctx, e, h.Done(), "Done is closed")
	e.run(ctx, beside, Print, "", "", "0")
	e.run(ctx, e.sandbox(ctx), Print, "", "", "0")
}
