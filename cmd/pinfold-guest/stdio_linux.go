package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize is what the pipes to the host are enlarged to, in bytes: with the
// usual 64 KiB both ends wait for each other all the time.
const pipeSize = 1 << 20

// stdio is the connection to the host.
type stdio struct{ in, out *os.File }

// takeStdio takes standard input and output over for the connection and puts
// /dev/null in their place, so that nothing else can get into it.
func takeStdio() (io.ReadWriteCloser, error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/null: %w", err)
	}
	defer func() { _ = unix.Close(null) }() // nothing was written
	in, inErr := take(0, null, "stdin")
	out, outErr := take(1, null, "stdout")
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	return &stdio{in, out}, nil
}

func take(fd, null int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	_, _ = unix.FcntlInt(uintptr(own), unix.F_SETPIPE_SZ, pipeSize) // slower without
	if err := unix.SetNonblock(own, true); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := unix.Dup3(null, fd, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return os.NewFile(uintptr(own), name), nil
}

func (s *stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// SyscallConn is of the side that is written to, so that bulk data can be
// spliced there.
func (s *stdio) SyscallConn() (syscall.RawConn, error) { return s.out.SyscallConn() }
