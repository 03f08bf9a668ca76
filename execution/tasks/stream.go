package tasks

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

// smallOutput is how many bytes of a stream stay in the heap before it takes
// blocks of the spool.
const smallOutput = 512

// A stream keeps the start and the end of what is written to it. The bytes up
// to head are kept for good, and of what follows those from tailStart on.
type stream struct {
	spool *spool

	mu         sync.Mutex
	head, tail int64         // how many bytes are kept, of the start and of the end
	n          int64         // bytes written
	from       int64         // the tail begins there, or later where head says so
	small      []byte        // all of it, while it is small
	heads      []int32       // blocks of the head
	tails      []int32       // blocks of the tail, the first of which holds the bytes
	base       int64         // from base on
	sealed     bool          // what is still written is not kept
	ended      bool          // nobody need wait for more
	err        error         // of the write that failed
	changed    chan struct{} // closed at the next write, where somebody waits
}

// headEnd and tailStart are the bounds of what was dropped. The lock is held.
func (s *stream) headEnd() int64   { return min(s.n, s.head) }
func (s *stream) tailStart() int64 { return min(s.n, max(s.from, s.head)) }

func (s *stream) info() execution.OutputInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return execution.OutputInfo{Bytes: s.n, Dropped: s.tailStart() - s.headEnd()}
}

// kept is how many bytes the stream takes, those of blocks that are not full
// included.
func (s *stream) kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.small)) + int64(len(s.heads)+len(s.tails))*s.spool.size
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Write keeps p. It fails when there is no room for it. What comes after the
// end is not kept.
func (s *stream) Write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return len(p), nil
	}
	for len(p) > 0 && err == nil {
		var n int
		n, err = s.put(p)
		written += n
		p = p[n:]
	}
	s.err = err
	s.wake()
	return written, err
}

// put keeps as much of p as goes to one place.
func (s *stream) put(p []byte) (int, error) {
	blocks := len(s.heads) > 0 || s.n > s.head
	if !blocks && s.n+int64(len(p)) <= min(smallOutput, s.head, s.spool.size) {
		s.small = append(s.small, p...)
		s.n += int64(len(p))
		return len(p), nil
	}
	if len(s.small) > 0 {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	list, room, at := &s.heads, s.head-s.n, s.n
	if room <= 0 {
		if len(s.tails) == 0 {
			s.base = s.n
		}
		list, room, at = &s.tails, int64(len(p)), s.n-s.base
	}
	if list == &s.tails && s.tail == 0 {
		s.n += int64(len(p))
		s.from = s.n
		return len(p), nil
	}
	at %= s.spool.size
	if at == 0 {
		block, err := s.block()
		if errors.Is(err, errLess) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		*list = append(*list, block)
	}
	p = p[:min(int64(len(p)), room, s.spool.size-at)]
	if err := s.spool.write((*list)[len(*list)-1], at, p); err != nil {
		if at == 0 {
			s.spool.release((*list)[len(*list)-1])
			*list = (*list)[:len(*list)-1]
		}
		return 0, err
	}
	s.n += int64(len(p))
	s.drop(s.n - s.tail)
	return len(p), nil
}

// spill moves what was small to a block.
func (s *stream) spill() error {
	block, err := s.block()
	if err != nil {
		return err
	}
	if err := s.spool.write(block, 0, s.small); err != nil {
		s.spool.release(block)
		return err
	}
	s.heads, s.small = append(s.heads, block), nil
	return nil
}

// drop gives up the tail before from.
func (s *stream) drop(from int64) {
	s.from = max(s.from, from)
	for len(s.tails) > 0 && s.base+s.spool.size <= s.from {
		s.spool.release(s.tails[0])
		s.tails = s.tails[1:]
		s.base += s.spool.size
	}
}

// errLess says that less is kept from now on.
var errLess = errors.New("half of the head was given up")

// block takes a block of the spool. Where that is full, the output of ended
// tasks makes room, or that of tasks which keep more than their share, or else
// the oldest of the tail, or else half of the head.
func (s *stream) block() (int32, error) {
	for {
		block, err := s.spool.take()
		if !errors.Is(err, errFull) {
			return block, err
		}
		switch {
		case s.spool.reclaim(len(s.heads) + len(s.tails)):
		case len(s.tails) >= 2:
			s.drop(s.base + s.spool.size)
		case len(s.heads) > 2:
			s.halve()
			return 0, errLess
		default:
			return 0, fmt.Errorf("%w: the tasks of the sandbox keep too much", execution.ErrNoSpace)
		}
	}
}

// blocks is how many blocks the stream takes; 0 while it is busy, since whoever
// asks has a stream of its own locked.
func (s *stream) blocks() int {
	if !s.mu.TryLock() {
		return 0
	}
	defer s.mu.Unlock()
	return len(s.heads) + len(s.tails)
}

// shed gives up half of the tail, or of the head, where there is enough and the
// stream is not busy.
func (s *stream) shed() bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	switch {
	case len(s.tails) >= 2:
		s.drop(s.base + int64(len(s.tails)/2)*s.spool.size)
	case len(s.heads) > 2:
		s.halve()
	default:
		return false
	}
	return true
}

// halve gives up half of the head, for the sake of the tail.
func (s *stream) halve() {
	half := len(s.heads) / 2
	s.spool.release(s.heads[half:]...)
	s.heads = s.heads[:half]
	if s.head = int64(half) * s.spool.size; len(s.tails) == 0 {
		s.base = s.n
	}
	s.from = max(s.from, s.base)
}

// wake tells those who wait that something has changed. The lock is held.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// seal makes later writes do nothing. When it returns, none is under way.
func (s *stream) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

// end says that nothing will be written any more.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.small = append([]byte(nil), s.small...)
	s.wake()
}

// empty drops everything.
func (s *stream) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spool.release(s.heads...)
	s.spool.release(s.tails...)
	s.small, s.heads, s.tails = nil, nil, nil
	s.head, s.tail, s.from = 0, 0, s.n
}

// read copies what follows at, up to end. next is where the bytes ended that it
// copied, and past what was dropped. Where there is nothing yet, changed is
// closed once there is; it is nil where there will be nothing.
func (s *stream) read(p []byte, at, end int64) (n int, next int64, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at >= s.headEnd() && at < s.tailStart() {
		at = min(s.tailStart(), end)
	}
	for n < len(p) && err == nil {
		var got int
		got, err = s.copy(p[n:], at, end)
		if got == 0 {
			break
		}
		n, at = n+got, at+int64(got)
	}
	if at >= s.n && !s.ended {
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed = s.changed
	}
	return n, at, changed, err
}

// copy copies out of one place. The lock is held.
func (s *stream) copy(p []byte, at, end int64) (int, error) {
	list, first, last := s.heads, int64(0), min(end, s.headEnd())
	if at >= s.tailStart() {
		list, first, last = s.tails, s.base, min(end, s.n)
	}
	switch {
	case at >= last:
		return 0, nil
	case len(s.small) > 0:
		return copy(p, s.small[at:last]), nil
	}
	block, offset := (at-first)/s.spool.size, (at-first)%s.spool.size
	p = p[:min(int64(len(p)), last-at, s.spool.size-offset)]
	if err := s.spool.read(list[block], offset, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
