package execution

import (
	"fmt"
	"time"
)

// An Ending says how a command ended. The zero value is no ending: a status
// that nobody filled in never reads as success.
type Ending string

// The endings of a command, exactly one of which holds.
const (
	EndingExited      Ending = "exited"        // by itself; Code holds
	EndingSignalled   Ending = "signalled"     // by a signal that was not ours; Signal holds
	EndingTimedOut    Ending = "timed_out"     // Command.Timeout ran out
	EndingCancelled   Ending = "cancelled"     // killed by the caller
	EndingOutOfMemory Ending = "out_of_memory" // killed by the kernel at the memory limit
	EndingOutputLimit Ending = "output_limit"  // wrote more than Command.OutputLimit
	EndingLost        Ending = "lost"          // the sandbox died; Reason says why
)

// An ExitStatus tells how a command ended.
type ExitStatus struct {
	Ending Ending `json:"ending"`

	// Code is the exit code for EndingExited, and -1 for every other ending.
	Code int `json:"code"`

	// Signal is what ended the leader, where a signal did.
	Signal Signal `json:"signal,omitempty"`

	// Reason is for people: why the sandbox was lost, which limit was hit.
	Reason string `json:"reason,omitempty"`

	// Leftovers are processes that the command started and that were alive
	// when Wait returned (at most MaxLeftovers of them). They live until
	// Process.Kill or the end of the handle. Their output is dropped.
	Leftovers []ProcessInfo `json:"leftovers,omitempty"`

	// Duration is the wall time from start to the end of the leader.
	Duration time.Duration `json:"duration_ns"`

	// UserTime and SystemTime are what the leader and the children that it
	// waited for used of the processor; 0 where unknown.
	UserTime   time.Duration `json:"user_time_ns"`
	SystemTime time.Duration `json:"system_time_ns"`

	// StdoutBytes and StderrBytes count what was handed to the writers.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
}

// MaxLeftovers is how many leftovers a status names at most.
const MaxLeftovers = 64

// ProcessInfo describes a process inside a sandbox.
type ProcessInfo struct {
	PID     int    `json:"pid"`     // as seen inside the sandbox
	Command string `json:"command"` // its arguments joined with spaces, at most 256 bytes
}

// Success reports whether the command exited by itself with code 0.
func (s ExitStatus) Success() bool { return s.Ending == EndingExited && s.Code == 0 }

// ShellCode is the exit code that a shell would report: the command's own, 124
// when it timed out, 128+n when signal n ended it, 137 when it ran out of
// memory, was cancelled or wrote too much, and 125 when its fate is unknown.
func (s ExitStatus) ShellCode() int {
	switch s.Ending {
	case EndingExited:
		return s.Code
	case EndingSignalled:
		return 128 + int(s.Signal)
	case EndingTimedOut:
		return 124
	case EndingOutOfMemory, EndingCancelled, EndingOutputLimit:
		return 137
	case EndingLost:
	}
	return 125
}

// String says it in words.
func (s ExitStatus) String() string {
	var text string
	switch s.Ending {
	case EndingExited:
		text = fmt.Sprintf("exited with code %d", s.Code)
	case EndingSignalled:
		text = fmt.Sprintf("ended by %s", s.Signal)
	case EndingTimedOut:
		text = "timed out"
	case EndingCancelled:
		text = "cancelled"
	case EndingOutOfMemory:
		text = "out of memory"
	case EndingOutputLimit:
		text = "output limit reached"
	case EndingLost:
		text = "sandbox lost"
	default:
		text = "ending unknown"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	if n := len(s.Leftovers); n > 0 {
		text += fmt.Sprintf(" (%d processes left running)", n)
	}
	return text
}
