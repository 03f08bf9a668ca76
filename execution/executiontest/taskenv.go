package executiontest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

// startTask starts a task that must start.
func (e *env) startTask(ctx context.Context, h execution.Handle, cmd execution.Command, opts execution.TaskOptions) execution.Task {
	e.Helper()
	t, err := h.StartTask(ctx, cmd, opts)
	if err != nil {
		e.Fatalf("StartTask %s: %v", describe(cmd), err)
	}
	if t == nil {
		e.Fatalf("StartTask %s returned neither a task nor an error", describe(cmd))
	}
	return t
}

// task is startTask for a script.
func (e *env) task(ctx context.Context, h execution.Handle, script Script, args ...string) execution.Task {
	e.Helper()
	return e.startTask(ctx, h, e.command(script, args...), execution.TaskOptions{})
}

// taskEnd waits for a task's end, which must be known.
func (e *env) taskEnd(ctx context.Context, t execution.Task) execution.TaskInfo {
	e.Helper()
	info, err := t.Wait(ctx)
	if err != nil {
		e.Fatalf("Wait for %s: %v", t.ID(), err)
	}
	if info.Running() || info.Ended.IsZero() || info.ID != t.ID() {
		e.Fatalf("Wait for %s tells %+v", t.ID(), info)
	}
	return info
}

// taskInfo tells of a task.
func (e *env) taskInfo(ctx context.Context, t execution.Task) execution.TaskInfo {
	e.Helper()
	info, err := t.Info(ctx)
	if err != nil {
		e.Fatalf("Info of %s: %v", t.ID(), err)
	}
	return info
}

// tasks lists the tasks of a sandbox.
func (e *env) tasks(ctx context.Context, h execution.Handle) (all []execution.TaskInfo) {
	e.Helper()
	for info, err := range h.Tasks(ctx) {
		if err != nil {
			e.Fatalf("Tasks: %v", err)
		}
		all = append(all, info)
	}
	return all
}

func taskNames(all []execution.TaskInfo) (ids []string) {
	for _, info := range all {
		ids = append(ids, info.ID)
	}
	return ids
}

func (e *env) wantTasks(ctx context.Context, h execution.Handle, want ...string) {
	e.Helper()
	if got := taskNames(e.tasks(ctx, h)); !slices.Equal(got, want) {
		e.Errorf("Tasks yields %.300q, want %.300q", got, want)
	}
}

// killTask kills a task and returns its ending.
func (e *env) killTask(ctx context.Context, t execution.Task) execution.TaskInfo {
	e.Helper()
	if err := t.Kill(ctx); err != nil {
		e.Fatalf("Kill of %s: %v", t.ID(), err)
	}
	return e.taskEnd(ctx, t)
}

// openOutput opens a task's output, to be closed at the end of the case.
func (e *env) openOutput(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) execution.OutputReader {
	e.Helper()
	r, err := t.OpenOutput(ctx, s, opts)
	if err != nil {
		e.Fatalf("OpenOutput of %s, %v, %+v: %v", t.ID(), s, opts, err)
	}
	e.atEnd(func() { _ = r.Close() })
	return r
}

// taskOutput reads a part of a task's output.
func (e *env) taskOutput(ctx context.Context, t execution.Task, s execution.OutputStream, opts execution.OutputOptions) string {
	e.Helper()
	r := e.openOutput(ctx, t, s, opts)
	text, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		e.Fatalf("reading %v of %s, %+v: %v", s, t.ID(), opts, err)
	}
	return string(text)
}

// readUntil reads from a follower until it has what enough wants.
func (e *env) readUntil(r io.Reader, enough func(text []byte) bool) string {
	e.Helper()
	var text []byte
	buf := make([]byte, 4096)
	for !enough(text) {
		n, err := r.Read(buf)
		text = append(text, buf[:n]...)
		if err != nil && !enough(text) {
			e.Fatalf("following ended with %v after %.200q", err, text)
		}
	}
	return string(text)
}

// follow opens the output of a task that still runs, and reads up to text.
func (e *env) follow(ctx context.Context, t execution.Task, text string) execution.OutputReader {
	e.Helper()
	r := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
	e.readUntil(r, func(have []byte) bool { return bytes.Contains(have, []byte(text)) })
	return r
}

// growTask is grow for a task.
func (e *env) growTask(ctx context.Context, h execution.Handle, cmd execution.Command, n int) (execution.Task, []int) {
	e.Helper()
	t := e.startTask(ctx, h, cmd, execution.TaskOptions{})
	r := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
	text := e.readUntil(r, func(have []byte) bool { return bytes.Count(have, []byte("\n")) >= n })
	return t, e.pids(text)
}
