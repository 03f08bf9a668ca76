package docker

import (
	"errors"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// newKeeper is a Context that keeps its sandboxes. The test closes it.
func newKeeper(t *testing.T) *Context {
	t.Helper()
	needEngine(t)
	opts := testOptions()
	opts.Keep = true
	c, err := New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A sandbox that is to be kept ends with its handle, all that ran in it too,
// and stays with its files until it is removed.
func TestKeep(t *testing.T) {
	t.Parallel()
	c := newKeeper(t)
	h := spawn(t, c, execution.Spec{})
	shell(t, h, "echo evidence >found; sleep 1000 &")
	for range 2 {
		if err := h.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Err(); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("the handle's end is %v, want that it is closed", err)
	}
	state, err := world.plain.ContainerInspect(t.Context(), h.ID())
	if err != nil || state.State.Running {
		t.Fatalf("after Destroy: running %v, %v", err == nil && state.State.Running, err)
	}
	changes, err := world.plain.ContainerDiff(t.Context(), h.ID())
	if err != nil || len(changes) == 0 {
		t.Errorf("nothing that the command did is there: %v, %v", changes, err)
	}

	// Closing keeps it as well; removing does not.
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	other := newBackend(t)
	if err := other.Remove(t.Context(), h.ID()); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if err := other.Remove(t.Context(), h.ID()); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("removing it again: %v, want ErrNotFound", err)
	}
}

// Remove removes what a Context keeps also while its handle lives.
func TestRemoveOfWhatIsKept(t *testing.T) {
	t.Parallel()
	c := newKeeper(t)
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := c.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy of what was removed: %v", err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) > 0 && list[0].Mine {
		t.Errorf("still listed: %+v, %v", list, err)
	}
}

// One that somebody else has removed is no longer owed to anybody.
func TestDestroyOfWhatWasToBeKeptAndIsGone(t *testing.T) {
	t.Parallel()
	c := newKeeper(t)
	h, err := c.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := newBackend(t).Remove(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	<-h.Done()
	for range 2 {
		if err := h.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
