//go:build unix

package process

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// What the kernel says is told once, in the words of the contract or in its
// own, and both can be asked for.
func TestReasonsAreToldOnce(t *testing.T) {
	for _, row := range []struct {
		err   error
		kind  error
		errno unix.Errno
		want  string
	}{
		{mapError(unix.ENOENT), execution.ErrNotFound, unix.ENOENT, "not found"},
		{mapError(unix.EACCES), execution.ErrPermission, unix.EACCES, "permission denied"},
		{mapError(unix.EPERM), execution.ErrPermission, unix.EPERM, "permission denied: operation not permitted"},
		{mapError(unix.EROFS), execution.ErrPermission, unix.EROFS, "permission denied: read-only file system"},
		{mapError(unix.EISDIR), execution.ErrIsDir, unix.EISDIR, "is a directory"},
		{mapError(unix.ENOTDIR), execution.ErrNotDir, unix.ENOTDIR, "not a directory"},
		{mapError(unix.ENOSPC), execution.ErrNoSpace, unix.ENOSPC, "no space left on device"},
		{mapError(unix.EDQUOT), execution.ErrNoSpace, unix.EDQUOT, "no space left: disk quota exceeded"},
		{mapError(unix.ELOOP), execution.ErrInvalid, unix.ELOOP, "invalid: too many levels of symbolic links"},
		{dirError(unix.ENOENT), execution.ErrDirNotFound, unix.ENOENT, "working directory not found"},
		{dirError(unix.ENOTDIR), execution.ErrDirNotFound, unix.ENOTDIR, "working directory not found: not a directory"},
		{dirError(unix.EACCES), execution.ErrPermission, unix.EACCES, "permission denied"},
		{programError(unix.ENOENT), execution.ErrCommandNotFound, unix.ENOENT, "command not found"},
		{programError(unix.ENOTDIR), execution.ErrCommandNotFound, unix.ENOTDIR, "command not found: not a directory"},
		{programError(unix.EACCES), execution.ErrCannotRun, unix.EACCES, "cannot be executed: permission denied"},
	} {
		if got := row.err.Error(); got != row.want {
			t.Errorf("%v and %v are told as %q, want %q", row.kind, row.errno, got, row.want)
		}
		if !errors.Is(row.err, row.kind) || !errors.Is(row.err, row.errno) {
			t.Errorf("%q does not match both %v and %v", row.err, row.kind, row.errno)
		}
	}
}
