//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// resolve makes a path absolute. Nothing is cleaned: "link/.." is not what it
// looks like.
func resolve(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	if path == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// checkPath reports what is wrong with the path of a file.
func checkPath(path string) error {
	if path == "" {
		return fmt.Errorf("%w: path is empty", execution.ErrInvalid)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("%w: path holds a NUL byte", execution.ErrInvalid)
	}
	return nil
}

// checkDir reports why a directory cannot be worked in.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return dirError(err)
	}
	if !info.IsDir() {
		return dirError(unix.ENOTDIR)
	}
	return nil
}

// A workDirError says that it is the working directory an error is about.
type workDirError struct{ error }

func (e workDirError) Unwrap() error { return e.error }

func dirError(err error) error {
	mapped := mapError(err)
	if errors.Is(mapped, execution.ErrNotFound) || errors.Is(mapped, execution.ErrNotDir) {
		mapped = because(execution.ErrDirNotFound, mapped)
	}
	return workDirError{mapped}
}

func isAboutDir(err error) bool {
	var about workDirError
	return errors.As(err, &about)
}

// mapError turns what the kernel says into the sentinels of package execution,
// and keeps the kernel's words. The path of an *fs.PathError is left out: the
// caller names the path as it was given.
func mapError(err error) error {
	if outer, ok := err.(*fs.PathError); ok { //nolint:errorlint // only the outermost is ours
		err = outer.Err
	}
	kind := kindOf(err)
	if kind == nil {
		return err
	}
	return because(kind, err)
}

func kindOf(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.ENOENT:
		return execution.ErrNotFound
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return execution.ErrPermission
	case unix.EISDIR:
		return execution.ErrIsDir
	case unix.ENOTDIR:
		return execution.ErrNotDir
	case unix.ENOSPC, unix.EDQUOT:
		return execution.ErrNoSpace
	case unix.ENAMETOOLONG, unix.ELOOP, unix.EINVAL, unix.ENXIO, unix.E2BIG:
		return execution.ErrInvalid
	}
	return nil
}
