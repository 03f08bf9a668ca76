package tasks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

// A reader reads one stream of a task. It is an [execution.OutputReader].
type reader struct {
	registry *Registry
	stream   *stream
	follow   bool
	at       int64 // in the stream
	end      int64 // of what was there when it was opened, unless it follows
	left     int64 // bytes that were asked for

	stopped <-chan struct{} // the context's
	why     func() error
	closed  chan struct{}
	once    sync.Once
}

// OpenOutput is execution.Task's.
func (t *task) OpenOutput(ctx context.Context, name execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
	r, err := t.open(ctx, name, opts)
	if err != nil {
		return nil, t.registry.fail("read output", err)
	}
	return r, nil
}

func (t *task) open(ctx context.Context, name execution.OutputStream, opts execution.OutputOptions) (*reader, error) {
	if err := cmp.Or(t.registry.failure(), ctx.Err(), opts.Validate(name)); err != nil {
		return nil, err
	}
	s := &t.out[name-1]
	end := s.info().Bytes
	at := opts.Offset
	if at < 0 {
		at = max(0, end+at)
	}
	if at > end {
		return nil, fmt.Errorf("%w: offset %d of %v of %s: it has written %d bytes", execution.ErrInvalid, at, name, t.ID(), end)
	}
	if opts.Follow {
		end = math.MaxInt64
	}
	return &reader{
		registry: t.registry, stream: s, follow: opts.Follow, at: at, end: end,
		left:    cmp.Or(opts.Length, math.MaxInt64),
		stopped: ctx.Done(), why: ctx.Err, closed: make(chan struct{}),
	}, nil
}

// Offset is execution.OutputReader's.
func (r *reader) Offset() int64 { return r.at }

// Close is execution.OutputReader's. It makes a Read that waits return.
func (r *reader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// Read is execution.OutputReader's.
func (r *reader) Read(p []byte) (int, error) {
	for {
		if err := r.usable(); err != nil {
			return 0, r.registry.fail("read output", err)
		}
		if r.left == 0 {
			return 0, io.EOF
		}
		n, next, changed, err := r.stream.read(p[:min(int64(len(p)), r.left)], r.at, r.end)
		r.at = next
		r.left -= int64(n)
		switch {
		case err != nil:
			return n, r.registry.fail("read output", cmp.Or(r.usable(), err))
		case n > 0 || len(p) == 0:
			return n, nil
		case !r.follow || changed == nil:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.stopped:
		case <-r.closed:
		case <-r.registry.gone:
		}
	}
}

// usable is why the reader cannot go on, if it cannot.
func (r *reader) usable() error {
	select {
	case <-r.closed:
		return execution.ErrClosed
	default:
		return cmp.Or(r.registry.failure(), r.why())
	}
}
