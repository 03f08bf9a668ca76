package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/pinfold-dev/pinfold/execution"
)

// Exit codes of pinfold itself. Every other one is the command's.
const (
	exitOK        = 0
	exitUnfit     = 1 // doctor: a sandbox could not run
	exitFailed    = 125
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // and the signal's number is added

	sigpipe = 13 // Linux's number, as all of execution's
)

// A usageError is a mistake in the arguments. Its text says what would be
// right.
type usageError struct {
	command string // to ask for help about
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nSee '%s --help'.", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

// A codeError ends pinfold with a code, and with no message where err is nil.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// exitCode is what pinfold ends with when err stopped it.
func exitCode(err error) int {
	var coded *codeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, syscall.EPIPE):
		return exitSignal + sigpipe // as if the signal had ended it, which is what a shell expects
	case errors.Is(err, execution.ErrCommandNotFound), errors.Is(err, execution.ErrNoShell):
		return exitNotFound
	case errors.Is(err, execution.ErrCannotRun):
		return exitCannotRun
	}
	return exitFailed
}

// errorKind names the kind of err for scripts: one word for each of
// execution's sentinels.
func errorKind(err error) string {
	for _, kind := range []struct {
		err  error
		name string
	}{
		{execution.ErrUnavailable, "unavailable"},
		{execution.ErrTimeout, "backend_timeout"},
		{execution.ErrImage, "image"},
		{execution.ErrConflict, "conflict"},
		{execution.ErrFinished, "finished"},
		{execution.ErrDirNotFound, "directory_not_found"},
		{execution.ErrUserNotFound, "user_not_found"},
		{execution.ErrCommandNotFound, "command_not_found"},
		{execution.ErrCannotRun, "cannot_run"},
		{execution.ErrNoShell, "no_shell"},
		{execution.ErrLost, "lost"},
		{execution.ErrPaused, "paused"},
		{execution.ErrUnsupported, "unsupported"},
		{execution.ErrInvalid, "invalid"},
		{execution.ErrNoSpace, "no_space"},
		{execution.ErrPermission, "permission"},
		{execution.ErrNotFound, "not_found"},
	} {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "other"
}

// explain adds to the error of a run what its user can do about it; how to get
// an engine the backend has said.
func explain(err error, p *plan) string {
	text, args := err.Error(), p.command.Args
	switch {
	case errors.Is(err, execution.ErrUnavailable) && p.attach == nil && !p.detach:
		text += "\n'pinfold doctor' looks closer. To run the command on this host instead, with no isolation " +
			"whatsoever: pinfold run --backend process"
	case errors.Is(err, execution.ErrUnavailable):
		text += "\n'pinfold doctor' looks closer."
	case !errors.Is(err, execution.ErrCommandNotFound) || len(args) == 0:
	case len(args) == 1 && strings.Contains(args[0], " "):
		text += "\nA shell line goes to -c LINE"
	case strings.Contains(args[0], ":") && p.attach == nil:
		text += "\nThe first word is the command. An image goes to --image: pinfold run --image IMAGE -- CMD"
	}
	return text
}
