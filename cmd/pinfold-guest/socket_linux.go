package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

// A listener is a socket in the abstract namespace, which needs no place in the
// file system: that may be read-only, and is the commands' own. Package net is
// not used because it is large.
type listener struct {
	file *os.File
	conn syscall.RawConn
	peer uint32
}

// abstract is the address of a name. The NUL is how the kernel tells it from a
// path.
func abstract(name string) unix.Sockaddr { return &unix.SockaddrUnix{Name: "@" + name} }

func openSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	return fd, os.NewSyscallError("socket", err)
}

// listen lets one user connect to the socket that the host has named.
func listen(cfg *proto.Config) (server.Listener, error) {
	fd, err := openSocket()
	if err != nil {
		return nil, err
	}
	const backlog = 16
	if err = os.NewSyscallError("bind", unix.Bind(fd, abstract(cfg.Socket))); err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	l := &listener{file: os.NewFile(uintptr(fd), "socket"), peer: cfg.SocketUser}
	if l.conn, err = l.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	return l, nil
}

func (l *listener) Close() error { return l.file.Close() }

// Accept hangs up on all users but the one.
func (l *listener) Accept() (io.ReadWriteCloser, error) {
	for {
		var fd int
		var err error
		waitErr := l.conn.Read(func(listening uintptr) bool {
			fd, _, err = unix.Accept4(int(listening), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case waitErr != nil:
			return nil, waitErr
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return nil, os.NewSyscallError("accept", err)
		}
		if !l.mayConnect(fd) {
			_ = unix.Close(fd)
			continue
		}
		return os.NewFile(uintptr(fd), "host"), nil
	}
}

// mayConnect looks at who is at the other end. A kernel that says that it is this
// process does not know, as gVisor's of 2022: there the key alone decides.
func (l *listener) mayConnect(fd int) bool {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (who.Uid == l.peer || int(who.Pid) == os.Getpid())
}

// dial connects its standard input and output to the guest's socket, until
// either side hangs up.
func dial(name string) int {
	if err := bridge(name); err != nil {
		return failed(fmt.Errorf("dial: %w", err))
	}
	return 0
}

func bridge(name string) error {
	fd, err := openSocket()
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, abstract(name)); err != nil {
		if errors.Is(err, unix.ECONNREFUSED) {
			err = fmt.Errorf("%s: %w", proto.NobodyListens, err)
		}
		return errors.Join(err, unix.Close(fd))
	}
	fmt.Fprintln(os.Stderr, proto.Connected)
	protect()
	guest := os.NewFile(uintptr(fd), "guest")
	host, err := takeStdio()
	if err != nil {
		return errors.Join(err, guest.Close())
	}
	over := make(chan error, 2)
	pass := func(to io.Writer, from io.Reader) {
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, bridgeBuffer))
		over <- err
	}
	go pass(guest, host)
	go pass(host, guest)
	return <-over // the other ends with this process
}

// bridgeBuffer is how much is passed on at once, in bytes.
const bridgeBuffer = 256 << 10
