package wire

import (
	"errors"
	"fmt"
	"sync"
	"time"
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
	waiting chan struct{} // closed when there is room again; nil when nobody waits
	kick    chan struct{} // something was queued

	writing chan struct{} // holds a token while somebody writes, and guards:
	spare   []byte        // the buffer that is not frames
	failed  error         // of the first write that failed
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
func (m *Mux) pushPong(payload []byte) {
	q := &m.queue
	q.mu.Lock()
	if !q.pong {
		q.pong = true
		q.append(header{kind: framePong}, payload)
	}
	q.mu.Unlock()
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
	q.frames, q.pushed, q.pong = empty[:0], 0, false
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
	if len(q.spare) > 0 && q.failed == nil {
		_, q.failed = m.conn.Write(q.spare)
	}
	return q.failed
}

// send writes a large frame: write is called once nobody else writes, and
// after what is queued. It is not called when the stream fails first. A write
// that has begun ends only by itself, or with the connection.
func (s *Stream) send(write func() error) error {
	m := s.mux
	q := &m.queue
	select {
	case q.writing <- struct{}{}:
	case <-s.gone:
		return s.failure()
	}
	err := m.flush()
	if err == nil {
		err = write()
		q.failed = err
	}
	<-q.writing
	if err == nil {
		return nil
	}
	m.kickWriter() // which sees to the end
	<-m.done
	return s.failure()
}

func (m *Mux) kickWriter() {
	select {
	case m.queue.kick <- struct{}{}:
	default:
	}
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

// readOn is how long a connection that cannot be written to is still read from:
// what the peer sent before it went is there, and tells more than the failure
// to write.
const readOn = 5 * time.Second

// writeLoop writes what is queued until the connection ends. After a write has
// failed it drops what is queued.
func (m *Mux) writeLoop() {
	defer m.loops.Done()
	q := &m.queue
	var late <-chan time.Time
	for {
		select {
		case <-m.stopping:
			return
		case <-late:
			q.writing <- struct{}{}
			m.end(fmt.Errorf("connection: %w", q.failed), false)
			<-q.writing
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
		if err != nil && late == nil {
			timer := time.NewTimer(readOn)
			defer timer.Stop()
			late = timer.C
		}
	}
}
