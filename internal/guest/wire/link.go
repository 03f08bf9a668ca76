package wire

import (
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// How much may be on its way before bulk data waits until the peer has told that
// it arrived, in bytes: an engine and its pipes hold more than one MiB, and a
// guest has little memory.
const (
	hostRetains  = 4 << 20
	guestRetains = 1 << 20
)

// mostRetained is how much may be on its way in all, in bytes: what a peer that
// reads everything, and never tells so, costs. It is more than sockets, engines
// and pipes hold together with the largest of calls.
const mostRetained = 32 << 20

// seenEvery is how much arrives before the peer is told so, in bytes.
const seenEvery = 64 << 10

// A link is a byte stream that survives its connection. Each side counts the
// bytes that it has got and tells the other from time to time (SEEN); what the
// other has not seen yet is retained, and sent again over the next connection.
type link struct {
	pools *pools
	limit int
	most  int // mostRetained, which tests make smaller

	reading  sync.Mutex // held while the connection is read from
	writing  sync.Mutex // held while it is written to, and while the log grows
	received atomic.Uint64

	mu     sync.Mutex
	cond   sync.Cond         // of mu: conn or err has changed
	broken func(cause error) // nil: a connection that breaks ends the link
	conn   io.ReadWriteCloser
	err    error         // why it ended
	log    retained      // what the peer has not seen
	room   chan struct{} // closed when there is room again; nil when nobody waits
	resume uint64        // counts the connections

	// What is being written is not to be used again, also where the peer says
	// that it has got it all.
	flying    *frameBuffer
	landed    bool // flying was seen
	resending bool // everything in the log is being written
}

func newLink(conn io.ReadWriteCloser, p *pools, limit int) *link {
	l := &link{conn: conn, pools: p, limit: limit, most: mostRetained}
	l.cond.L = &l.mu
	return l
}

// survive makes the link outlive its connections: broken is called each time
// that one breaks, and may not wait.
func (l *link) survive(broken func(cause error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

// current waits for a connection.
func (l *link) current() (io.ReadWriteCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.conn == nil && l.err == nil {
		l.cond.Wait()
	}
	return l.conn, l.err
}

// is reports whether conn is still the one in use.
func (l *link) is(conn io.ReadWriteCloser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn == conn
}

// Read waits for bytes over as many connections as it takes.
func (l *link) Read(p []byte) (int, error) {
	for {
		conn, err := l.current()
		if err != nil {
			return 0, err
		}
		n, err := l.readFrom(conn, p)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if err != nil {
			if err := l.lose(conn, err); err != nil {
				return 0, err
			}
		}
	}
}

func (l *link) readFrom(conn io.ReadWriteCloser, p []byte) (int, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	if !l.is(conn) {
		return 0, nil
	}
	n, err := conn.Read(p)
	l.received.Add(uint64(max(n, 0)))
	return n, err
}

// lose gives up a connection that has failed, and returns an error when the
// link ends with it.
func (l *link) lose(conn io.ReadWriteCloser, cause error) error {
	l.mu.Lock()
	if l.conn != conn || l.err != nil {
		defer l.mu.Unlock()
		return l.err // somebody else was quicker
	}
	broken := l.broken
	if broken == nil {
		l.err = cause
	}
	l.conn = nil
	l.mu.Unlock()
	l.cond.Broadcast()
	_ = conn.Close() // it has failed
	if broken == nil {
		return cause
	}
	broken(cause)
	return nil
}

// Write sends p; what it takes of it is copied. It waits while there is no
// connection.
func (l *link) Write(p []byte) (int, error) {
	err := l.send(func() { l.log.copy(p) }, func(conn io.ReadWriteCloser) error {
		_, err := conn.Write(p)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeFrame sends the first n bytes of a buffer, and keeps the buffer.
func (l *link) writeFrame(b *frameBuffer, n int) error {
	return l.send(func() {
		l.log.keep(b, n)
		l.flying = b
	}, func(conn io.ReadWriteCloser) error {
		_, err := conn.Write(b[:n])
		return err
	})
}

// send has retain put into the log what write then sends. Where that fails it
// is sent again over the next connection, which send waits for.
func (l *link) send(retain func(), write func(io.ReadWriteCloser) error) error {
	l.writing.Lock()
	l.mu.Lock()
	conn, err, count := l.conn, l.err, l.resume
	var over error
	if err == nil {
		if retain(); l.log.size() > l.most {
			over = Violation("peer has not told that it has got any of the last %d bytes", l.log.size())
		}
	}
	l.mu.Unlock()
	if over != nil {
		l.close(over)
		err = over
	}
	var failed error
	if err == nil && conn != nil {
		failed = write(conn)
	}
	l.land()
	l.writing.Unlock()
	if err != nil || conn != nil && failed == nil {
		return err
	}
	if conn != nil {
		// What the peer sent before it went is there, and tells more.
		timer := time.AfterFunc(readOn, func() { _ = l.lose(conn, failed) })
		defer timer.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.resume == count && l.err == nil {
		l.cond.Wait()
	}
	return l.err
}

// land ends the writing of a buffer. writing is held.
func (l *link) land() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.landed {
		l.pools.putFrame(l.flying)
	}
	l.flying, l.landed = nil, false
}

// free takes back a buffer that the peer has seen. mu is held.
func (l *link) free(b *frameBuffer) {
	switch {
	case l.resending: // whoever writes it is its last user
	case b == l.flying:
		l.landed = true
	default:
		l.pools.putFrame(b)
	}
}

// readOn is how long a connection that cannot be written to is still read from.
const readOn = 5 * time.Second

// park gives up the connection and returns how many bytes have come over it
// and those before. None comes until resume.
func (l *link) park() (received uint64) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // nothing of it is wanted any more
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	return l.received.Load()
}

// resumeOn goes on over a new connection. seen is how many bytes the peer has
// got.
func (l *link) resumeOn(conn io.ReadWriteCloser, seen uint64) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if seen < l.log.seen {
		l.mu.Unlock()
		return Violation("%d bytes seen, and %d before", seen, l.log.seen)
	}
	if err := l.log.forget(l.free, seen); err != nil {
		l.mu.Unlock()
		return err
	}
	again, err := l.log.all()
	if err == nil {
		err = l.err
	}
	if err != nil {
		l.mu.Unlock()
		return err
	}
	l.conn = conn
	l.resume++
	l.resending = true
	l.wakeSenders()
	l.mu.Unlock()
	l.cond.Broadcast()
	for _, p := range again {
		if _, err := conn.Write(p); err != nil {
			break // whoever reads notices, and it is tried once more
		}
	}
	l.mu.Lock()
	l.resending = false
	l.mu.Unlock()
	return nil
}

// seen takes the peer's word for how much it has got.
func (l *link) seen(payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.log.forget(l.free, binary.LittleEndian.Uint64(payload)); err != nil {
		return err
	}
	l.wakeSenders()
	return nil
}

// wakeSenders wakes up who waits for room. mu is held.
func (l *link) wakeSenders() {
	if l.room != nil && l.log.size() < l.limit {
		close(l.room)
		l.room = nil
	}
}

// full returns a channel that is closed when there is room for bulk data, or
// nil when there is now.
func (l *link) full() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.log.size() < l.limit {
		return nil
	}
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

// close ends the link.
func (l *link) close(err error) {
	l.mu.Lock()
	conn := l.conn
	if l.err == nil {
		l.err = err
	}
	l.conn = nil
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	l.mu.Unlock()
	l.cond.Broadcast()
	if conn != nil {
		_ = conn.Close() // it is of no more use; what went wrong is known
	}
}

// release gives back what is retained, once nobody writes any more.
func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.drop()
}
