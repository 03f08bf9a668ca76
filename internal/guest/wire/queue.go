package wire

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds on the queue of control frames, in bytes: beyond the first, those who
// can wait do; beyond the second the peer does not read at all, and asks for
// more and more answers.
const (
	queueRoom  = 64 << 10
	queueLimit = 4 << 20
	queueKept  = 8 << 10 // of a buffer's size, when the connection is at rest
)

var errTooMany = errors.New("too many operations at once")

// A queue holds control frames until they are written. They go out ahead of
// the bulk jobs, all that are there in one write.
type queue struct {
	mu      sync.Mutex
	frames  []byte
	pong    bool          // an answer to a PING is among them
	waiting chan struct{} // closed when there is room again; nil when nobody waits
	kick    chan struct{}
	bulk    chan *bulkJob
}

// A bulkJob is a DATA frame that is written on its own.
type bulkJob struct {
	payload payload
	done    chan error // buffered; gets one value
}

// A payload writes one whole frame to the connection. It is called once, also
// to release what it holds when the connection has ended.
type payload interface {
	send(m *Mux) error
	release(m *Mux)
}

func (q *queue) init() {
	q.kick = make(chan struct{}, 1)
	q.bulk = make(chan *bulkJob)
}

// push queues a control frame without ever waiting.
func (m *Mux) push(h header, payload []byte) {
	q := &m.queue
	q.mu.Lock()
	over := len(q.frames) > queueLimit
	if !over {
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
	q.frames, q.pong = empty[:0], false
	if q.waiting != nil {
		close(q.waiting)
		q.waiting = nil
	}
	return frames
}

// submit hands a job to the writing goroutine. Its payload is no longer the
// caller's, whatever the outcome.
func (s *Stream) submit(job *bulkJob) error {
	select {
	case s.mux.queue.bulk <- job:
		return nil
	case <-s.gone:
		job.payload.release(s.mux)
		return s.failure()
	}
}

// written waits until a job's frame has been handed to the connection.
func (s *Stream) written(job *bulkJob) error {
	select {
	case err := <-job.done:
		if err == nil {
			return nil
		}
		<-s.gone // closed as soon as it is known why the connection ended
	case <-s.gone:
	}
	return s.failure()
}

func (s *Stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// readOn is how long a connection that cannot be written to is still read from:
// what the peer sent before it went is there, and tells more than the failure
// to write.
const readOn = 5 * time.Second

// writeLoop writes what is queued until the connection ends. After a write has
// failed it drops what is queued.
func (m *Mux) writeLoop() {
	defer m.loops.Done()
	var (
		buf    []byte
		failed error
		late   <-chan time.Time
	)
	flush := func() {
		if buf = m.queue.take(buf); len(buf) > 0 && failed == nil {
			_, failed = m.conn.Write(buf)
		}
	}
	for {
		select {
		case <-m.stopping:
			return
		case <-late:
			m.end(fmt.Errorf("connection: %w", failed), false)
			return
		case <-m.queue.kick:
			flush()
		case job := <-m.queue.bulk:
			if flush(); failed == nil {
				failed = job.payload.send(m)
			}
			job.payload.release(m)
			job.done <- failed
		}
		if failed != nil && late == nil {
			timer := time.NewTimer(readOn)
			defer timer.Stop()
			late = timer.C
		}
	}
}

// A framePayload is a DATA frame in one buffer.
type framePayload struct {
	buffer *frameBuffer
	n      int
}

func (p *framePayload) send(m *Mux) error {
	_, err := m.conn.Write(p.buffer[:headerSize+p.n])
	return err
}

func (p *framePayload) release(m *Mux) { m.pools.putFrame(p.buffer) }
