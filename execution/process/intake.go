//go:build unix

package process

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// An intake is our end of a command's output as a writer gets it: reading yields
// what is there, and io.EOF where nothing is. It never waits. A command can open
// the pipe that it writes to for reading, by way of /proc, and take back what was
// seen to be there; whoever then waited for it, although the leader has ended,
// would do so for as long as a leftover holds the pipe.
type intake struct{ conn syscall.RawConn }

func (i intake) Read(p []byte) (n int, err error) {
	closed := i.conn.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), p); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if closed != nil || err != nil || n <= 0 {
		return 0, io.EOF // what it was shows when more is waited for
	}
	return n, nil
}

// SyscallConn gives access to the pipe, for splicing from it.
func (i intake) SyscallConn() (syscall.RawConn, error) { return present{i.conn}, nil }

// present is a pipe whose Read does not wait either.
type present struct{ syscall.RawConn }

// Read calls f once. When f would have waited, the error is io.EOF.
func (p present) Read(f func(fd uintptr) bool) error {
	done := false
	err := p.Control(func(fd uintptr) { done = f(fd) })
	if err == nil && !done {
		err = io.EOF
	}
	return err
}
