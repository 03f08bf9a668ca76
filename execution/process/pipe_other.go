//go:build unix && !linux

package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// openPipe makes a pipe that no other program inherits. The lock keeps forks
// away while that is not yet so.
func openPipe() (read, write int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return -1, -1, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds[0], fds[1], nil
}

// bytesReady is the ioctl that tells how much a pipe holds. All systems of BSD
// descent have this number for it.
const bytesReady = 0x4004667f
