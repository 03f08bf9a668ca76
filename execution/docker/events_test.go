package docker

import (
	"context"
	"testing"
)

// A listEngine answers what it is told to when it is asked for containers.
type listEngine struct {
	engine

	answer func() []containerSummary
}

func (e listEngine) list(context.Context, ...string) ([]containerSummary, error) {
	return e.answer(), nil
}

// After a time without events, what the engine no longer has counts as
// destroyed; but not what is made while the engine is asked.
func TestResyncTellsTheGoneFromTheNew(t *testing.T) {
	var w *watcher
	w = newWatcher(listEngine{answer: func() []containerSummary {
		w.add("new")
		w.forget("forgotten")
		return []containerSummary{{ID: "frozen", State: "paused"}, {ID: "fine", State: "running"}}
	}}, "label")
	for _, id := range []string{"gone", "frozen", "fine", "forgotten"} {
		w.add(id)
	}
	w.resync(t.Context())
	for id, want := range map[string]fate{"gone": {destroyed: true}, "frozen": {paused: true}, "fine": {}, "new": {}} {
		got, _, err := w.look(id)
		if err != nil || got.destroyed != want.destroyed || got.paused != want.paused {
			t.Errorf("%s: destroyed %v, paused %v (%v); want %v and %v", id, got.destroyed, got.paused, err, want.destroyed, want.paused)
		}
	}
}
