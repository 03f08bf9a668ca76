package executiontest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// A tape is a writer that keeps what comes and lets a case wait for it. It
// also notices what a backend must not do: writing from two goroutines at
// once, or after it was closed.
type tape struct {
	limit int                     // bytes to keep; 0 means all
	each  func(total int64) error // called for each Write; its error fails it

	mu      sync.Mutex
	data    []byte
	total   int64
	changed chan struct{}
	closed  bool
	late    bool

	busy       atomic.Bool
	overlapped atomic.Bool
}

func (t *tape) Write(p []byte) (int, error) {
	if !t.busy.CompareAndSwap(false, true) {
		t.overlapped.Store(true)
	} else {
		defer t.busy.Store(false)
	}
	t.mu.Lock()
	if t.closed {
		t.late = true
	}
	keep := p
	if t.limit > 0 {
		keep = p[:min(len(p), max(0, t.limit-len(t.data)))]
	}
	t.data = append(t.data, keep...)
	t.total += int64(len(p))
	total := t.total
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	t.mu.Unlock()
	if t.each != nil {
		if err := t.each(total); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// await waits until the tape holds what enough wants, and returns it all.
func (t *tape) await(ctx context.Context, e *env, enough func(text []byte) bool) []byte {
	e.Helper()
	for {
		t.mu.Lock()
		text := bytes.Clone(t.data)
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		if enough(text) {
			return text
		}
		select {
		case <-changed:
		case <-ctx.Done():
			e.Fatalf("waited in vain for output; so far there was %.200q", text)
		}
	}
}

// awaitText waits until the tape holds text.
func (t *tape) awaitText(ctx context.Context, e *env, text string) {
	e.Helper()
	t.await(ctx, e, func(have []byte) bool { return bytes.Contains(have, []byte(text)) })
}

// close ends the tape: whatever is written from now on is a fault.
func (t *tape) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// check fails the case for what the tape noticed.
func (t *tape) check(e *env) {
	e.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late {
		e.Error("the writer was called after Wait had returned")
	}
	if t.overlapped.Load() {
		e.Error("the writer was called by two goroutines at once")
	}
}

func (t *tape) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

func (t *tape) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// A gate is a writer that blocks from its first Write until it is opened.
type gate struct {
	reached, opened         chan struct{}
	reachedOnce, openedOnce sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), opened: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	g.reachedOnce.Do(func() { close(g.reached) })
	<-g.opened
	return len(p), nil
}

func (g *gate) open() { g.openedOnce.Do(func() { close(g.opened) }) }

// A pattern is a reader of size bytes. Each block of them is the same but for
// its number at the beginning, so that a part which is lost, repeated or moved
// shows. It fails with err, if not nil, instead of ending.
type pattern struct {
	size, at int64
	err      error
	each     func(at int64) // called before each Read
}

func (p *pattern) Read(buf []byte) (int, error) {
	if p.each != nil {
		p.each(p.at)
	}
	if p.at >= p.size {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	n := int(min(int64(len(buf)), p.size-p.at))
	fillPattern(buf[:n], p.at)
	p.at += int64(n)
	return n, nil
}

// fillPattern makes buf what a pattern holds from at on.
func fillPattern(buf []byte, at int64) {
	const size = 4096
	var block [size]byte
	seed := uint64(1)
	for i := 8; i < size; i += 8 {
		seed = seed*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(block[i:], seed)
	}
	for len(buf) > 0 {
		binary.LittleEndian.PutUint64(block[:], uint64(at/size)) //nolint:gosec // a place in a file is never negative
		n := copy(buf, block[at%size:])
		buf, at = buf[n:], at+int64(n)
	}
}

// patternBytes is the whole of a small pattern.
func patternBytes(size int) []byte {
	data := make([]byte, size)
	fillPattern(data, 0)
	return data
}

// patternText is a pattern of that size in letters.
func patternText(size int) []byte {
	text := patternBytes(size)
	for i, b := range text {
		text[i] = 'a' + b%26
	}
	return text
}

// A matcher is a writer that compares what comes with a pattern, from at on.
type matcher struct {
	at    int64
	wrong bool
	want  []byte
}

func (m *matcher) Write(p []byte) (int, error) {
	m.want = slices.Grow(m.want[:0], len(p))[:len(p)]
	fillPattern(m.want, m.at)
	m.wrong = m.wrong || !bytes.Equal(p, m.want)
	m.at += int64(len(p))
	return len(p), nil
}

// An endless reader yields the same byte for ever and counts.
type endless struct{ count atomic.Int64 }

func (r *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	r.count.Add(int64(len(p)))
	return len(p), nil
}

// A stuck reader blocks until it is released, then ends.
type stuck chan struct{}

func (r stuck) Read([]byte) (int, error) {
	<-r
	return 0, io.EOF
}
