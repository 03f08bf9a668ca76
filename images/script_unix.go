//go:build unix

package images

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's Ctrl-C from the script: it would reach it and its
// children all at once, and then again through terminate, while they clean up.
func ownGroup(script *exec.Cmd) {
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// terminate asks the script to end and clean up.
func terminate(script *os.Process) error { return script.Signal(syscall.SIGTERM) }
