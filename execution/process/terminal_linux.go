package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// canTTY says whether commands can run on a terminal.
const canTTY = true

// openTerminal makes a terminal: master is ours, slave the command's.
func openTerminal(size execution.TerminalSize) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	slave, err = openSlave(master)
	if err == nil {
		err = setSize(master, size)
	}
	if err != nil {
		_ = unix.Close(master)
		if slave >= 0 {
			_ = unix.Close(slave)
		}
		return -1, -1, err
	}
	return master, slave, nil
}

func openSlave(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock terminal: %w", err)
	}
	// The kernel's own way needs no /dev/pts, and cannot be led to another one.
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(peer), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, fmt.Errorf("name terminal: %w", err)
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open terminal: %w", err)
	}
	return fd, nil
}

func setSize(fd int, size execution.TerminalSize) error {
	err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	if err != nil {
		return fmt.Errorf("set size of terminal: %w", err)
	}
	return nil
}

// setTerminalSize changes the size of a terminal in use.
func setTerminalSize(master *os.File, size execution.TerminalSize) error {
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var sizeErr error
	err = conn.Control(func(fd uintptr) { sizeErr = setSize(int(fd), size) })
	return errors.Join(err, sizeErr)
}
