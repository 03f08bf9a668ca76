//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// program finds what a command runs: the file, and the arguments with the name
// first.
func (h *handle) program(cmd execution.Command, dir string, env []string) (path string, args []string, err error) {
	if cmd.Shell == "" {
		path, err = findProgram(cmd.Args[0], dir, env)
		return path, cmd.Args, err
	}
	path, err = h.shell(dir, env)
	if err != nil {
		return "", nil, err
	}
	args = []string{path[strings.LastIndexByte(path, '/')+1:], "-c", cmd.Shell}
	if strings.HasPrefix(cmd.Shell, "-") || strings.HasPrefix(cmd.Shell, "+") {
		// The line is not to be taken for an option.
		args = []string{args[0], "-c", "--", cmd.Shell}
	}
	return path, args, nil
}

// shell finds the shell for shell lines.
func (h *handle) shell(dir string, env []string) (string, error) {
	if shell := h.context.opts.Shell; shell != "" {
		if err := checkProgram(shell); err != nil {
			return "", fmt.Errorf("%w: %q: %w", execution.ErrNoShell, shell, err)
		}
		return shell, nil
	}
	for _, name := range []string{"bash", "sh"} {
		if path, err := findProgram(name, dir, env); err == nil {
			return path, nil
		}
		if path := "/bin/" + name; checkProgram(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: neither bash nor sh in the PATH or in /bin; give the command as arguments", execution.ErrNoShell)
}

// findProgram looks for a program as a shell does. An error matches
// ErrCommandNotFound or ErrCannotRun.
func findProgram(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, checkProgram(resolve(dir, name))
	}
	path, ok := lookupEnv(env, "PATH")
	if !ok {
		path = defaultPath
	}
	var cannot error
	for folder := range strings.SplitSeq(path, ":") {
		// An empty element is the working directory, by an old custom.
		file := resolve(folder, name)
		if folder == "" {
			file = "./" + name
		}
		err := checkProgram(resolve(dir, file))
		if err == nil {
			return file, nil
		}
		if cannot == nil && !isNotFound(err) {
			cannot = err
		}
	}
	if cannot != nil {
		return "", cannot
	}
	return "", fmt.Errorf("%w in PATH %q", execution.ErrCommandNotFound, path)
}

// checkProgram reports why a file cannot be executed, as far as one can see
// without trying.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return programError(err)
	case info.IsDir():
		return because(execution.ErrCannotRun, execution.ErrIsDir)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", execution.ErrCannotRun)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return programError(err)
	}
	return nil
}

// programError says what it means that a program's file gave an error.
func programError(err error) error {
	mapped := mapError(err)
	if kind := kindOf(err); errors.Is(kind, execution.ErrNotFound) || errors.Is(kind, execution.ErrNotDir) {
		return notFoundError{because(execution.ErrCommandNotFound, mapped)}
	}
	return because(execution.ErrCannotRun, mapped)
}

// A notFoundError is about a place where there is no program; another may have
// it.
type notFoundError struct{ error }

func (e notFoundError) Unwrap() error { return e.error }

func isNotFound(err error) bool {
	var missing notFoundError
	return errors.As(err, &missing)
}
