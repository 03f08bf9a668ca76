package execution

import (
	"errors"
	"io/fs"
	"strings"
)

// The kinds of error, to be told apart with [errors.Is]. Those about files
// also match their counterparts in io/fs.
var (
	ErrInvalid         = kind("invalid", fs.ErrInvalid)               // the caller asked for something senseless
	ErrUnsupported     = kind("not supported", errors.ErrUnsupported) // the backend cannot do or enforce it
	ErrClosed          = kind("closed", fs.ErrClosed)                 // the handle was destroyed, or its context closed
	ErrLost            = kind("sandbox lost", nil)                    // the sandbox died by itself; the text says why
	ErrPaused          = kind("sandbox is paused", nil)               // frozen by somebody; resume it and try again
	ErrFinished        = kind("already ended", nil)                   // the process that was to be signalled
	ErrUnavailable     = kind("backend unavailable", nil)             // no engine answers, or too old a one
	ErrTimeout         = kind("backend did not answer in time", nil)  // a deadline on the backend itself
	ErrImage           = kind("image unavailable", nil)               // unknown, not pullable, other architecture
	ErrConflict        = kind("already in use", fs.ErrExist)          // a name that somebody has taken
	ErrDirNotFound     = kind("working directory not found", fs.ErrNotExist)
	ErrUserNotFound    = kind("user not found", nil)
	ErrCommandNotFound = kind("command not found", nil)    // what a shell reports as 127
	ErrCannotRun       = kind("cannot be executed", nil)   // what a shell reports as 126
	ErrNoShell         = kind("there is no shell", nil)    // a shell line in an image without one
	ErrNotFound        = kind("not found", fs.ErrNotExist) // a file
	ErrPermission      = kind("permission denied", fs.ErrPermission)
	ErrIsDir           = kind("is a directory", nil)
	ErrNotDir          = kind("not a directory", nil)
	ErrNoSpace         = kind("no space left", nil)
)

// A kindError is a sentinel that may also stand for one of another package.
type kindError struct {
	text string
	also error
}

func kind(text string, also error) error { return &kindError{text, also} }

func (k *kindError) Error() string        { return k.text }
func (k *kindError) Is(target error) bool { return k.also != nil && target == k.also }

// An Error is the one type of error that backends return.
type Error struct {
	Op      string // what was asked: "spawn", "start", "write file"
	Backend string // Context.Type; "" where it does not matter
	Handle  string // Handle.ID; "" before there is one
	Path    string // of the file or directory it is about, quoted in the text
	Err     error  // why; wraps one of the sentinels
}

// Error is "op: backend handle: path: why", without the parts that are empty.
func (e *Error) Error() string {
	var parts []string
	if e.Op != "" {
		parts = append(parts, e.Op)
	}
	if where := strings.TrimSpace(e.Backend + " " + e.Handle); where != "" {
		parts = append(parts, where)
	}
	if e.Path != "" {
		parts = append(parts, quotePath(e.Path))
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }
