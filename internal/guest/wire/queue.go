package wire

import (
	"encoding/binary"
	"errors"
	"sync"
)

// Bounds on the queue of control frames, in bytes: beyond the first, those who
// can wait do; when those who cannot have queued more than the second, the peer
// does not read at all, and asks for more and more answers.
const (
	queueRoom  = 64 << 10
	queueLimit = 4 << 20
	queueKept  = 8 << 10 // of a buffer's size, when the connection is at rest
)

var errTooMany = errors.New("too many operations at once")

// A queue holds control frames until they are written, all that are there in
// one write. Who sends a large DATA frame writes it itself, after what is
// queued by then: so a control frame waits for one such frame at most.
type queue struct {
	mu      sync.Mutex
	frames  []byte
	pushed  int           // bytes of them that could not wait
	pong    bool          // an answer to a PING is among them
	seen    bool          // a SEEN is
	waiting chan struct{} // closed when there is room again; nil when nobody waits
	kick    chan struct{} // something was queued

	writing chan struct{} // holds a token while somebody writes, and guards:
	spare   []byte        // the buffer that is not frames
}

func (q *queue) init() {
	q.kick = make(chan struct{}, 1)
	q.writing = make(chan struct{}, 1)
}

// push queues a control frame without ever waiting.
func (m *Mux) push(h header, payload []byte) {
	q := &m.queue
	q.mu.Lock()
	over := q.pushed > queueLimit
	if !over {
		q.pushed += headerSize + len(payload)
		q.append(h, payload)
	}
	q.mu.Unlock()
	if over {
		m.end(Violation("peer takes nothing and asks for more"), false)
	}
}

// pushPong queues the answer to a PING; one answers all that have come.
func (m *Mux) pushPong(payload []byte) { m.queue.once(&m.queue.pong, header{kind: framePong}, payload) }

// pushSeen tells the peer how much has come, so that it need not keep it. It is
// for the goroutine that reads.
func (m *Mux) pushSeen() {
	now := m.link.received.Load()
	var payload [seenSize]byte
	binary.LittleEndian.PutUint64(payload[:], now)
	if m.queue.once(&m.queue.seen, header{kind: frameSeen}, payload[:]) {
		m.told = now
	}
}

// once queues a frame unless one of its kind, which is queued, says it all.
func (q *queue) once(queued *bool, h header, payload []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if *queued {
		return false
	}
	*queued = true
	q.append(h, payload)
	return true
}

// pushWait queues a frame of a stream as soon as there is room. It fails when
// the stream does first.
func (s *Stream) pushWait(h header, payload []byte) error {
	q := &s.mux.queue
	for {
		q.mu.Lock()
		select {
		case <-s.gone: // whose CANCEL may already be queued
			q.mu.Unlock()
			return s.failure()
		default:
		}
		if len(q.frames) < queueRoom {
			q.append(h, payload)
			q.mu.Unlock()
			return nil
		}
		if q.waiting == nil {
			q.waiting = make(chan struct{})
		}
		room := q.waiting
		q.mu.Unlock()
		select {
		case <-room:
		case <-s.gone:
			return s.failure()
		case <-s.mux.done:
			return s.failure()
		}
	}
}

func (q *queue) append(h header, payload []byte) {
	h.length = uint32(len(payload)) //nolint:gosec // bounded by MaxCall
	q.frames = append(h.append(q.frames), payload...)
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// take returns what is queued and gives the queue an empty buffer for it.
func (q *queue) take(empty []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 {
		return empty[:0]
	}
	if cap(empty) > queueKept {
		empty = nil
	}
	frames := q.frames
	q.frames, q.pushed, q.pong, q.seen = empty[:0], 0, false, false
	if q.waiting != nil {
		close(q.waiting)
		q.waiting = nil
	}
	return frames
}

// flush writes what is queued. The token is held.
func (m *Mux) flush() error {
	q := &m.queue
	q.spare = q.take(q.spare)
	if len(q.spare) == 0 {
		return nil
	}
	_, err := m.link.Write(q.spare)
	return err
}

// send writes a large frame: write is called once there is room for it, nobody
// else writes, and after what is queued. It is not called when the stream fails
// first. A write that has begun ends only by itself, or with the connection.
func (s *Stream) send(write func() error) error {
	m := s.mux
	q := &m.queue
	for room := m.link.full(); room != nil; room = m.link.full() {
		select {
		case <-room:
		case <-s.gone:
			return s.failure()
		}
	}
	select {
	case q.writing <- struct{}{}:
	case <-s.gone:
		return s.failure()
	}
	err := m.flush()
	if err == nil {
		err = write()
	}
	<-q.writing
	if err == nil {
		return nil
	}
	m.end(err, false)
	<-m.done
	return s.failure()
}

// failure is why nothing can be sent on the stream any more. One whose RESULT
// has come has no error of its own.
func (s *Stream) failure() error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err == nil {
		err = s.mux.Err()
	}
	return err
}

// writeLoop writes what is queued until the connection ends.
func (m *Mux) writeLoop() {
	defer m.loops.Done()
	q := &m.queue
	for {
		select {
		case <-m.stopping:
			return
		case <-q.kick:
		}
		select {
		case <-m.stopping:
			return
		case q.writing <- struct{}{}:
		}
		err := m.flush()
		<-q.writing
		if err != nil {
			return // whoever reads sees to the end
		}
	}
}
