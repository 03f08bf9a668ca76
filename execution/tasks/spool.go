package tasks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/pinfold-dev/pinfold/execution"
)

// blockSize is how much of the spool is taken at once: a page.
const blockSize = 4 << 10

// maxWarm is how many free blocks may hold memory, to be used again soon.
const maxWarm = 256

// errFull says that no block may be taken.
var errFull = errors.New("spool is full")

// A store is what a spool keeps its blocks in. Closing makes calls that are
// under way fail.
type store interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Discard gives back the memory of a range that nobody reads again.
	Discard(offset, length int64) error
}

// A spool keeps bytes in blocks. Whoever took a block sees to it that nobody
// uses it after it was released.
type spool struct {
	open    func(size int64) (store, error)
	size    int64              // of a block
	limit   int64              // blocks that may be taken; 0 means no limit
	reclaim func(own int) bool // makes room for a stream that has so many blocks

	mu     sync.Mutex
	store  store
	closed bool
	made   int32   // blocks that there are
	warm   []int32 // free ones whose memory has not been given back
	cold   []int32 // the other free ones
}

func newSpool(open func(size int64) (store, error), size, limit int64) *spool {
	return &spool{open: open, size: size, limit: (limit + size - 1) / size, reclaim: func(int) bool { return false }}
}

// take takes a block, whose content is anything.
func (s *spool) take() (block int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := &s.warm
	if len(*free) == 0 {
		free = &s.cold
	}
	taken := int64(s.made) - int64(len(s.warm)+len(s.cold))
	switch {
	case s.closed:
		return 0, execution.ErrClosed
	case s.limit > 0 && taken >= s.limit:
		return 0, errFull
	case len(*free) > 0:
		last := len(*free) - 1
		block, *free = (*free)[last], (*free)[:last]
		return block, nil
	}
	if s.store == nil {
		if s.store, err = s.open(s.size); err != nil {
			return 0, spoolError(err)
		}
	}
	s.made++
	return s.made - 1, nil
}

// release gives blocks back.
func (s *spool) release(blocks ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warm = append(s.warm, blocks...)
	if len(s.warm) > maxWarm && !s.closed {
		s.cool()
	}
}

// cool gives back the memory of free blocks, run by run. Where that fails it is
// kept until the end. The lock is held.
func (s *spool) cool() {
	slices.Sort(s.warm)
	for i := 0; i < len(s.warm); {
		j := i + 1
		for j < len(s.warm) && s.warm[j] == s.warm[j-1]+1 {
			j++
		}
		_ = s.store.Discard(int64(s.warm[i])*s.size, int64(j-i)*s.size)
		i = j
	}
	s.cold = append(s.cold, s.warm...)
	s.warm = nil
}

// close releases everything. Later calls fail with ErrClosed.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil && !s.closed {
		_ = s.store.Close()
	}
	s.closed, s.warm, s.cold = true, nil, nil
}

func (s *spool) write(block int32, offset int64, p []byte) error {
	_, err := s.store.WriteAt(p, int64(block)*s.size+offset)
	return spoolError(err)
}

func (s *spool) read(block int32, offset int64, p []byte) error {
	_, err := s.store.ReadAt(p, int64(block)*s.size+offset)
	return spoolError(err)
}

// spoolError says what an error of a store is in terms of the contract.
func spoolError(err error) error {
	switch {
	case errors.Is(err, os.ErrClosed):
		return execution.ErrClosed
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EFBIG), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %w", execution.ErrNoSpace, err)
	}
	return err
}
