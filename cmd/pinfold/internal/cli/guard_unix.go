//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardArgument makes pinfold a guard. It is no subcommand: nobody types it.
const guardArgument = "__terminal-guard"

// A guard is a second pinfold that does nothing but wait for the first to be
// gone. If it ends without having dismissed its guard (by SIGKILL, or by a
// panic in a goroutine that no deferred call of ours covers), the guard puts
// the terminal back in order.
//
// All methods work on nil: a guard that cannot be started is done without.
type guard struct {
	cmd   *exec.Cmd
	pipe  *os.File
	saved unix.Termios
}

// startGuard starts a guard for tty, as it is now. The guard only acts once
// armed.
func startGuard(ctx context.Context, tty *os.File) *guard {
	saved, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios)
	if err != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }() // The guard has its own.
	// The guard must outlive us, so no context of ours may end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, guardArgument)
	cmd.Stdin = tty
	cmd.ExtraFiles = []*os.File{r}
	// In a session of its own it gets none of the terminal's signals, and may
	// set a terminal that is another session's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil
	}
	return &guard{cmd: cmd, pipe: w, saved: *saved}
}

// arm tells the guard what to go back to, and what we have made of it.
func (g *guard) arm(tty *os.File) {
	if g == nil {
		return
	}
	raw, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios)
	if err != nil {
		return
	}
	var orders bytes.Buffer
	if binary.Write(&orders, binary.NativeEndian, []unix.Termios{g.saved, *raw}) == nil {
		_, _ = g.pipe.Write(orders.Bytes()) // Without it the guard does nothing.
	}
}

// dismiss ends the guard and waits for its end.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_, _ = g.pipe.Write([]byte{0}) // It may have been killed.
	_ = g.pipe.Close()
	_ = g.cmd.Wait()
}

// guardTerminal is the guard's whole life. It reads its orders, then waits for
// one more byte (it is dismissed) or the end of the pipe (pinfold is gone).
func guardTerminal(tty *os.File) int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGTTOU)
	pipe := os.NewFile(3, "pipe")
	orders := make([]unix.Termios, 2)
	if binary.Read(pipe, binary.NativeEndian, orders) != nil {
		return exitOK
	}
	if _, err := io.ReadFull(pipe, make([]byte, 1)); err == nil {
		return exitOK
	}
	saved, raw := orders[0], orders[1]
	// Somebody else, a shell for instance, may have set it since.
	if now, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios); err == nil && *now == raw {
		_ = unix.IoctlSetTermios(int(tty.Fd()), setTermios, &saved)
	}
	return exitOK
}
