package wire

import (
	"io"
	"syscall"
)

// smallData is the largest payload that is copied to the queue of control
// frames instead of being written on its own: one write then carries it
// together with the ACK or RESULT around it.
const smallData = smallChunk

// A Sender sends data on one channel of a stream. Use it from one goroutine
// at a time, and Close it. What it has sent cannot be overtaken by what the
// stream sends later.
type Sender struct {
	stream   *Stream
	channel  uint8
	small    *chunk
	large    *frameBuffer
	taken    int  // credit reserved for the buffer
	full     bool // the last buffer was filled, so the next one is large
	noSplice bool
	enlarged bool // the pipe that is spliced from
}

// Sender returns a sender for a channel.
func (s *Stream) Sender(ch uint8) *Sender { return &Sender{stream: s, channel: ch} }

// Buffer waits for credit and returns where to put what Send is to send: at
// most as many bytes as there is credit for, few at first and up to MaxData
// once a buffer was filled. It fails when the stream ends first: with
// io.ErrClosedPipe after a RESULT, with ErrCancelled after a CANCEL.
func (o *Sender) Buffer() ([]byte, error) {
	want := MaxData
	if !o.full {
		want = smallData
	}
	n, err := o.stream.reserve(o.channel, int64(want-o.taken), o.taken > 0)
	if err != nil {
		return nil, err
	}
	o.taken += int(n)
	pools := &o.stream.mux.pools
	if o.taken > smallData {
		if o.large == nil {
			o.large = pools.frame()
		}
		return o.large[headerSize:][:o.taken], nil
	}
	if o.small == nil {
		o.small = pools.chunk(smallData)
	}
	return o.small.data[:o.taken], nil
}

// Send sends the first n bytes of what Buffer returned last.
func (o *Sender) Send(n int) error {
	if n == 0 {
		return nil
	}
	isLarge := o.taken > smallData
	o.full = n == o.taken
	o.taken -= n
	h := header{kind: frameData, channel: o.channel, stream: o.stream.id, length: uint32(n)} //nolint:gosec // at most MaxData
	if !isLarge {
		return o.stream.pushWait(h, o.small.data[:n])
	}
	large := o.large
	o.large = nil // it is kept until the peer has seen it
	h.put(large[:])
	return o.stream.send(func() error { return o.stream.mux.link.writeFrame(large, headerSize+n) })
}

// Write sends all of p.
func (o *Sender) Write(p []byte) (n int, err error) {
	for n < len(p) {
		b, err := o.Buffer()
		if err != nil {
			return n, err
		}
		m := copy(b, p[n:])
		if err := o.Send(m); err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// Close gives back buffers and credit that were not used.
func (o *Sender) Close() {
	pools := &o.stream.mux.pools
	if o.small != nil {
		pools.putChunk(o.small)
	}
	if o.large != nil {
		pools.putFrame(o.large)
	}
	o.small, o.large = nil, nil
	o.release()
}

// release gives back credit that is reserved for a buffer.
func (o *Sender) release() {
	o.stream.unreserve(o.channel, int64(o.taken))
	o.taken = 0
}

// CloseSend says that no more data comes on a channel.
func (s *Stream) CloseSend(ch uint8) error {
	return s.pushWait(header{kind: frameEOF, channel: ch, stream: s.id}, nil)
}

// reserve waits for credit and takes up to want bytes of it. With enough it
// does not wait, and may return 0.
func (s *Stream) reserve(ch uint8, want int64, enough bool) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.cancelled:
			return 0, ErrCancelled
		case s.ended:
			return 0, io.ErrClosedPipe
		case s.mux.cfg.Serve != nil && !s.acked:
		case s.out[ch] > 0 || enough:
			n := max(0, min(want, s.out[ch]))
			s.out[ch] -= n
			return n, nil
		}
		s.cond.Wait()
	}
}

// unreserve gives back credit that was not used.
func (s *Stream) unreserve(ch uint8, n int64) {
	s.mu.Lock()
	s.out[ch] += n
	s.mu.Unlock()
}

// A ReadError is an error of the reader that a Sender reads from.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// ReadFrom sends everything that r yields. Where r, or what an
// [io.LimitedReader] reads from, and the connection are files or pipes, bytes
// that are many go from one to the other without being copied. An error of r's
// comes as a ReadError, with everything before it sent.
func (o *Sender) ReadFrom(r io.Reader) (n int64, err error) {
	limited, _ := r.(*io.LimitedReader)
	for {
		many := o.full
		if limited != nil {
			if limited.N <= 0 {
				return n, nil
			}
			many = limited.N > smallData
		}
		if many && !o.noSplice {
			moved, end, err := o.spliceFrom(r)
			n += moved
			if err != nil || end {
				return n, err
			}
		}
		moved, err := o.copyFrom(r)
		n += int64(moved)
		switch {
		case err == io.EOF: //nolint:errorlint // as readers return it
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// copyFrom sends what one Read yields.
func (o *Sender) copyFrom(r io.Reader) (int, error) {
	b, err := o.Buffer()
	if err != nil {
		return 0, err
	}
	n, err := r.Read(b)
	if sendErr := o.Send(n); sendErr != nil {
		return 0, sendErr
	}
	if err != nil && err != io.EOF { //nolint:errorlint // as readers return it
		return n, &ReadError{err}
	}
	return n, err
}

// spliceFrom moves what there is from r, if that can be done, until it ends or
// gets thin.
func (o *Sender) spliceFrom(r io.Reader) (n int64, end bool, err error) {
	limited, _ := r.(*io.LimitedReader)
	limit := int64(1 << 62)
	if limited != nil {
		r, limit = limited.R, limited.N
	}
	src, ok := r.(syscall.Conn)
	if !ok {
		o.noSplice = true
		return 0, false, nil
	}
	o.release() // splicing reserves its own
	n, err = o.splice(src, limit)
	if limited != nil {
		limited.N -= n
	}
	switch err {
	case errNoSplice: //nolint:errorlint // our own
		o.noSplice, err = true, nil
	case io.EOF:
		return n, true, nil
	}
	return n, n == limit, err
}
