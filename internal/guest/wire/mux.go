package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxStreams is how many streams may be open on one connection, counting those
// whose RESULT nobody waits for any more.
const maxStreams = 1 << 14

// readBuffer is the size of the buffer that headers and small payloads are
// read through; larger ones are read right to where they belong.
const readBuffer = 8 << 10

// Config says what a Mux is to do.
type Config struct {
	// Serve makes it the guest's side: it carries out one operation and
	// returns the payload of the RESULT. It runs in a goroutine of its own;
	// ctx ends when the host cancels the operation and when the connection
	// ends. call is its to keep.
	Serve func(ctx context.Context, s *Stream, call []byte) []byte

	// Explain turns the reason why the connection ended into the error that
	// every stream gets. It is called once, and not after Close. Nil leaves
	// the reason as it is.
	Explain func(cause error) error

	// Log is called for each frame that arrives, before anything is done
	// about it; for tests.
	Log func(kind, channel uint8, stream, length uint32)
}

// A Mux is one side of a connection. Two goroutines serve it until it ends.
type Mux struct {
	link   *link
	cfg    Config
	pools  pools
	relays relayCache
	told   uint64 // how much the peer was told that we have seen; the reader's

	queue queue
	beats atomic.Uint64 // frames received

	mu      sync.Mutex
	streams map[uint32]*Stream
	nextID  uint32
	hold    error // why no stream can be opened now
	cause   error // why it ends, before it was explained
	err     error // why it ended
	hello   []byte
	greeted bool // the peer's HELLO has come

	helloCh  chan struct{} // closed when greeted
	stopping chan struct{} // closed when cause is set
	done     chan struct{} // closed when err is set
	loops    sync.WaitGroup
	serving  sync.WaitGroup
	stopAll  context.CancelFunc // guest: ends the context of every operation
}

// New starts a connection on conn, which it closes when it ends. Closing conn
// must make a pending Read or Write return. The connection outlives ctx, which
// only gives Serve its values.
func New(ctx context.Context, conn io.ReadWriteCloser, cfg Config) *Mux {
	m := &Mux{
		cfg: cfg, streams: map[uint32]*Stream{}, nextID: 1,
		helloCh: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
		stopAll: func() {},
	}
	retains := hostRetains
	if cfg.Serve != nil {
		retains = guestRetains
	}
	m.link = newLink(conn, &m.pools, retains)
	m.queue.init()
	ctx = context.WithoutCancel(ctx)
	if cfg.Serve != nil {
		ctx, m.stopAll = context.WithCancel(ctx)
	}
	m.loops.Add(2)
	go m.readLoop(ctx)
	go m.writeLoop()
	return m
}

// Greet sends the host's HELLO and waits for the guest's, which it returns.
func (m *Mux) Greet(ctx context.Context, hello []byte) ([]byte, error) {
	if len(hello)+len(magic) > MaxHello {
		return nil, fmt.Errorf("%w: a configuration of %d bytes, want at most %d", ErrTooLarge, len(hello), MaxHello-len(magic))
	}
	m.push(header{kind: frameHello}, append([]byte(magic), hello...))
	return m.AwaitHello(ctx)
}

// AwaitHello waits for the peer's HELLO.
func (m *Mux) AwaitHello(ctx context.Context) ([]byte, error) {
	select {
	case <-m.helloCh:
		return m.hello, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-m.done:
		return nil, m.Err()
	}
}

// Answer sends the guest's HELLO.
func (m *Mux) Answer(hello []byte) {
	m.push(header{kind: frameHello}, append([]byte(magic), hello...))
}

// Ping asks the peer for a sign of life.
func (m *Mux) Ping() { m.push(header{kind: framePing}, make([]byte, pingSize)) }

// Survive makes the connection outlive what it runs on. Each time that breaks,
// broken is called, which may not wait; Park and Resume, or Fail, are to follow.
func (m *Mux) Survive(broken func(cause error)) { m.link.survive(broken) }

// Park gives up what the connection runs on, and returns how many bytes have
// come since its start: what the peer's Resume is to be told.
func (m *Mux) Park() (received uint64) { return m.link.park() }

// Resume goes on over conn. seen is what the peer's Park returned. It fails
// when that cannot be, and then leaves conn alone.
func (m *Mux) Resume(conn io.ReadWriteCloser, seen uint64) error { return m.link.resumeOn(conn, seen) }

// Beats counts the frames that have arrived.
func (m *Mux) Beats() uint64 { return m.beats.Load() }

// Trim releases what is kept for reuse.
func (m *Mux) Trim() { m.relays.trim() }

// OpenOptions says what a stream of the host is for.
type OpenOptions struct {
	Sinks [Channels]Sink // get what arrives; a channel without one is Peeked
	Peeks bool           // channel 0 may carry data although it has no sink

	// Ended is called once, in a goroutine of its own, when the RESULT has
	// come (err is nil) or the stream has failed, and no sink is running any
	// more. Acked says whether the guest had begun.
	Ended func(acked bool, result []byte, err error)
}

// Open starts an operation. ctx bounds the waiting for room to send the call.
func (m *Mux) Open(ctx context.Context, call []byte, opts OpenOptions) (*Stream, error) {
	if len(call) > MaxCall {
		return nil, fmt.Errorf("%w: a call of %d bytes, want at most %d", ErrTooLarge, len(call), MaxCall)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s, err := m.register(opts)
	if err != nil {
		return nil, err
	}
	defer s.Bind(ctx)()
	if err := s.pushWait(header{kind: frameCall, stream: s.id}, call); err != nil {
		m.remove(s) // the guest never hears of it
		return nil, err
	}
	return s, nil
}

func (m *Mux) register(opts OpenOptions) (*Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return nil, m.err
	case m.hold != nil:
		return nil, m.hold
	case len(m.streams) >= maxStreams:
		return nil, errTooMany
	}
	for m.streams[m.nextID] != nil || m.nextID == 0 {
		m.nextID++
	}
	s := newStream(m, m.nextID)
	m.nextID++
	s.sinks = opts.Sinks
	for ch := range s.in {
		s.in[ch].closed = opts.Sinks[ch] == nil && (ch > 0 || !opts.Peeks)
	}
	if ended := opts.Ended; ended != nil {
		s.onEnd = func() {
			s.mu.Lock()
			acked, result, err := s.acked, s.result, s.err
			s.mu.Unlock()
			ended(acked, result, err)
		}
	}
	m.streams[s.id] = s
	return s, nil
}

func (m *Mux) stream(id uint32) *Stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streams[id]
}

func (m *Mux) remove(s *Stream) {
	m.mu.Lock()
	delete(m.streams, s.id)
	m.mu.Unlock()
}

// Streams is how many streams are open.
func (m *Mux) Streams() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.streams)
}

// Hold makes Open fail with err, and abandons with it the streams that have
// not been acknowledged. A nil err lifts it.
func (m *Mux) Hold(err error) {
	m.mu.Lock()
	m.hold = err
	var waiting []*Stream
	if err != nil {
		waiting = m.all()
	}
	m.mu.Unlock()
	for _, s := range waiting {
		s.cancel(err, true)
	}
}

func (m *Mux) all() []*Stream {
	streams := make([]*Stream, 0, len(m.streams))
	for _, s := range m.streams {
		streams = append(streams, s)
	}
	return streams
}

// Done is closed when the connection has ended and it is known why.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Err says why the connection ended; nil while it has not.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Fail ends the connection because of err.
func (m *Mux) Fail(err error) { m.end(err, false) }

// Close ends the connection and waits until its goroutines have ended. Every
// stream gets err, unless the connection had already ended.
func (m *Mux) Close(err error) {
	m.end(err, true)
	m.loops.Wait()
	m.serving.Wait()
	m.relays.close()
	m.link.release()
}

// end starts the end. A final cause is not to be explained.
func (m *Mux) end(cause error, final bool) {
	m.mu.Lock()
	first := m.cause == nil
	if first {
		m.cause = cause
	}
	if final && m.err == nil {
		m.err = cause
	}
	m.mu.Unlock()
	if first {
		close(m.stopping)
		m.stopAll()
		m.link.close(cause)
	}
}

// settle ends what is left once both directions have stopped.
func (m *Mux) settle() {
	m.mu.Lock()
	err, cause := m.err, m.cause
	m.mu.Unlock()
	if err == nil {
		err = cause
		if m.cfg.Explain != nil {
			err = m.cfg.Explain(cause)
		}
	}
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	err = m.err
	streams := m.all()
	clear(m.streams)
	m.mu.Unlock()
	for _, s := range streams {
		s.fail(err)
	}
	close(m.done)
}

// readLoop takes in frames until the connection ends, and then settles it.
func (m *Mux) readLoop(ctx context.Context) {
	defer m.loops.Done()
	r := bufio.NewReaderSize(m.link, readBuffer)
	err := m.receiveAll(ctx, r)
	m.end(err, false)
	m.settle()
}

// A FarewellError is why a connection ended when its guest said goodbye. The text is
// the guest's own.
type FarewellError struct{ Text string }

func (f *FarewellError) Error() string { return "guest said: " + f.Text }

// Farewell tells the host why its guest ends, as far as that can be done
// quickly. Fail or Close are to follow.
func (m *Mux) Farewell(err error) {
	text := err.Error()
	m.push(header{kind: frameBye}, []byte(text[:min(len(text), MaxFarewell)]))
	flushed := make(chan struct{})
	m.serving.Go(func() {
		defer close(flushed)
		select {
		case m.queue.writing <- struct{}{}:
			_ = m.flush() // nobody is left to be told
			<-m.queue.writing
		case <-m.stopping:
		}
	})
	select {
	case <-flushed:
	case <-time.After(farewellTime):
	}
}

// farewellTime bounds Farewell: the peer may not read.
const farewellTime = 200 * time.Millisecond
