package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A stream is the connection to a guest: what its standard output carries, and
// its standard input. The engine frames the former; Read takes the frames
// apart in place, in the caller's own buffer, so that bulk data is moved at
// most once and an idle stream holds no buffer.
type stream struct {
	conn     net.Conn
	buffered []byte // read before conn

	header [frameHeader]byte
	have   int    // bytes of header that are there
	kind   byte   // of the frame being read
	left   uint32 // bytes of it still to come
	err    error  // once broken, for ever

	stderr tail
	closed atomic.Bool
	hangUp sync.Once
	hold   atomic.Bool // Close is to keep the connection; see release
}

// The engine's frames: kind, three zero bytes, length in big endian.
const (
	frameHeader = 8
	kindStdout  = 1
	kindStderr  = 2
	kindSystem  = 3 // an error of the engine's, as text
	// maxFrame is far above what engines send (32 KiB), and keeps a stream
	// that is no stream from being taken for one.
	maxFrame = 16 << 20
)

func newStream(raw *rawStream) *stream {
	return &stream{conn: raw.conn, buffered: raw.buffered}
}

// Read returns bytes of the guest's standard output. It is for one goroutine.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, s.err
	}
	for s.err == nil {
		n, err := s.raw(p)
		kept, frameErr := s.unframe(p[:n])
		s.err = frameErr
		if frameErr == nil && err != nil {
			s.err = s.ended(err)
		}
		if kept > 0 {
			return kept, nil
		}
	}
	return 0, s.err
}

// raw reads what the engine sent, frames and all.
func (s *stream) raw(p []byte) (int, error) {
	if len(s.buffered) > 0 {
		n := copy(p, s.buffered)
		if s.buffered = s.buffered[n:]; len(s.buffered) == 0 {
			s.buffered = nil
		}
		return n, nil
	}
	return s.conn.Read(p)
}

// unframe moves the guest's output to the front of p and returns its length.
func (s *stream) unframe(p []byte) (kept int, err error) {
	for in := 0; in < len(p); {
		if s.left == 0 {
			took := copy(s.header[s.have:], p[in:])
			in += took
			if s.have += took; s.have < frameHeader {
				return kept, nil
			}
			if err := s.nextFrame(); err != nil {
				return kept, err
			}
			continue
		}
		take := int(min(int64(s.left), int64(len(p)-in)))
		part := p[in : in+take]
		in += take
		s.left -= uint32(take) //nolint:gosec // At most s.left.
		if s.kind != kindStdout {
			s.stderr.add(part)
			continue
		}
		if kept+take != in {
			copy(p[kept:], part)
		}
		kept += take
	}
	return kept, nil
}

// nextFrame checks a header that has come whole.
func (s *stream) nextFrame() error {
	s.have = 0
	s.kind, s.left = s.header[0], binary.BigEndian.Uint32(s.header[4:])
	if s.kind < kindStdout || s.kind > kindSystem || s.left > maxFrame ||
		s.header[1] != 0 || s.header[2] != 0 || s.header[3] != 0 {
		return fmt.Errorf("the engine's stream is not framed as it should be (header %x)", s.header)
	}
	return nil
}

// ended says how the connection ended.
func (s *stream) ended(err error) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if errors.Is(err, io.EOF) && (s.left > 0 || s.have > 0) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends to the guest's standard input.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.conn.Write(p)
	if err != nil && s.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
}

// Close makes pending and later reads and writes return. It also hangs up,
// upon which the guest exits, unless keep was called before.
func (s *stream) Close() error {
	s.closed.Store(true)
	if s.hold.Load() {
		return s.conn.SetDeadline(time.Unix(1, 0))
	}
	return s.release()
}

// keep makes Close leave the connection to release. A container that is about
// to be removed by force is not to exit by itself meanwhile: the engine's own
// removal would get in the way of ours and take longer.
func (s *stream) keep() { s.hold.Store(true) }

// release hangs up.
func (s *stream) release() error {
	s.closed.Store(true)
	var err error
	s.hangUp.Do(func() { err = s.conn.Close() })
	return err
}

// tail keeps the last bytes of what is added to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// tailSize is in bytes; oneLine shows all of it.
const tailSize = 1000

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(p) - tailSize; over > 0 {
		p = p[over:]
	}
	if over := len(t.data) + len(p) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	t.data = append(t.data, p...)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return oneLine(string(t.data))
}
