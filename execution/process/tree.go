//go:build unix

package process

import (
	"context"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A launch is a command made ready: everything looked up, nothing relative.
type launch struct {
	path  string // of the program, absolute or relative to dir
	args  []string
	env   []string
	dir   string
	files [3]int // descriptors for stdin, stdout, stderr
	tty   bool   // the files are a terminal, to be the controlling one
}

// A launchError says which step of a start failed.
type launchError struct {
	stage launchStage
	err   error
}

type launchStage int

const (
	launchFork launchStage = iota + 1 // no process could be made
	launchSetup
	launchDir  // the directory could not be entered
	launchExec // the program could not be executed
)

func (e *launchError) Error() string { return e.err.Error() }
func (e *launchError) Unwrap() error { return e.err }

// A launcher starts commands. It is what differs between systems.
type launcher interface {
	// launch starts a command. A start that fails at a known step is a
	// *launchError.
	launch(ctx context.Context, l *launch) (tree, error)

	// provenKill says whether the trees know all that descends from a leader.
	provenKill() bool

	// oomKills counts how often the kernel has ended a process at the memory
	// limit that commands run under; it is false where nobody can tell.
	oomKills() (int64, bool)

	// close ends whatever still runs.
	close()
}

// A tree is a started command with all that descends from it.
type tree interface {
	// leader is the pid of the command itself, and of its process group.
	leader() int

	// ended is closed when the leader has ended; result is valid from then on.
	ended() <-chan struct{}
	result() leaderResult

	// drained is closed when nothing of the tree is alive, or nobody can tell
	// any more, which result then says.
	drained() <-chan struct{}

	// signal signals the leader's process group; it fails with
	// execution.ErrFinished when the leader has ended.
	signal(sig execution.Signal) error

	// terminate asks every process of the tree to end that is not in asked,
	// and puts it there.
	terminate(asked map[int]bool)

	// kill kills every process of the tree until it is drained, or until
	// giveUp is closed.
	kill(giveUp <-chan struct{})

	// leftovers lists what is alive.
	leftovers() []execution.ProcessInfo
}

// A leaderResult says how a leader ended.
type leaderResult struct {
	code         int              // where no signal ended it
	signal       execution.Signal // where one did
	reason       string           // where there is more to say
	lost         bool             // nobody knows how it ended
	untraced     bool             // nobody knows what is left
	user, system time.Duration
	at           time.Time
}
