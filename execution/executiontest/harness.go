package executiontest

import (
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// DefaultTimeout is how long a case may take where Harness.Timeout is not set.
// It is a watchdog for hangs, far above what any case needs.
const DefaultTimeout = 60 * time.Second

// A Harness tells the kit how to reach a backend. Only New is required; each
// hook that is left out skips what needs it.
type Harness struct {
	// New makes a backend for one case. The kit closes it.
	New func(tb testing.TB) execution.Context

	// Spec is what every sandbox of the kit is spawned from. Cases about
	// limits and other controls change single fields of it.
	Spec execution.Spec

	// Command says how the sandbox is made to do what script stands for; nil
	// means POSIX. A harness may answer for some scripts and pass on the
	// rest to POSIX. The kit adds stdin, writers, directory and so on.
	Command func(script Script, args ...string) execution.Command

	// Timeout is how long a case may take; 0 means DefaultTimeout.
	Timeout time.Duration

	// FakeClock runs each case in a bubble of testing/synctest, in which
	// waiting takes no time. It is for backends that live in memory.
	FakeClock bool

	// Subjects names the topics of the contract to check, such as "files"; none
	// means all. It is for a second look at a backend, with other settings.
	Subjects []string

	// Large adds the cases that move 1 GiB.
	Large bool

	// Kill makes the sandbox die from outside, behind the backend's back, as
	// an engine that removes a container does. It returns once the deed is
	// done, which may be before the backend knows.
	Kill func(tb testing.TB, h execution.Handle)

	// Alive tells, by a look from outside, whether the process that the
	// sandbox knows as pid is alive. The kit asks the sandbox as well.
	Alive func(tb testing.TB, h execution.Handle, pid int) bool

	// Inventory lists by a look from outside what the harness's backends have
	// made and that is still there: containers, processes, folders. The kit
	// wants it back as it was after Destroy, after Close and after a Spawn
	// that failed.
	Inventory func(tb testing.TB) []string

	// BindDir makes a folder of the host that the backend can bind into a
	// sandbox whose user may write there.
	BindDir func(tb testing.TB) string

	// NoShell is a spec of a sandbox that has no shell.
	NoShell *execution.Spec
}
