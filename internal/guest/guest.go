// Package guest is the host's side of the guest: the process that runs inside
// a sandbox and carries out every operation there.
//
// # The life of a client
//
// A backend starts the guest (package guestbin has the binary) somewhere and
// gets hold of one stream to its standard input and output. [Dial] greets the
// guest on that stream, tells it its [Config] and gets a [Client], which has
// the methods of an [execution.Handle] that do the work: Start, OpenFile,
// WriteFile, Stat, Lstat, List, Glob. A backend's handle embeds or delegates
// to it and adds the rest (ID, Spec, Destroy).
//
// From then on three goroutines of the client serve the stream. They end when
// the client does: by [Client.Close], or because the sandbox was lost. Before
// the client concludes the latter it asks Options.Explain, since only the
// backend can look at the sandbox from outside. After the end every pending
// and later call fails with [Client.Err].
//
// # Trust
//
// The guest runs with the rights of the commands that it runs, and so may have
// been taken over by one. Every length, count, number and name that it sends
// is bounded and checked here; a guest that breaks the protocol is a sandbox
// lost. What it costs the host is bounded by the credit it was given.
package guest

import (
	"context"
	"io"
	"time"

	"github.com/pinfold-dev/pinfold/internal/guest/proto"
)

// Defaults of [Options] and [Config].
const (
	DefaultHeartbeat = 5 * time.Second
	DefaultSilence   = 20 * time.Second
	DefaultLease     = proto.DefaultLease
)

const (
	// maxSilences is how often in a row Explain may say that a silent guest
	// lives: then it is lost all the same.
	maxSilences = 5

	// minHeartbeat keeps a guest that tells of a lease of no time from keeping
	// its host busy.
	minHeartbeat = 50 * time.Millisecond

	// explainDeadline bounds one call of Explain.
	explainDeadline = 15 * time.Second
)

// Options says how to talk to a guest. The zero value works.
type Options struct {
	// Backend and Handle name the sandbox in errors: Context.Type and
	// Handle.ID.
	Backend, Handle string

	// Config is what the guest is told.
	Config Config

	// Explain is asked why the guest is not heard of any more: the stream
	// ended, the guest broke the protocol, or was silent for Silence. Cause
	// says which. It looks at the sandbox and returns the error that every
	// pending and later call is to fail with, which should match
	// [execution.ErrLost] and say why ("out of memory", "removed"); an error
	// that does not match is wrapped so that it does, but for ErrUnavailable
	// and ErrTimeout, which say that nobody knows. Nil means that the
	// sandbox lives, and the client keeps waiting where that makes sense:
	// after silence, up to maxSilences times in a row. ctx ends after
	// explainDeadline, and when the client is closed. Explain must not call
	// the client, other than Pause. Without Explain, cause is the answer.
	Explain func(ctx context.Context, cause error) error

	// Redial opens a connection to the socket that Config.Socket names, when
	// the one there was has broken and Explain says that the sandbox lives or
	// that it does not know. It is tried again until the lease has run out.
	// Without it, or without Config.Key, a connection that breaks is the loss
	// of the sandbox.
	Redial func(ctx context.Context) (io.ReadWriteCloser, error)

	// Heartbeat is how often the guest is asked whether it lives; 0 means
	// DefaultHeartbeat, or a third of the lease where that is less. Silence is how long it may say nothing at all; 0
	// means DefaultSilence.
	Heartbeat, Silence time.Duration
}

// What "pinfold-guest dial" says on its standard error: that it has reached the
// guest, or that there is none.
const (
	Connected     = proto.Connected
	NobodyListens = proto.NobodyListens
)

// Config is what a guest is told when it is greeted.
type Config = proto.Config

// Facts is what a guest reported of itself and its surroundings when it was
// greeted.
type Facts = proto.Facts

// CgroupLimits are limits as read from the cgroup files inside.
type CgroupLimits = proto.CgroupLimits

// Values of CgroupLimits that are not limits.
const (
	Unlimited    = proto.Unlimited    // there is none
	UnknownLimit = proto.UnknownLimit // the files do not tell
)
