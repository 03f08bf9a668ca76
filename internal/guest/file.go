package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// OpenFile opens a file for reading; see [execution.Handle]. The reader is
// also an [io.WriterTo].
func (c *Client) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	const op = "open file"
	call := &proto.Call{Method: proto.MethodOpen, Path: path, Offset: opts.Offset, Length: opts.Length}
	s, err := c.mux.Open(ctx, call.Encode(), wire.OpenOptions{Peeks: true})
	if err != nil {
		return nil, c.wrap(op, path, err)
	}
	_, ok, err := s.Acked(ctx)
	if err != nil {
		return nil, c.wrap(op, path, err)
	}
	if !ok {
		result, err := s.Result()
		if err != nil {
			return nil, c.wrap(op, path, err)
		}
		failure, err := proto.DecodeDone(result)
		if failure == nil && err == nil {
			err = wire.Violation("file ends before it was opened")
		}
		return nil, c.outcome(op, path, failure, err)
	}
	return &file{client: c, path: path, stream: s, limit: opts.Length}, nil
}

// A file is one that is open for reading.
type file struct {
	client *Client
	path   string
	stream *wire.Stream
	limit  int64 // of bytes, 0 for none
	closed atomic.Bool

	mu   sync.Mutex // one reader at a time
	read int64
}

// peek returns what comes next, or why nothing does.
func (f *file) peek() ([]byte, error) {
	const op = "read file"
	p, err := f.stream.Peek(0)
	switch {
	case f.closed.Load():
		return nil, f.client.wrap(op, f.path, execution.ErrClosed)
	case errors.Is(err, io.EOF):
		return nil, f.end()
	case err != nil:
		return nil, f.client.wrap(op, f.path, err)
	case f.limit > 0 && f.read+int64(len(p)) > f.limit:
		return nil, f.client.wrap(op, f.path, f.client.broken(wire.Violation("more of a file than was asked for")))
	}
	return p, nil
}

// end is io.EOF when the guest said that this was all.
func (f *file) end() error {
	const op = "read file"
	result, err := f.stream.Result()
	if err != nil {
		return f.client.wrap(op, f.path, err)
	}
	failure, err := proto.DecodeDone(result)
	if err := f.client.outcome(op, f.path, failure, err); err != nil {
		return err
	}
	return io.EOF
}

func (f *file) advance(n int) {
	f.read += int64(n)
	f.stream.Advance(0, n)
}

func (f *file) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	p, err := f.peek()
	if err != nil {
		return 0, err
	}
	n := copy(b, p)
	f.advance(n)
	return n, nil
}

// WriteTo saves io.Copy a buffer and a copy.
func (f *file) WriteTo(w io.Writer) (total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		p, err := f.peek()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(p)
		f.advance(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
		if n < len(p) {
			return total, io.ErrShortWrite
		}
	}
}

// Close stops the transfer, also under a Read. Closing again does nothing.
func (f *file) Close() error {
	if !f.closed.Swap(true) {
		f.stream.Abandon(execution.ErrClosed)
	}
	return nil
}

// readGrace is how long WriteFile waits for a Read of the caller's that is
// still under way when all is over.
const readGrace = 100 * time.Millisecond

// undoGrace is how long a WriteFile whose context has ended waits for the guest
// to remove what it has written so far.
const undoGrace = 2 * time.Second

// WriteFile writes a file; see [execution.Handle]. A Read of r that blocks
// although the writing has failed is left behind.
func (c *Client) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	const op = "write file"
	call := &proto.Call{Method: proto.MethodWrite, Path: path, Mode: opts.Mode}
	s, err := c.mux.Open(ctx, call.Encode(), wire.OpenOptions{})
	if err != nil {
		return c.wrap(op, path, err)
	}
	defer s.BindGrace(ctx, undoGrace)()
	fed := make(chan error, 1)
	go func() {
		err := feed(s, r)
		fed <- err // before the guest can answer to what follows
		if isRead(err) {
			s.Cancel()
		}
	}()
	result, err := s.Result()
	feedErr := errStillReading
	select {
	case feedErr = <-fed:
	case <-time.After(readGrace):
	}
	if err != nil {
		return c.wrap(op, path, err)
	}
	if isRead(feedErr) {
		return c.wrap(op, path, feedErr)
	}
	failure, err := proto.DecodeDone(result)
	if failure != nil && err == nil && ctx.Err() != nil {
		return c.wrap(op, path, context.Cause(ctx))
	}
	if failure == nil && err == nil && feedErr != nil {
		err = wire.Violation("file written before all of it was sent")
	}
	return c.outcome(op, path, failure, err)
}

var errStillReading = errors.New("still reading")

// isRead reports whether an error of feed is the reader's.
func isRead(err error) bool {
	_, ok := errors.AsType[*wire.ReadError](err)
	return ok
}

// feed sends what r yields on channel 0, and that it has ended. An error of
// r's is a wire.ReadError; any other says that the stream ended first.
func feed(s *wire.Stream, r io.Reader) error {
	sender := s.Sender(0)
	defer sender.Close()
	for {
		b, err := sender.Buffer()
		if err != nil {
			return err
		}
		n, readErr := r.Read(b)
		if n < 0 || n > len(b) {
			return &wire.ReadError{Err: fmt.Errorf("a reader returned %d for a buffer of %d bytes", n, len(b))}
		}
		if err := sender.Send(n); err != nil {
			return err
		}
		switch {
		case readErr == io.EOF:
			return s.CloseSend(0)
		case readErr != nil:
			return &wire.ReadError{Err: readErr}
		}
	}
}
