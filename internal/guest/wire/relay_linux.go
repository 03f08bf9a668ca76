package wire

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A relay is a pipe of our own. Bytes are moved from a command's pipe or a
// file into the relay, upon which it is certain how many there are, and from
// the relay to the connection, both without a copy. Moving them from the
// command's pipe right away is not possible: somebody else may read from it
// after the frame's length has been sent.
type relay struct{ r, w int }

// relayCache keeps one relay for reuse.
type relayCache struct {
	mu     sync.Mutex
	spare  *relay
	closed bool
}

func (c *relayCache) get() (*relay, error) {
	c.mu.Lock()
	p := c.spare
	c.spare = nil
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	// Without it frames are of 64 KiB, which is slower but works.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, MaxData)
	return &relay{fds[0], fds[1]}, nil
}

// put gives a relay back, which must be empty to be used again.
func (c *relayCache) put(p *relay, empty bool) {
	c.mu.Lock()
	keep := empty && c.spare == nil && !c.closed
	if keep {
		c.spare = p
	}
	c.mu.Unlock()
	if !keep {
		p.close()
	}
}

func (c *relayCache) close() {
	c.mu.Lock()
	p := c.spare
	c.spare, c.closed = nil, true
	c.mu.Unlock()
	if p != nil {
		p.close()
	}
}

// trim closes the spare relay.
func (c *relayCache) trim() {
	c.mu.Lock()
	p := c.spare
	c.spare = nil
	c.mu.Unlock()
	if p != nil {
		p.close()
	}
}

func (p *relay) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// errNoSplice says that bytes have to be copied.
var errNoSplice = errors.New("cannot be spliced")

// splice sends what src yields, at most limit bytes, until little comes at a
// time. At its end the error is io.EOF. When it fails with errNoSplice, n bytes
// were sent and the rest can still be read from src.
func (o *Sender) splice(src syscall.Conn, limit int64) (n int64, err error) {
	m := o.stream.mux
	from, err := src.SyscallConn()
	if err != nil {
		return 0, errNoSplice
	}
	p, err := m.relays.get()
	if err != nil {
		return 0, errNoSplice
	}
	clean := true
	defer func() { m.relays.put(p, clean) }()
	for n < limit {
		sent, err := o.spliceFrame(p, from, limit-n)
		n += sent
		if err != nil {
			clean = isSource(err)
			return n, err
		}
		if sent < smallData {
			break
		}
	}
	return n, nil
}

// isSource reports whether an error came from the source, upon which the relay
// is empty.
func isSource(err error) bool {
	_, ok := errors.AsType[*ReadError](err)
	return ok || errors.Is(err, io.EOF) || errors.Is(err, errNoSplice)
}

// usualPipe is how much a pipe holds that nobody has enlarged, in bytes.
const usualPipe = 64 << 10

// spliceFrame sends one frame.
func (o *Sender) spliceFrame(p *relay, from syscall.RawConn, limit int64) (int64, error) {
	s := o.stream
	credit, err := s.reserve(o.channel, min(limit, MaxData), false)
	if err != nil {
		return 0, err
	}
	n, err := p.fill(from, int(credit))
	if n == usualPipe && !o.enlarged {
		// The pipe was full: with a larger one its writer waits less often.
		o.enlarged = true
		_ = from.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, MaxData) })
	}
	s.unreserve(o.channel, credit-int64(n))
	if err != nil {
		return 0, err
	}
	h := header{kind: frameData, channel: o.channel, stream: s.id}
	for left := n; left > 0; {
		err := s.send(func() error {
			sent, err := s.mux.link.spliceFrame(h, p, left)
			left -= sent
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return int64(n), nil
}

// fill moves up to want bytes from a file or pipe into the relay, waiting for
// the first.
func (p *relay) fill(from syscall.RawConn, want int) (n int, err error) {
	waitErr := from.Read(func(fd uintptr) bool {
		for {
			var moved int64
			moved, err = unix.Splice(int(fd), nil, p.w, nil, want, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			n = int(moved)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case waitErr != nil:
		return 0, &ReadError{waitErr}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return 0, errNoSplice
	case err != nil:
		return 0, &ReadError{err}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// move moves up to want bytes from the relay to dst. With wait it waits until
// some can be.
func (p *relay) move(dst syscall.RawConn, want int, wait bool) (n int, err error) {
	waitErr := dst.Write(func(fd uintptr) bool {
		for {
			var moved int64
			moved, err = unix.Splice(p.r, nil, int(fd), nil, want, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			n = max(0, int(moved))
			if !errors.Is(err, unix.EINTR) {
				return !wait || !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	return n, errors.Join(waitErr, err)
}

// copy writes up to n bytes of the relay where the connection takes no splice,
// and returns how many it took from there.
func (p *relay) copy(w io.Writer, n int) (taken int, err error) {
	buf := make([]byte, min(n, usualPipe))
	for taken < n {
		part := buf[:min(len(buf), n-taken)]
		if err := p.read(part); err != nil {
			return taken, err
		}
		taken += len(part)
		if _, err := w.Write(part); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// read takes as many bytes from the relay as there is room for in b.
func (p *relay) read(b []byte) error { return readAll(p.r, b) }

// readAll fills b from a pipe that holds enough.
func readAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}
