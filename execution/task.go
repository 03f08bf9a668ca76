package execution

import (
	"context"
	"io"
	"time"
)

// A Task is a command that runs in the background of a handle, and is kept
// track of there: what it wrote, and how it ended. It ends with the handle,
// and outlives the host that started it for as long as the sandbox does.
//
// All methods may be called from many goroutines at once. Several Tasks may
// stand for the same command; each says the same of it.
type Task interface {
	// ID names the task, uniquely within its handle and never given again:
	// "task-1", "task-2" and so on, in the order of their start.
	ID() string

	// Info tells what is known of the task now.
	Info(ctx context.Context) (TaskInfo, error)

	// Wait waits until the task has ended, and tells how. When ctx ends first
	// the error is ctx's, and the task goes on. Any number of callers may
	// wait, also for a task that has ended long ago.
	Wait(ctx context.Context) (TaskInfo, error)

	// OpenOutput reads what the task wrote on one of its streams. An offset
	// past what was written fails with ErrInvalid, and says how much that is.
	OpenOutput(ctx context.Context, stream OutputStream, opts OutputOptions) (OutputReader, error)

	// Signal sends sig to the task's process group. After the task has ended
	// it fails with ErrFinished.
	Signal(ctx context.Context, sig Signal) error

	// Kill ends the task with everything that descends from it; its promise
	// is [Process.Kill]'s. Killing what has ended kills its leftovers, and is
	// no error.
	Kill(ctx context.Context) error
}

// An OutputReader reads the output of a task. Where the task has written more
// than is kept, what is missing is passed over, and Offset tells.
type OutputReader interface {
	// Read returns bytes that follow each other in the stream, and io.EOF at
	// the end of what was asked for. With OutputOptions.Follow it waits for
	// more until the task has ended.
	//
	// Closing, the end of the context that it was opened with, and the end of
	// the sandbox make a Read that waits return.
	io.ReadCloser

	// Offset is the position in the stream right after the last byte that
	// Read returned. So what a Read of n bytes returned began at Offset()-n;
	// where that is more than Offset was before, the bytes between were
	// dropped. It is for the goroutine that reads.
	Offset() int64
}

// An OutputStream names one of a command's two streams.
type OutputStream uint8

// The streams of a command. A command on a terminal has only Stdout.
const (
	Stdout OutputStream = 1
	Stderr OutputStream = 2
)

// String is the stream's usual name.
func (s OutputStream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown stream"
}

// OutputOptions says which part of a stream to read. The zero value is all
// that is there now.
type OutputOptions struct {
	// Offset is where to begin, in bytes from the start of the stream. A
	// negative one counts from what is the end now: -100 is the last hundred
	// bytes, or all when there are fewer.
	Offset int64

	// Length is how many bytes to read at most; 0 means no bound.
	Length int64

	// Follow waits for more at the end of what is there, until the task has
	// ended.
	Follow bool
}

// TaskOptions says how a task is kept track of. The zero value works.
type TaskOptions struct {
	// Keep is how many bytes of output are kept, half of them for each
	// stream; of those, half from its start and half from its end. 0 means
	// DefaultTaskOutput, more than MaxTaskOutput fails with ErrInvalid. What
	// is kept takes memory of the sandbox.
	Keep int64
}

// Bounds on what is kept of tasks.
const (
	// DefaultTaskOutput is how much of a task's output is kept where
	// TaskOptions.Keep is not set, in bytes.
	DefaultTaskOutput = 16 << 20

	// MaxTaskOutput is how much can be kept of one task, in bytes.
	MaxTaskOutput = 256 << 20

	// MaxEndedOutput is how much is kept of all tasks of a handle that have
	// ended, in bytes: beyond it the output of those that ended first goes.
	MaxEndedOutput = 256 << 20

	// MaxEndedTasks is how many tasks that have ended a handle remembers:
	// beyond it those that ended first are forgotten.
	MaxEndedTasks = 16384
)

// A TaskInfo tells of a task. Nothing in it is to be trusted: it is what the
// sandbox says.
type TaskInfo struct {
	ID string `json:"id"`

	// Args or Shell is the command, and Dir its directory, as they were
	// given. An argument list or line is cut to MaxTaskCommand bytes.
	Args  []string `json:"args,omitempty"`
	Shell string   `json:"shell,omitempty"`
	Dir   string   `json:"dir,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero while it runs

	// Status is how it ended; its Ending is "" while it runs.
	Status ExitStatus `json:"status"`

	// Stdout and Stderr count the output.
	Stdout OutputInfo `json:"stdout"`
	Stderr OutputInfo `json:"stderr"`
}

// MaxTaskCommand is how much of its command a TaskInfo tells, in bytes.
const MaxTaskCommand = 4 << 10

// Running reports whether the task has not ended.
func (i TaskInfo) Running() bool { return i.Status.Ending == "" }

// State is "running", or the task's Ending.
func (i TaskInfo) State() string {
	if i.Running() {
		return "running"
	}
	return string(i.Status.Ending)
}

// An OutputInfo counts the output of one stream of a task.
type OutputInfo struct {
	Bytes   int64 `json:"bytes"`   // written so far
	Dropped int64 `json:"dropped"` // of those, no longer kept
}

// An Event is something that happened in a sandbox by itself.
type Event struct {
	Kind EventKind
	Task TaskInfo // of EventTaskEnded
	Err  error    // of EventSandboxEnded: Handle.Err
}

// An EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventTaskEnded    EventKind = "task_ended"
	EventSandboxEnded EventKind = "sandbox_ended"
)
