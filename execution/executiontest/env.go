package executiontest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// tearDownTime bounds the removal of a case's sandboxes.
const tearDownTime = 30 * time.Second

// An env is the world of one case: its backend, made at first use, and its
// sandboxes, which end with the case.
type env struct {
	*guard
	harness Harness

	mu      sync.Mutex
	backend execution.Context
	handles []execution.Handle
	ending  []func()
}

// context makes the case's backend.
func (e *env) context() execution.Context {
	e.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.backend == nil {
		e.backend = e.harness.New(e.guard)
		if e.backend == nil {
			e.Fatal("Harness.New returned nil")
		}
	}
	return e.backend
}

// can tells what the backend declares.
func (e *env) can() execution.Capabilities {
	e.Helper()
	return e.context().Capabilities()
}

// spec is the harness's spec, to be changed by the case.
func (e *env) spec() execution.Spec { return e.harness.Spec }

// spawn makes a sandbox that the case could not do without.
func (e *env) spawn(ctx context.Context, spec execution.Spec) execution.Handle {
	e.Helper()
	h, err := e.trySpawn(ctx, spec)
	if err != nil {
		e.Fatalf("Spawn: %v", err)
	}
	return h
}

// trySpawn makes a sandbox that the case knows how to do without.
func (e *env) trySpawn(ctx context.Context, spec execution.Spec) (execution.Handle, error) {
	e.Helper()
	h, err := e.context().Spawn(ctx, spec)
	switch {
	case err != nil && h != nil:
		e.Fatalf("Spawn returned both a handle and the error %v", err)
	case err == nil && h == nil:
		e.Fatal("Spawn returned neither a handle nor an error")
	case err == nil:
		e.mu.Lock()
		e.handles = append(e.handles, h)
		e.mu.Unlock()
	}
	return h, err
}

// sandbox makes a sandbox of the harness's spec.
func (e *env) sandbox(ctx context.Context) execution.Handle {
	e.Helper()
	return e.spawn(ctx, e.spec())
}

// atEnd has f called before the case's sandboxes are destroyed, the last one
// first. Unlike Cleanup it runs before the look for what was left behind.
func (e *env) atEnd(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ending = append(e.ending, f)
}

// tearDown ends the case's sandboxes and its backend.
func (e *env) tearDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tearDownTime)
	defer cancel()
	e.mu.Lock()
	backend, handles, ending := e.backend, e.handles, e.ending
	e.mu.Unlock()
	for _, f := range slices.Backward(ending) {
		f()
	}
	for _, h := range handles {
		if err := h.Destroy(ctx); err != nil {
			e.Errorf("Destroy at the end of the case: %v", err)
		}
	}
	if backend == nil {
		return
	}
	if err := backend.Close(); err != nil {
		e.Errorf("Close at the end of the case: %v", err)
	}
}

// command is what makes a sandbox do script.
func (e *env) command(script Script, args ...string) execution.Command {
	if e.harness.Command != nil {
		return e.harness.Command(script, args...)
	}
	return POSIX(script, args...)
}

// exec runs cmd to its end, whatever that is.
func (e *env) exec(ctx context.Context, h execution.Handle, cmd execution.Command) execution.Result {
	e.Helper()
	result, err := execution.Exec(ctx, h, cmd)
	if err != nil {
		e.Fatalf("%s: %v", describe(cmd), err)
	}
	return result
}

// run runs a script that must succeed and returns what it wrote to stdout.
func (e *env) run(ctx context.Context, h execution.Handle, script Script, args ...string) string {
	e.Helper()
	result := e.exec(ctx, h, e.command(script, args...))
	if !result.Success() {
		e.Fatalf("%s %q: %v: %s", script, args, result.ExitStatus, result.Stderr)
	}
	return string(result.Stdout)
}

// start starts a command, which is killed at the end of the case.
func (e *env) start(ctx context.Context, h execution.Handle, cmd execution.Command) execution.Process {
	e.Helper()
	proc, err := h.Start(ctx, cmd)
	if err != nil {
		e.Fatalf("Start %s: %v", describe(cmd), err)
	}
	if proc == nil {
		e.Fatalf("Start %s returned neither a process nor an error", describe(cmd))
	}
	return proc
}

// wait waits for an ending that must be known.
func (e *env) wait(ctx context.Context, proc execution.Process) execution.ExitStatus {
	e.Helper()
	status, err := proc.Wait(ctx)
	if err != nil {
		e.Fatalf("Wait: %v", err)
	}
	return status
}

// kill kills a command and returns its ending.
func (e *env) kill(ctx context.Context, proc execution.Process) execution.ExitStatus {
	e.Helper()
	if err := proc.Kill(ctx); err != nil {
		e.Fatalf("Kill: %v", err)
	}
	return e.wait(ctx, proc)
}

// wantEnding fails the case unless the command ended like that.
func (e *env) wantEnding(status execution.ExitStatus, want execution.Ending) {
	e.Helper()
	if status.Ending != want {
		e.Fatalf("the command ended as %q (%v), want %q", status.Ending, status, want)
	}
	if want != execution.EndingExited && status.Code != -1 {
		e.Errorf("the exit code of a command that ended as %q is %d, want -1", status.Ending, status.Code)
	}
}

// wantExit fails the case unless the command exited with code.
func (e *env) wantExit(status execution.ExitStatus, code int) {
	e.Helper()
	e.wantEnding(status, execution.EndingExited)
	if status.Code != code {
		e.Fatalf("the command exited with %d, want %d", status.Code, code)
	}
}

// wantError fails the case unless err is an *execution.Error that matches
// target and says nothing twice.
func (e *env) wantError(err error, target error, what string) {
	e.Helper()
	var typed *execution.Error
	switch {
	case err == nil:
		e.Fatalf("%s: no error, want %q", what, target)
	case !errors.Is(err, target):
		e.Fatalf("%s: error %q does not match %q", what, err, target)
	case !errors.As(err, &typed):
		e.Fatalf("%s: error %q is a %T and wraps no *execution.Error", what, err, err)
	}
	parts := strings.Split(err.Error(), ": ")
	for i, part := range parts[1:] {
		if part == parts[i] {
			e.Errorf("%s: error %q says %q twice", what, err, part)
		}
	}
}

// write makes a file that must work.
func (e *env) write(ctx context.Context, h execution.Handle, path, text string) {
	e.Helper()
	if err := execution.WriteFile(ctx, h, path, []byte(text)); err != nil {
		e.Fatalf("WriteFile %q: %v", path, err)
	}
}

// read reads a file that must be there.
func (e *env) read(ctx context.Context, h execution.Handle, path string) string {
	e.Helper()
	data, err := execution.ReadFile(ctx, h, path, 64<<20)
	if err != nil {
		e.Fatalf("ReadFile %q: %v", path, err)
	}
	return string(data)
}

// names lists a directory that must be there.
func (e *env) names(ctx context.Context, h execution.Handle, dir string) (names []string) {
	e.Helper()
	for info, err := range h.List(ctx, dir) {
		if err != nil {
			e.Fatalf("List %q: %v", dir, err)
		}
		names = append(names, info.Name)
	}
	return names
}

// alive tells which of the processes are alive, asked from inside and, where
// the harness can, from outside.
func (e *env) alive(ctx context.Context, h execution.Handle, pids []int) (alive []int) {
	e.Helper()
	if len(pids) == 0 {
		return nil
	}
	args := make([]string, 0, len(pids))
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	alive = e.pids(e.run(ctx, h, Alive, args...))
	for _, pid := range pids {
		if e.harness.Alive != nil && e.harness.Alive(e, h, pid) && !slices.Contains(alive, pid) {
			alive = append(alive, pid)
		}
	}
	return alive
}

// pids reads process IDs, one a line.
func (e *env) pids(text string) (pids []int) {
	e.Helper()
	for line := range strings.Lines(text) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || pid <= 0 {
			e.Fatalf("%q is no process ID", line)
		}
		pids = append(pids, pid)
	}
	return pids
}

// grow starts one of the scripts that report n process IDs, and waits until
// all of them have.
func (e *env) grow(ctx context.Context, h execution.Handle, cmd execution.Command, n int) (execution.Process, []int) {
	e.Helper()
	out := &tape{}
	cmd.Stdout = out
	proc := e.start(ctx, h, cmd)
	text := out.await(ctx, e, func(text []byte) bool { return bytes.Count(text, []byte("\n")) >= n })
	return proc, e.pids(string(text))
}

// quantity is a number of repetitions, smaller with -short and under the race
// detector.
func quantity(full, short int) int {
	if testing.Short() || underRace {
		return short
	}
	return full
}

// hostCanary puts a variable into this process's environment that must not
// be seen in any sandbox.
func (e *env) hostCanary() (name string) {
	e.Helper()
	const canary = "EXECUTIONTEST_HOST_CANARY"
	if err := os.Setenv(canary, "leaked"); err != nil {
		e.Fatal(err)
	}
	e.atEnd(func() { _ = os.Unsetenv(canary) })
	return canary
}

func describe(cmd execution.Command) string {
	if cmd.Shell != "" {
		return strconv.Quote(cmd.Shell)
	}
	return strconv.Quote(strings.Join(cmd.Args, " "))
}

// await receives from c what must come while the case lasts.
func await[T any](ctx context.Context, e *env, c <-chan T, what string) (value T) {
	e.Helper()
	select {
	case value = <-c:
	case <-ctx.Done():
		e.Fatalf("waited in vain until %s", what)
	}
	return value
}

// eventually waits for something that comes by itself and tells nobody. The
// watchdog bounds it.
func (e *env) eventually(ctx context.Context, what string, done func() bool) {
	e.Helper()
	for pause := time.Millisecond; !done(); pause = min(2*pause, 200*time.Millisecond) {
		select {
		case <-ctx.Done():
			e.Fatalf("waited in vain until %s", what)
		case <-time.After(pause):
		}
	}
}
