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
// From then on two goroutines of the client serve the stream. They end when
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
	"time"
)

// Defaults of [Options] and [Config].
const (
	DefaultHeartbeat = 5 * time.Second
	DefaultSilence   = 20 * time.Second
	DefaultLease     = 60 * time.Second
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
	// that does not match is wrapped so that it does. Nil means that the
	// sandbox lives, and the client keeps waiting where that makes sense:
	// after silence, up to maxSilences times in a row. ctx ends after
	// explainDeadline, and when the client is closed. Explain must not call
	// the client, other than Pause. Without Explain, cause is the answer.
	Explain func(ctx context.Context, cause error) error

	// Heartbeat is how often the guest is asked whether it lives; 0 means
	// DefaultHeartbeat. Silence is how long it may say nothing at all; 0
	// means DefaultSilence.
	Heartbeat, Silence time.Duration
}

// Config is what a guest is told when it is greeted. It travels over the
// stream only, so that nothing of it shows in what an engine tells of the
// container.
type Config struct {
	// Dir is the absolute working directory of commands and relative paths.
	// When it does not exist, Dial fails with ErrDirNotFound.
	Dir string

	// Env adds to the environment that the guest itself was started with, as
	// "NAME=value".
	Env []string

	// Lease is how long the guest goes on without hearing from its host; then
	// it kills everything and exits. Time during which the guest was frozen
	// does not count. 0 means DefaultLease.
	Lease time.Duration
}

// Facts is what a guest reported of itself and its surroundings when it was
// greeted. A guest may lie; these are for checking that an engine did what it
// was asked to before anything untrusted has run.
type Facts struct {
	Version    string // of the guest's binary
	Arch       string // GOARCH
	PID        int    // of the guest, as seen inside: 1 in a container
	UID, GID   int    //
	Dir        string // the working directory in force: Config.Dir, or the guest's own choice
	Shell      string // absolute path of the shell for Command.Shell; "" when there is none
	NoNewPrivs bool
	Seccomp    int // mode: 0 off, 1 strict, 2 filter; -1 unknown

	// Capability sets as in /proc/self/status.
	CapInheritable, CapPermitted, CapEffective, CapBounding, CapAmbient uint64

	Limits CgroupLimits
}

// CgroupLimits are limits as read from the cgroup files inside. In each, 0
// means unknown and -1 unlimited.
type CgroupLimits struct {
	Memory    int64 // in bytes
	Swap      int64 // in bytes, on top of Memory; NoSwap when there is a limit and it is 0
	PIDs      int64
	CPUQuota  int64 // in microseconds per CPUPeriod
	CPUPeriod int64 // in microseconds
}

// NoSwap stands in CgroupLimits.Swap for a limit of zero bytes.
const NoSwap = -2
