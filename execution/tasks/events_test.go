package tasks

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestEndingsAreToldOnceAndInOrder(t *testing.T) {
	s := newStage(t, Options{})
	var scripts []*script
	for range 4 {
		_, script := s.task(t, 0)
		scripts = append(scripts, script)
	}
	endInOrder := func(numbers ...int) {
		for _, i := range numbers {
			task, err := s.Task(t.Context(), taskID(int64(i)))
			if err != nil {
				t.Fatal(err)
			}
			scripts[i-1].exit(i)
			wait(t, task)
		}
	}
	endInOrder(3, 1)
	var told []string
	for event, err := range s.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, event.Task.ID)
		if len(told) == 2 {
			break // left, and so told
		}
	}
	endInOrder(4)
	ctx, cancel := context.WithCancel(t.Context())
	for event, err := range s.Events(ctx) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		told = append(told, event.Task.ID)
		if len(told) == 3 {
			endInOrder(2)
		} else {
			cancel()
		}
	}
	cancel()
	if want := "task-3 task-1 task-4 task-2"; len(told) != 4 || told[0]+" "+told[1]+" "+told[2]+" "+told[3] != want {
		t.Errorf("told of %v, want %s", told, want)
	}
	s.End(execution.ErrClosed)
	for event, err := range s.Events(t.Context()) {
		if err != nil || event.Kind != execution.EventSandboxEnded || !errors.Is(event.Err, execution.ErrClosed) {
			t.Errorf("after the end: %+v, %v", event, err)
		}
	}
}

func TestEventIsToldAgainUntilItWasHandled(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.exit(0)
	wait(t, task)
	func() {
		defer func() { _ = recover() }()
		for _, err := range s.Events(t.Context()) {
			panic(fmt.Sprint("the host dies ", err))
		}
	}()
	for range 2 {
		event, seq, err := s.NextEvent(t.Context(), 0)
		if err != nil || event.Task.ID != "task-1" || seq != 1 {
			t.Errorf("got %+v, %d, %v", event, seq, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, told := range []uint64{1, 0, 1 << 60} { // it stays told
		if _, _, err := s.NextEvent(ended, told); !errors.Is(err, context.Canceled) {
			t.Errorf("told of %d: %v", told, err)
		}
	}
	task, script = s.task(t, 0)
	script.exit(0)
	wait(t, task)
	if event, seq, err := s.NextEvent(t.Context(), 0); err != nil || event.Task.ID != "task-2" || seq != 2 {
		t.Errorf("got %+v, %d, %v", event, seq, err)
	}
}

func TestOneFollowerAtATime(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.exit(0)
	wait(t, task)
	for _, err := range s.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.NextEvent(t.Context(), 0); !errors.Is(err, execution.ErrConflict) {
			t.Errorf("NextEvent within a loop: %v", err)
		}
		for _, err := range s.Events(t.Context()) {
			if !errors.Is(err, execution.ErrConflict) {
				t.Errorf("a loop within a loop: %v", err)
			}
		}
		break
	}
}

func TestForgottenEndingsAreNotToldOf(t *testing.T) {
	s := newStage(t, Options{})
	s.maxEnded = 2
	for range 5 {
		task, script := s.task(t, 0)
		script.exit(0)
		wait(t, task)
	}
	if event, seq, err := s.NextEvent(t.Context(), 1); err != nil || event.Task.ID != "task-4" || seq != 4 {
		t.Errorf("got %+v, %d, %v", event, seq, err)
	}
}
