package executiontest

import (
	"context"
	"errors"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

func taskEventCases() []check {
	return []check{
		{"events_in_order", taskEventsOrder},
		{"events_before_the_call", taskEventsBefore},
		{"events_once", taskEventsOnce},
		{"events_end_with_their_context", taskEventsContext},
		{"events_told_as_the_context_ends", taskEventsToldAtTheEnd},
		{"events_for_one_loop_at_a_time", taskEventsConflict},
		{"events_tell_of_destroy", taskEventsDestroy},
		{"events_tell_of_death", taskEventsDeath},
	}
}

// told takes n endings from a handle's events, and leaves.
func (e *env) told(ctx context.Context, h execution.Handle, n int) (ids []string) {
	e.Helper()
	for event, err := range h.Events(ctx) {
		if err != nil {
			e.Fatalf("Events: %v", err)
		}
		if event.Kind != execution.EventTaskEnded || event.Task.Running() || event.Task.Ended.IsZero() {
			e.Fatalf("told of %+v, want the ending of a task", event)
		}
		if ids = append(ids, event.Task.ID); len(ids) == n {
			break
		}
	}
	return ids
}

func (e *env) wantTold(got []string, want ...string) {
	e.Helper()
	if !slices.Equal(got, want) {
		e.Errorf("told of %q, want %q", got, want)
	}
}

// wantNothingToTell fails the case when there is an event.
func (e *env) wantNothingToTell(ctx context.Context, h execution.Handle) {
	e.Helper()
	limited, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for event, err := range h.Events(limited) {
		if err == nil {
			e.Errorf("told of %+v, want nothing", event)
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("Events: %v", err)
		}
	}
}

// taskEventsOrder ends tasks while a loop waits for it.
func taskEventsOrder(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	first, second, third := e.task(ctx, h, Trap), e.task(ctx, h, Trap), e.task(ctx, h, Trap)
	next := []execution.Task{third, first, second}
	end := func() {
		e.follow(ctx, next[0], "ready\n")
		if err := next[0].Signal(ctx, execution.SIGTERM); err != nil {
			e.Errorf("Signal: %v", err)
		}
		next = next[1:]
	}
	end()
	var ids []string
	for event, err := range h.Events(ctx) {
		if err != nil {
			e.Fatalf("Events: %v", err)
		}
		if event.Task.Status.Code != 7 || event.Task.Stdout.Bytes != 11 || event.Err != nil {
			e.Errorf("told of %+v", event)
		}
		ids = append(ids, event.Task.ID)
		if len(next) == 0 {
			break
		}
		end()
	}
	e.wantTold(ids, "task-3", "task-1", "task-2")
}

func taskEventsBefore(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	running := e.task(ctx, h, Sleep)
	var want []string
	for _, code := range []string{"0", "1", "2", "3"} {
		t := e.task(ctx, h, Print, "", "", code)
		e.taskEnd(ctx, t)
		want = append(want, t.ID())
	}
	e.wantTold(e.told(ctx, h, 4), want...)
	e.killTask(ctx, running)
	e.wantTold(e.told(ctx, h, 1), running.ID())
}

func taskEventsOnce(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for range 3 {
		e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	}
	e.wantTold(e.told(ctx, h, 1), "task-1")
	e.wantTold(e.told(ctx, h, 2), "task-2", "task-3")
	e.wantNothingToTell(ctx, h)
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	e.wantTold(e.told(ctx, h, 1), "task-4")
}

func taskEventsContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.wantNothingToTell(ctx, h)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	yields := 0
	for _, err := range h.Events(ended) {
		if yields++; !errors.Is(err, context.Canceled) {
			e.Errorf("Events with an ended context: %v", err)
		}
	}
	if yields != 1 {
		e.Errorf("Events with an ended context yields %d times, want one error", yields)
	}
	t := e.task(ctx, h, Print, "", "", "0")
	e.wantTold(e.told(ctx, h, 1), t.ID())
}

// taskEventsToldAtTheEnd ends the context of a loop while it handles an event.
func taskEventsToldAtTheEnd(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var ids []string
	for event, err := range h.Events(limited) {
		cancel()
		if err == nil {
			ids = append(ids, event.Task.ID)
		} else if !errors.Is(err, context.Canceled) {
			e.Errorf("Events: %v", err)
		}
	}
	e.wantTold(ids, "task-1")
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	e.wantTold(e.told(ctx, h, 1), "task-2")
}

func taskEventsConflict(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	for _, err := range h.Events(ctx) {
		if err != nil {
			e.Fatalf("Events: %v", err)
		}
		yields := 0
		for _, err := range h.Events(ctx) {
			yields++
			e.wantError(err, execution.ErrConflict, "Events while another loop goes on")
		}
		if yields != 1 {
			e.Errorf("a second loop is yielded %d times, want one error", yields)
		}
		break
	}
	// The first loop is over.
	e.taskEnd(ctx, e.task(ctx, h, Print, "", "", "0"))
	e.wantTold(e.told(ctx, h, 1), "task-2")
}

// wantSandboxEnd runs a loop that is told of a task, after which ends the
// sandbox.
func (e *env) wantSandboxEnd(ctx context.Context, h execution.Handle, end func(), target error) {
	e.Helper()
	for range 2 { // the second time after the end
		var kinds []execution.EventKind
		for event, err := range h.Events(ctx) {
			if err != nil {
				e.Fatalf("Events: %v", err)
			}
			if kinds = append(kinds, event.Kind); event.Kind == execution.EventSandboxEnded {
				e.wantError(event.Err, target, "the event of the sandbox's end")
			} else if end != nil {
				go end()
			}
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != execution.EventSandboxEnded {
			e.Errorf("told of %q, want the end of the sandbox at last", kinds)
		}
		end = nil
	}
}

func taskEventsDestroy(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.task(ctx, h, Print, "", "", "0")
	destroyed := make(chan error, 1)
	e.wantSandboxEnd(ctx, h, func() { destroyed <- h.Destroy(ctx) }, execution.ErrClosed)
	if err := await(ctx, e, destroyed, "Destroy returns"); err != nil {
		e.Errorf("Destroy: %v", err)
	}
}

func taskEventsDeath(ctx context.Context, e *env) {
	h := e.mortal(ctx)
	e.task(ctx, h, Print, "", "", "0")
	killed := make(chan struct{})
	e.wantSandboxEnd(ctx, h, func() {
		defer close(killed)
		e.killSandbox(h)
	}, execution.ErrLost)
	await(ctx, e, killed, "the sandbox has been killed")
}
