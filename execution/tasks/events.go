package tasks

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
)

// Events is execution.Handle's.
func (r *Registry) Events(ctx context.Context) iter.Seq2[execution.Event, error] {
	return func(yield func(execution.Event, error) bool) {
		if err := r.claim(); err != nil {
			yield(execution.Event{}, r.fail("events", err))
			return
		}
		defer r.unclaim()
		told := uint64(0)
		for {
			event, seq, err := r.next(ctx, told)
			if err != nil {
				yield(execution.Event{}, r.fail("events", err))
				return
			}
			more := yield(event, nil)
			told = seq
			if !more || event.Kind == execution.EventSandboxEnded {
				r.tell(told)
				return
			}
		}
	}
}

// NextEvent waits for the first ending of a task whose number in the order of
// endings is greater than told, and that nobody has been told of; seq is its
// number. All endings up to told count as told from now on; 0 tells of none.
// It is what Events is made of, for servers that tell a host step by step. When
// the handle has ended, the event says that, and seq is told.
//
// It fails with ErrConflict while another call, or a loop over Events, waits.
func (r *Registry) NextEvent(ctx context.Context, told uint64) (event execution.Event, seq uint64, err error) {
	if err := r.claim(); err != nil {
		return event, 0, r.fail("events", err)
	}
	defer r.unclaim()
	if event, seq, err = r.next(ctx, told); err != nil {
		err = r.fail("events", err)
	}
	return event, seq, err
}

func (r *Registry) claim() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.following {
		return fmt.Errorf("%w: somebody else follows the events", execution.ErrConflict)
	}
	r.following = true
	return nil
}

func (r *Registry) unclaim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.following = false
}

// tell notes that everything up to seq has been told of.
func (r *Registry) tell(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = max(r.told, min(seq, r.forgotten+uint64(len(r.ended))))
}

func (r *Registry) next(ctx context.Context, told uint64) (execution.Event, uint64, error) {
	r.tell(told)
	for {
		t, seq, changed := r.untold()
		if t != nil {
			return execution.Event{Kind: execution.EventTaskEnded, Task: t.info()}, seq, ctx.Err()
		}
		select {
		case <-changed:
		case <-r.gone:
			if t, _, _ := r.untold(); t != nil {
				continue
			}
			return execution.Event{Kind: execution.EventSandboxEnded, Err: r.failure()}, told, nil
		case <-ctx.Done():
			return execution.Event{}, 0, cmp.Or(r.failure(), ctx.Err())
		}
	}
}

// untold finds the first ending that nobody was told of, or else a channel that
// is closed at the next one.
func (r *Registry) untold() (*task, uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq := max(r.told, r.forgotten) + 1
	if i := seq - r.forgotten - 1; i < uint64(len(r.ended)) {
		return r.ended[i], seq, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return nil, 0, r.changed
}
