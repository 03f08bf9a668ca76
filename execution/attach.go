package execution

import (
	"context"
	"fmt"
	"time"
)

// An Attacher is a [Context] whose sandboxes outlive a host that dies, so that
// another one can go on with them; see [Capabilities].
type Attacher interface {
	// Sandboxes lists what there is, the oldest first, also what other hosts
	// have made.
	Sandboxes(ctx context.Context) ([]SandboxInfo, error)

	// Attach makes a handle of a sandbox that was made before, by this host or
	// by another one. Its tasks, files and records are as they were; the
	// commands that another host had started in the foreground have ended.
	//
	// id is an ID, the start of one that fits no other, or a name. The error
	// matches ErrNotFound when there is none, and then says which are near;
	// ErrConflict when another host holds it, see AttachOptions; ErrUnsupported
	// when its guest is of another version; ErrLost when it has ended.
	Attach(ctx context.Context, id string, opts AttachOptions) (Handle, error)
}

// AttachOptions says how to attach. The zero value attaches to a sandbox that
// nobody else holds, and keeps others away.
type AttachOptions struct {
	Mode AttachMode
}

// An AttachMode says what becomes of other hosts of the same sandbox.
type AttachMode string

// The ways to attach.
const (
	// AttachExclusive is refused with ErrConflict while somebody holds the
	// sandbox, and refuses others. Who has no connection to it at that moment
	// does not hold it.
	AttachExclusive AttachMode = ""

	// AttachTakeOver ends what other hosts run in the foreground: their
	// handles fail with ErrLost, which says so.
	AttachTakeOver AttachMode = "take_over"

	// AttachShared shares the sandbox with others that do so too. Each has its
	// own commands; tasks and files are everybody's.
	AttachShared AttachMode = "shared"
)

// A Detacher is a [Handle] whose sandbox can be left alone.
type Detacher interface {
	// Detach lets go of the sandbox without ending it. Commands in the
	// foreground end; tasks, and what ended commands have left behind, go on.
	// It then lives until its lease runs out, or
	// where it was spawned with Spec.Detach until its lifetime does. The
	// handle's later calls fail with ErrClosed.
	Detach(ctx context.Context) error
}

// Detach lets go of a sandbox; see [Detacher]. It fails with ErrUnsupported
// where the backend's sandboxes cannot live alone.
func Detach(ctx context.Context, h Handle) error {
	if d, ok := h.(Detacher); ok {
		return d.Detach(ctx)
	}
	return &Error{Op: "detach", Handle: h.ID(), Err: fmt.Errorf("%w by this backend", ErrUnsupported)}
}

// A SandboxInfo tells of a sandbox, whoever made it.
type SandboxInfo struct {
	ID      string            `json:"id"`               // as Handle.ID
	Name    string            `json:"name"`             // as Spec.Name
	Image   string            `json:"image"`            // as Spec.Image
	State   string            `json:"state"`            // "running", "paused", "exited" and so on, in the backend's words
	Status  string            `json:"status"`           // the same for people: "Up 2 minutes"
	Created time.Time         `json:"created"`          // by the backend's clock
	Owner   string            `json:"owner"`            // whose it is
	Process string            `json:"process"`          // which process made it: "host:pid:start"
	Mine    bool              `json:"mine"`             // made by this Context
	Detach  bool              `json:"detach"`           // as Spec.Detach
	Expires time.Time         `json:"expires,omitzero"` // when its lifetime ends; zero without one
	Labels  map[string]string `json:"labels"`           // as Spec.Labels
}
