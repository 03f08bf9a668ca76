package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// twins is a backend with two sandboxes whose IDs start alike.
type twins struct{ *staying }

func (twins) Sandboxes(context.Context) ([]execution.SandboxInfo, error) {
	return []execution.SandboxInfo{{ID: "0123456789ab", Name: "a"}, {ID: "0123ffffffff", Name: "b"}}, nil
}

func (t twins) Attach(_ context.Context, id string, _ execution.AttachOptions) (execution.Handle, error) {
	if id == "0123" {
		return nil, fmt.Errorf("%w: 2 sandboxes have an ID that starts so", execution.ErrConflict)
	}
	return nil, fmt.Errorf("%w: another host holds it", execution.ErrConflict)
}

// A sandbox that cannot be asked is told of all the same; one that may be either
// of two is not.
func TestInspectOfWhatIsNotClear(t *testing.T) {
	t.Parallel()
	_, stays := newStayingApp(t, say("", 0))
	list, err := inspect(t.Context(), twins{stays}, []string{"a", "0123f"})
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" || list[1].Unasked == "" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := inspect(t.Context(), twins{stays}, []string{"0123"}); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("%+v, %v", list, err)
	}
}
