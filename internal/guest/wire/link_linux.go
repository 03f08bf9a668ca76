package wire

import (
	"errors"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A spliced pipe holds bytes that were sent without ever having been in this
// program's memory: a second reference to the same pages. The zero value is
// empty.
type spliced struct {
	open       bool
	r, w, null int
}

// tee puts up to n bytes of a relay into the pipe, without taking them from
// there, and returns how many. 0 says that they have to be copied.
func (s *spliced) tee(p *relay, n int) int {
	if !s.open && s.make() != nil {
		return 0
	}
	for {
		got, err := unix.Tee(p.r, s.w, n, unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return max(0, int(got))
		}
	}
}

func (s *spliced) make() error {
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		_ = unix.Close(null)
		return err
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, guestRetains) // else more is copied
	*s = spliced{open: true, r: fds[0], w: fds[1], null: null}
	return nil
}

// discard drops the first n bytes.
func (s *spliced) discard(n int) error {
	for n > 0 {
		got, err := unix.Splice(s.r, nil, s.null, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case got == 0:
			return io.ErrUnexpectedEOF
		}
		n -= int(got)
	}
	return nil
}

// read takes the first bytes out, as many as there is room for in b.
func (s *spliced) read(b []byte) error { return readAll(s.r, b) }

func (s *spliced) close() {
	if s.open {
		_ = unix.Close(s.r)
		_ = unix.Close(s.w)
		_ = unix.Close(s.null)
		*s = spliced{}
	}
}

// spliceFrame sends a DATA frame whose payload is what the relay holds, at most
// n bytes, and takes it from there. It returns how many bytes it sent.
func (l *link) spliceFrame(h header, p *relay, n int) (int, error) {
	teed, moved := 0, 0
	err := l.send(func() {
		if teed = l.log.pipe.tee(p, n); teed > 0 {
			h.length = uint32(teed) //nolint:gosec // at most MaxData
			l.log.copy(h.append(nil))
			l.log.parts = append(l.log.parts, part{inPipe: teed})
			l.log.sent += uint64(teed)
		}
	}, func(conn io.ReadWriteCloser) (err error) {
		if teed > 0 {
			moved, err = p.drain(conn, h)
		}
		return err
	})
	if teed == 0 && err == nil {
		return l.copyFrame(h, p, n)
	}
	if moved < teed { // it is in the log
		err = errors.Join(err, p.read(make([]byte, teed-moved)))
	}
	return teed, err
}

// copyFrame is spliceFrame for when the pipe is full.
func (l *link) copyFrame(h header, p *relay, n int) (int, error) {
	b := l.pools.frame()
	if err := p.read(b[headerSize : headerSize+n]); err != nil {
		l.pools.putFrame(b)
		return 0, err
	}
	h.length = uint32(n) //nolint:gosec // at most MaxData
	h.put(b[:])
	return n, l.writeFrame(b, headerSize+n)
}

// restTime is how long a pipe that is full is left alone. Whoever reads it may
// do so in small pieces (containerd's shim: 4 KiB); filling it up again after
// each of them would keep both sides busy waking each other up. It is a
// fraction of what it takes to empty the pipe.
const restTime = 300 * time.Microsecond

// drain writes a DATA frame whose payload is in the relay, and returns how much
// of that it took from there.
func (p *relay) drain(conn io.ReadWriteCloser, h header) (moved int, err error) {
	if _, err := conn.Write(h.append(nil)); err != nil {
		return 0, err
	}
	rested := false
	dst := rawConn(conn)
	for want := int(h.length); moved < want; {
		if dst == nil {
			n, err := p.copy(conn, want-moved)
			return moved + n, err
		}
		n, err := p.move(dst, want-moved, rested)
		moved += n
		switch {
		case n > 0:
			rested = false
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(restTime)
			rested = true
		default:
			dst = nil // it takes no splice, or fails once more
		}
	}
	return moved, nil
}

func rawConn(conn io.ReadWriteCloser) syscall.RawConn {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
