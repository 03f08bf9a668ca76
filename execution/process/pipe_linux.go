package process

import "golang.org/x/sys/unix"

// openPipe makes a pipe that no other program inherits.
func openPipe() (read, write int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	return fds[0], fds[1], nil
}

// bytesReady is the ioctl that tells how much a pipe holds.
const bytesReady = unix.TIOCINQ
