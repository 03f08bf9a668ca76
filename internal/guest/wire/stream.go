package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrCancelled is what a guest's operation gets when its host no longer wants
// it.
var ErrCancelled = errors.New("cancelled by the host")

// A Sink takes what arrives on a channel. It gets it in order, from one
// goroutine at a time, and may not keep p. When it fails, the stream is
// cancelled and the rest of the channel is dropped.
type Sink func(p []byte) error

// A Stream is one operation. Its methods may be called from many goroutines,
// but on each channel only one may send and one receive at a time.
type Stream struct {
	mux *Mux
	id  uint32

	mu        sync.Mutex
	cond      sync.Cond
	in        [Channels]inbox
	out       [Channels]int64 // credit for what we send
	ack       []byte
	acked     bool
	result    []byte
	ended     bool          // RESULT was received or sent
	cancelled bool          // CANCEL was sent or received
	err       error         // why it ended without a RESULT, or nobody waits for one
	gone      chan struct{} // closed when err is set
	sinks     [Channels]Sink
	onEnd     func()             // called once when all is over, then nil
	stop      context.CancelFunc // guest: ends the operation's context
}

func newStream(m *Mux, id uint32) *Stream {
	s := &Stream{mux: m, id: id, gone: make(chan struct{})}
	s.cond.L = &s.mu
	for ch := range s.in {
		s.in[ch] = inbox{credit: initialWindow, window: initialWindow}
		s.out[ch] = initialWindow
	}
	return s
}

// Begin says that the operation has begun: the guest's ACK. Data of the guest
// waits for it.
func (s *Stream) Begin(payload []byte) error {
	if err := s.pushWait(header{kind: frameAck, stream: s.id}, payload); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = true
	s.cond.Broadcast()
	return nil
}

// answer sends the RESULT, after which the stream is no more.
func (s *Stream) answer(result []byte) {
	s.mu.Lock()
	s.ended = true
	s.cond.Broadcast()
	s.mu.Unlock()
	// Out of the way first: the host may use the number again at once.
	s.mux.remove(s)
	_ = s.pushWait(header{kind: frameResult, stream: s.id}, result) // nobody is left to be told
}

// Acked waits until the guest has begun the operation. It returns the ACK's
// payload, or ok false when a RESULT came without one. When ctx ends before
// either, the stream is abandoned.
func (s *Stream) Acked(ctx context.Context) (ack []byte, ok bool, err error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx), true) })
		defer stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && !s.acked && !s.ended {
		s.cond.Wait()
	}
	return s.ack, s.acked, s.err
}

// Result waits for the operation's RESULT and returns its payload.
func (s *Stream) Result() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && !s.ended {
		s.cond.Wait()
	}
	return s.result, s.err
}

// Bind abandons the stream when ctx ends before release is called.
func (s *Stream) Bind(ctx context.Context) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	stop := context.AfterFunc(ctx, func() { s.Abandon(context.Cause(ctx)) })
	return func() { stop() }
}

// BindGrace is Bind for an operation that the guest has to undo: when ctx ends
// it is cancelled, and abandoned only when its RESULT does not come within the
// grace.
func (s *Stream) BindGrace(ctx context.Context, grace time.Duration) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	released := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.Cancel()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-released:
		case <-timer.C:
			s.Abandon(context.Cause(ctx))
		}
	})
	return func() {
		stop()
		close(released)
	}
}

// Cancel tells the guest that the operation is no longer wanted. Its RESULT is
// still waited for; data that arrives before it is dropped.
func (s *Stream) Cancel() { s.cancel(nil, false) }

// Abandon is Cancel without waiting for the RESULT: whoever waits for
// something on the stream gets err.
func (s *Stream) Abandon(err error) { s.cancel(err, false) }

// cancel does nothing to a stream that has begun if only early is wanted.
func (s *Stream) cancel(err error, early bool) {
	s.mu.Lock()
	if early && s.acked {
		s.mu.Unlock()
		return
	}
	tell := !s.cancelled && !s.ended && s.err == nil
	s.cancelled = true
	if err != nil && !s.ended {
		s.setErr(err)
	}
	for ch := range s.in {
		s.in[ch].drop()
	}
	end := s.finish()
	s.mu.Unlock()
	if tell {
		s.mux.push(header{kind: frameCancel, stream: s.id}, nil)
	}
	end()
}

// fail ends the stream when its connection has ended. What has arrived is
// still handed to the sinks.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	if !s.ended {
		s.setErr(err)
	}
	end := s.finish()
	s.mu.Unlock()
	end()
}

func (s *Stream) setErr(err error) {
	if s.err == nil {
		s.err = err
		close(s.gone)
	}
}

// finish wakes up who waits. When the stream has ended and its sinks have got
// everything it returns onEnd, to be called without the lock, which is held.
func (s *Stream) finish() func() {
	s.cond.Broadcast()
	if s.onEnd == nil || !s.ended && s.err == nil {
		return func() {}
	}
	for ch := range s.in {
		if s.in[ch].pumping {
			return func() {}
		}
	}
	end := s.onEnd
	s.onEnd = nil
	return end
}

// Peek waits for data on a channel and returns what is there, without a copy
// and valid until Advance. After the last of it the error is io.EOF; the
// stream's RESULT then says whether that was all.
func (s *Stream) Peek(ch uint8) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		in := &s.in[ch]
		switch {
		case in.size > 0 && !in.discard:
			return in.peek(), nil
		case s.err != nil:
			return nil, s.err
		case s.ended, in.closed:
			return nil, io.EOF
		case s.cancelled:
			return nil, ErrCancelled
		}
		s.cond.Wait()
	}
}

// Advance takes n bytes of what Peek returned.
func (s *Stream) Advance(ch uint8, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(ch, n)
}

func (s *Stream) advance(ch uint8, n int) {
	credit := s.in[ch].take(&s.mux.pools, n)
	if credit > 0 && !s.ended && s.err == nil {
		var payload [creditSize]byte
		binary.LittleEndian.PutUint32(payload[:], uint32(credit)) //nolint:gosec // at most two windows
		s.mux.push(header{kind: frameCredit, channel: ch, stream: s.id}, payload[:])
	}
}

// Busy reports whether a sink still has to take what has arrived.
func (s *Stream) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.in {
		if s.in[ch].pumping {
			return true
		}
	}
	return false
}

// pump hands what is in an inbox to its sink, until it is empty.
func (s *Stream) pump(ch uint8) {
	s.mu.Lock()
	in, sink := &s.in[ch], s.sinks[ch]
	tell := false
	for in.size > 0 && !in.discard {
		p := in.peek()
		s.mu.Unlock()
		err := sink(p)
		s.mu.Lock()
		if err != nil {
			in.drop()
			tell = !s.cancelled && !s.ended && s.err == nil
			s.cancelled = true
			break
		}
		s.advance(ch, len(p))
	}
	in.pumping = false
	end := s.finish()
	s.mu.Unlock()
	if tell {
		s.mux.push(header{kind: frameCancel, stream: s.id}, nil)
	}
	end()
}
