package docker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// reluctant is an engine whose removals go as scripted.
type reluctant struct {
	engine
	removals []error
	waits    error
	inspects error
	asked    int
}

func (r *reluctant) remove(context.Context, string) error {
	err := r.removals[min(r.asked, len(r.removals)-1)]
	r.asked++
	return err
}

func (r *reluctant) waitRemoved(context.Context, string) error { return r.waits }

func (r *reluctant) inspect(context.Context, string) (containerState, error) {
	return containerState{}, r.inspects
}

// A container counts as removed when it is gone, whoever removes it; a removal
// that fails is tried again, and an engine that is stuck or away is not asked
// on and on.
func TestRemovalEndsWhenTheContainerIsGone(t *testing.T) {
	gone := fmt.Errorf("%w: no such container", execution.ErrNotFound)
	busy := errors.New("driver failed to remove root filesystem: device or resource busy")
	for name, row := range map[string]struct {
		engine reluctant
		asked  int
		want   error
	}{
		"removed":                      {reluctant{removals: []error{nil}}, 1, nil},
		"gone before":                  {reluctant{removals: []error{gone}}, 1, nil},
		"being removed by another":     {reluctant{removals: []error{errRemoving}, inspects: gone}, 1, nil},
		"gone while it was waited for": {reluctant{removals: []error{errRemoving}, waits: gone}, 1, nil},
		"another's removal failed":     {reluctant{removals: []error{errRemoving, nil}}, 2, nil},
		"busy at first":                {reluctant{removals: []error{busy, busy, nil}}, 3, nil},
		"engine away":                  {reluctant{removals: []error{execution.ErrUnavailable}}, 1, execution.ErrUnavailable},
		"engine stuck":                 {reluctant{removals: []error{execution.ErrTimeout}}, 1, execution.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Context{engine: &row.engine}
			if err := c.removeContainer(t.Context(), "x"); !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if row.engine.asked != row.asked {
				t.Errorf("asked %d times, want %d", row.engine.asked, row.asked)
			}
		})
	}
}
