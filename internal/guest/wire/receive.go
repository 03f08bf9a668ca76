package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// magic starts the payload of every HELLO; its last two bytes are Version.
const magic = "pinfold\x00\x02"

// maxCredit is how much credit a peer may give at most, in bytes.
const maxCredit = 1 << 30

// receiveAll takes in frames until the connection ends. The error is never
// nil.
func (m *Mux) receiveAll(ctx context.Context, r *bufio.Reader) error {
	var buf [headerSize]byte
	toHost := m.cfg.Serve == nil
	for {
		if _, err := io.ReadFull(r, buf[:]); err != nil {
			return m.cut(err, buf[:])
		}
		h, err := parseHeader(&buf, toHost)
		if err != nil {
			if !m.greeted {
				return fmt.Errorf("%w: %w", err, m.cut(io.EOF, buf[:]))
			}
			return err
		}
		if m.cfg.Log != nil {
			m.cfg.Log(uint8(h.kind), h.channel, h.stream, h.length)
		}
		if m.greeted == (h.kind == frameHello) {
			return Violation("%v frame: want a HELLO first, and once", h.kind)
		}
		if err := m.receive(ctx, r, h); err != nil {
			return err
		}
		m.beats.Add(1)
		if m.link.received.Load()-m.told >= seenEvery {
			m.pushSeen()
			// A guest has one processor, and the peer waits for this; the
			// scheduler would let the consumer go first for 10 ms.
			runtime.Gosched()
		}
	}
}

// cut is the error for a connection that ended within or between frames. What
// came instead of a HELLO is shown: it may be an engine's or a runtime's own
// message.
func (m *Mux) cut(err error, start []byte) error {
	switch {
	case err == io.EOF && m.greeted, err == io.ErrUnexpectedEOF: //nolint:errorlint // as ReadFull returns them
		return fmt.Errorf("connection ended: %w", err)
	case err == io.EOF: //nolint:errorlint // as above
		return fmt.Errorf("connection ended before the greeting, after %q: %w", trimZero(start), io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("connection: %w", err)
}

func trimZero(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// receive takes in one frame.
func (m *Mux) receive(ctx context.Context, r *bufio.Reader, h header) error {
	switch h.kind {
	case frameData:
		return m.receiveData(r, h)
	case frameCall:
		payload, err := readPayload(r, h.length)
		if err != nil {
			return err
		}
		return m.receiveCall(ctx, h, payload)
	default:
		return m.receiveControl(r, h)
	}
}

// receiveControl takes in a frame whose payload is small.
func (m *Mux) receiveControl(r *bufio.Reader, h header) error {
	var small [64]byte
	payload := small[:min(h.length, uint32(len(small)))]
	if int(h.length) > len(small) {
		payload = make([]byte, h.length) // bounded by the header's rule
	}
	if _, err := io.ReadFull(r, payload); err != nil {
		return fmt.Errorf("connection ended within a %v frame: %w", h.kind, err)
	}
	switch h.kind {
	case frameHello:
		return m.receiveHello(payload)
	case framePing:
		m.pushPong(payload)
		m.pushSeen() // at rest nothing is to be kept
		return nil
	case frameSeen:
		return m.link.seen(payload)
	case frameBye:
		return &FarewellError{Text: string(payload)}
	case framePong:
		m.pushSeen()
		return nil
	default:
		s := m.stream(h.stream)
		if s == nil {
			return m.unknown(h)
		}
		return s.receive(h, payload)
	}
}

// readPayload reads a payload whose size the peer chose, growing as it comes.
func readPayload(r *bufio.Reader, length uint32) ([]byte, error) {
	payload := make([]byte, 0, min(length, queueRoom))
	for len(payload) < int(length) {
		if len(payload) == cap(payload) {
			payload = append(payload, 0)[:len(payload)]
		}
		n, err := r.Read(payload[len(payload):min(cap(payload), int(length))])
		payload = payload[:len(payload)+n]
		if err != nil {
			return nil, fmt.Errorf("connection ended within a frame: %w", err)
		}
	}
	return payload, nil
}

// unknown is what to make of a frame for a stream that does not exist. A guest
// may get one for a stream whose RESULT has crossed it; a host cannot.
func (m *Mux) unknown(h header) error {
	if m.cfg.Serve != nil {
		return nil
	}
	return Violation("%v frame for stream %d, which is not open", h.kind, h.stream)
}

// ErrVersion says that the other side speaks another version of the protocol.
var ErrVersion = errors.New("host and guest are of different versions")

func versionError(theirs byte) error {
	return fmt.Errorf("%w: %w: the other side has protocol %d, this one %d", ErrViolation, ErrVersion, theirs, Version)
}

func (m *Mux) receiveHello(payload []byte) error {
	if len(payload) < len(magic) || string(payload[:len(magic)-1]) != magic[:len(magic)-1] {
		return Violation("greeting %q", payload[:min(len(payload), 64)])
	}
	if v := payload[len(magic)-1]; v != Version {
		return versionError(v)
	}
	m.hello, m.greeted = append([]byte(nil), payload[len(magic):]...), true
	close(m.helloCh)
	return nil
}

// receiveCall starts an operation on the guest's side.
func (m *Mux) receiveCall(ctx context.Context, h header, call []byte) error {
	s := newStream(m, h.stream)
	for ch := 1; ch < Channels; ch++ {
		s.in[ch].closed = true
	}
	ctx, s.stop = context.WithCancel(ctx)
	m.mu.Lock()
	taken := m.streams[s.id] != nil || len(m.streams) >= maxStreams
	if !taken {
		m.streams[s.id] = s
	}
	m.mu.Unlock()
	if taken {
		s.stop()
		return Violation("stream %d cannot be opened", h.stream)
	}
	m.serving.Go(func() {
		defer s.stop()
		s.answer(m.cfg.Serve(ctx, s, call))
	})
	return nil
}

// receiveData reads payload right into the inbox that it is for.
func (m *Mux) receiveData(r *bufio.Reader, h header) error {
	s := m.stream(h.stream)
	if s == nil {
		if err := m.unknown(h); err != nil {
			return err
		}
		_, err := r.Discard(int(h.length))
		return err
	}
	if err := s.admit(h); err != nil {
		return err
	}
	var told time.Time
	for left := int(h.length); left > 0; {
		s.mu.Lock()
		room := s.in[h.channel].room(&m.pools, left)
		s.mu.Unlock()
		n, err := r.Read(room)
		left -= n
		// Waking up the consumer costs more than reading; a frame that comes
		// quickly wakes it up once.
		now := time.Now()
		tell := left == 0 || err != nil || !told.IsZero() && now.Sub(told) > frameWait
		if tell || told.IsZero() {
			told = now
		}
		s.arrived(h.channel, n, tell)
		if err != nil {
			return fmt.Errorf("connection ended within a DATA frame: %w", err)
		}
	}
	return nil
}

// frameWait is for how long the first bytes of a frame wait for the rest
// before they are handed on.
const frameWait = time.Millisecond

// admit checks that a DATA frame may come now, and takes its credit.
func (s *Stream) admit(h header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &s.in[h.channel]
	switch {
	case in.closed:
		return Violation("DATA on channel %d of stream %d, which is closed", h.channel, h.stream)
	case s.mux.cfg.Serve == nil && !s.acked:
		return Violation("DATA on stream %d before its ACK", h.stream)
	case int64(h.length) > in.credit:
		return Violation("DATA of %d bytes on stream %d, which has credit for %d", h.length, h.stream, in.credit)
	}
	in.credit -= int64(h.length)
	return nil
}

// arrived makes n bytes that were read available, and tells the consumer.
func (s *Stream) arrived(ch uint8, n int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &s.in[ch]
	in.fill(&s.mux.pools, n)
	if !tell {
		return
	}
	if s.sinks[ch] != nil && !in.pumping && in.size > 0 {
		in.pumping = true
		go s.pump(ch)
	}
	s.cond.Broadcast()
}

// receive takes in a frame other than DATA.
func (s *Stream) receive(h header, payload []byte) error {
	s.mu.Lock()
	end := func() {}
	var err error
	switch h.kind {
	case frameAck:
		if s.acked {
			err = Violation("second ACK on stream %d", h.stream)
			break
		}
		s.ack, s.acked = append([]byte(nil), payload...), true
	case frameCredit:
		n := int64(binary.LittleEndian.Uint32(payload))
		if s.out[h.channel] += n; s.out[h.channel] > maxCredit {
			err = Violation("credit of %d bytes on stream %d", s.out[h.channel], h.stream)
		}
	case frameEOF:
		s.in[h.channel].closed = true
	case frameCancel:
		s.cancelled = true
		s.stop()
	case frameResult:
		s.result, s.ended = append([]byte(nil), payload...), true
		end = s.finish()
	default:
		err = Violation("%v frame on a stream", h.kind)
	}
	s.cond.Broadcast()
	s.mu.Unlock()
	if h.kind == frameResult {
		s.mux.remove(s)
	}
	end()
	return err
}
