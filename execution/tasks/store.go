package tasks

import (
	"errors"
	"os"
	"sync"
)

// A memory is a store in the heap.
type memory struct {
	size int64 // of a block

	mu     sync.Mutex
	blocks [][]byte
	closed bool
}

func openMemory(size int64) (store, error) { return &memory{size: size}, nil }

// at is the block that holds an offset, and what of it begins there. A range
// never crosses into the next one. The lock is held.
func (m *memory) at(offset int64) (block int64, start int64) { return offset / m.size, offset % m.size }

func (m *memory) WriteAt(p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, os.ErrClosed
	}
	i, start := m.at(offset)
	for int64(len(m.blocks)) <= i {
		m.blocks = append(m.blocks, nil)
	}
	block := m.blocks[i]
	if missing := start + int64(len(p)) - int64(len(block)); missing > 0 {
		block = append(block, make([]byte, missing)...)
	}
	m.blocks[i] = block
	return copy(block[start:], p), nil
}

func (m *memory) ReadAt(p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, os.ErrClosed
	}
	i, start := m.at(offset)
	return copy(p, m.blocks[i][start:]), nil
}

func (m *memory) Discard(offset, length int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, _ := m.at(offset)
	for i := first; i < first+length/m.size; i++ {
		m.blocks[i] = nil
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.blocks = true, nil
	return nil
}

// tempFile makes a file that has no name any more.
func tempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "pinfold-tasks-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
