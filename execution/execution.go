package execution

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"
)

// A Context is a backend: something that can make sandboxes.
//
// All methods may be called from many goroutines at once.
type Context interface {
	// Type names the backend: "docker", "process". It is for people and logs;
	// what a backend can do is asked of Capabilities.
	Type() string

	// Capabilities says what this backend can do and enforce. It does not
	// change over the life of the Context.
	Capabilities() Capabilities

	// Spawn makes a sandbox. ctx bounds the making, not the sandbox's life.
	//
	// A field of spec that the backend cannot honour fails the call with
	// ErrUnsupported or ErrInvalid and names the field. When Spawn fails,
	// nothing that it made is left.
	Spawn(ctx context.Context, spec Spec) (Handle, error)

	// Close destroys the handles that are still alive and releases what the
	// Context holds. It bounds its own time. Later calls fail with ErrClosed;
	// closing again does nothing.
	Close() error
}

// A Handle is one living sandbox.
//
// All methods may be called from many goroutines at once, and one slow call
// never blocks another. After Destroy they fail with ErrClosed, after the death
// of the sandbox with an error that matches ErrLost and says why.
//
// A path is bytes, not text: any byte but NUL may stand in it. A relative path
// is relative to Dir. Paths are handed to the kernel as they are, never to a
// shell.
type Handle interface {
	// ID names the sandbox, uniquely within its backend.
	ID() string

	// Dir is the absolute working directory inside the sandbox.
	Dir() string

	// Spec is what is in force: the spec given to Spawn with every default
	// filled in. Its Env is left out, since that may hold secrets.
	Spec() Spec

	// Start starts a command. ctx bounds the start, not the command.
	//
	// It fails with ErrDirNotFound when the command's directory does not
	// exist, ErrCommandNotFound when there is no such program, ErrCannotRun
	// when there is one that cannot be executed, and ErrNoShell when a shell
	// line was given and the sandbox has no shell. The caller must Wait for
	// what was started.
	Start(ctx context.Context, cmd Command) (Process, error)

	// OpenFile opens a file for reading from opts.Offset on. Closing early is
	// allowed and stops the transfer; later reads fail with ErrClosed, and
	// closing again does nothing. A directory fails with ErrIsDir. Special
	// files (devices, FIFOs, sockets) fail with ErrInvalid.
	OpenFile(ctx context.Context, path string, opts ReadOptions) (io.ReadCloser, error)

	// WriteFile writes everything that r yields to path. It is atomic: the
	// file is seen whole or as it was before, also when r fails midway or the
	// sandbox dies. Missing parent directories are made with mode 0755. A
	// replaced file keeps its mode and, where permitted, its owner; a new one
	// gets opts.Mode. A symbolic link is followed: what it points to is
	// replaced, the link stays.
	WriteFile(ctx context.Context, path string, r io.Reader, opts WriteOptions) error

	// Stat describes what path names, following symbolic links; Lstat does
	// not follow the last one. Both fail with ErrNotFound when it is missing.
	Stat(ctx context.Context, path string) (FileInfo, error)
	Lstat(ctx context.Context, path string) (FileInfo, error)

	// List yields the entries of a directory, in order of their name bytes,
	// without following links. It ends after yielding an error.
	List(ctx context.Context, dir string) iter.Seq2[FileInfo, error]

	// Glob yields what matches pattern (doublestar syntax, "**" crosses
	// directories) below dir, in order of their path bytes. FileInfo.Name is
	// the path relative to dir. Hidden names match like others. Links to
	// directories are not followed. It ends after yielding an error. A pattern
	// that leads out of dir, or whose braces stand for more than a thousand
	// patterns, fails with ErrInvalid.
	Glob(ctx context.Context, dir, pattern string) iter.Seq2[FileInfo, error]

	// StartTask starts a command in the background; see [Task]. It fails as
	// Start does, and with ErrInvalid when the command has a reader or
	// writers: a task's input is empty, and its output is kept. ctx bounds the
	// start, not the task.
	StartTask(ctx context.Context, cmd Command, opts TaskOptions) (Task, error)

	// Task finds a task by its ID, also one that has ended or that another
	// host started. It fails with ErrNotFound when there is none, and then
	// says which there are.
	Task(ctx context.Context, id string) (Task, error)

	// Tasks yields all tasks in the order of their start, those that have
	// ended too. It ends after yielding an error.
	Tasks(ctx context.Context) iter.Seq2[TaskInfo, error]

	// Events yields the endings of tasks in their order, each once, also those
	// before the call that nobody was told of; at last the end of the sandbox,
	// after which it is over. An event counts as told when the loop that
	// ranges over it asks for the next one, or is left: so a host that dies
	// while it handles one is told again when it attaches.
	//
	// One loop at a time: a second one is yielded an error that matches
	// ErrConflict. It ends after yielding an error; when ctx ends, ctx's.
	Events(ctx context.Context) iter.Seq2[Event, error]

	// Done is closed when the sandbox has been destroyed or has died.
	Done() <-chan struct{}

	// Err is nil while the sandbox lives. After Destroy it matches ErrClosed,
	// after a death ErrLost, and then says why.
	Err() error

	// Destroy ends everything that runs in the sandbox and removes everything
	// that Spawn made. It is idempotent, safe from many goroutines, and quick:
	// nothing is asked to stop politely. When ctx ends first, the error says
	// what may be left, and calling again goes on.
	Destroy(ctx context.Context) error
}

// A Process is a command that was started.
type Process interface {
	// Wait waits until the command has ended and all of its output has been
	// handed to the command's writers. Any number of callers may wait, and
	// each gets the same answer, also later.
	//
	// The error is nil whenever the ending is known. When ctx ends first the
	// error is ctx's and the command goes on. When the sandbox died, the
	// status says EndingLost and the error matches ErrLost. When a writer or
	// the stdin reader failed, the command was killed, the status says so,
	// and the error wraps theirs.
	Wait(ctx context.Context) (ExitStatus, error)

	// Signal sends sig to the command's process group. After the command has
	// ended it fails with ErrFinished.
	Signal(ctx context.Context, sig Signal) error

	// Kill ends the command and every process that descends from it: SIGTERM,
	// the command's grace, SIGKILL. When it returns nil, none of them is
	// alive, also none that forked twice, called setsid, ignored SIGTERM or
	// cleared its environment. The status then says EndingCancelled. Killing
	// what has ended kills its leftovers, and is no error.
	Kill(ctx context.Context) error
}

// A Resizer is a [Process] that runs on a terminal whose size can be changed.
type Resizer interface {
	Resize(ctx context.Context, size TerminalSize) error
}

// A Command says what to run. Exactly one of Args and Shell is set.
type Command struct {
	// Args is the program and its arguments. A program without a slash is
	// looked for in the PATH of the command's environment.
	Args []string

	// Shell is a line for the sandbox's shell (bash where there is one, else
	// sh). It is the only thing that a shell ever gets to see.
	Shell string

	// Dir is the working directory; relative to Handle.Dir, which is the
	// default.
	Dir string

	// Env adds to the sandbox's environment, as "NAME=value"; of two with the
	// same name the later one counts. It never shows in an argument list or
	// in what the engine tells of the container.
	Env []string

	// Stdin is what the command reads; nil means that it is empty. End of
	// file is passed on. It is read until the command ends: a Read that
	// blocks for longer than that is left behind, as in os/exec.
	Stdin io.Reader

	// Stdout and Stderr get the output as it comes, byte for byte, each from
	// one goroutine at a time; nil drops it. A slow writer slows down the
	// command. A failing one ends it. With a TTY all output goes to Stdout.
	Stdout, Stderr io.Writer

	// Timeout ends the command and all its descendants once it has run for
	// that long. 0 means none; there is no hidden limit.
	Timeout time.Duration

	// OutputLimit is how many bytes both streams may carry together; one more
	// ends the command. 0 means no limit.
	OutputLimit int64

	// Grace is how long a command may take to end between SIGTERM and
	// SIGKILL. 0 means DefaultGrace, negative means none.
	Grace time.Duration

	// TTY, when not nil, runs the command on a terminal of that size.
	TTY *TerminalSize
}

// DefaultGrace is the time between SIGTERM and SIGKILL where Command.Grace is
// not set. It is short because an agent waits, and because a program that
// does clean up on SIGTERM rarely needs longer.
const DefaultGrace = 500 * time.Millisecond

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Rows, Cols uint16
}

// ReadOptions says which part of a file to read. The zero value is all of it.
type ReadOptions struct {
	Offset int64 // in bytes from the start; past the end reads nothing
	Length int64 // at most that many bytes; 0 means up to the end
}

// WriteOptions says how to write a file.
type WriteOptions struct {
	// Mode is the mode of a new file; 0 means 0644. The umask is not applied.
	Mode fs.FileMode
}

// A FileInfo describes a file in a sandbox. Nothing in it is to be trusted: it
// is what the sandbox says.
type FileInfo struct {
	Name     string // last element of the path, or the path relative to the glob's directory
	Size     int64  // in bytes
	Mode     fs.FileMode
	ModTime  time.Time // within the years 1 to 9999; the nearest of those where the file says another
	UID, GID uint32
	Target   string // of a symbolic link, as it is written there
}

// IsDir reports whether it is a directory.
func (i FileInfo) IsDir() bool { return i.Mode.IsDir() }
