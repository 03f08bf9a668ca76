//go:build unix && !linux

package process

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// canTTY says whether commands can run on a terminal.
const canTTY = false

func openTerminal(execution.TerminalSize) (master, slave int, err error) {
	return -1, -1, unix.ENOTSUP
}

func setTerminalSize(*os.File, execution.TerminalSize) error { return unix.ENOTSUP }
