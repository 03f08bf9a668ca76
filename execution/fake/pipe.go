package fake

import (
	"io"
	"sync"
	"syscall"
)

// pipeSize is how many bytes a pipe holds, as on Linux.
const pipeSize = 64 << 10

// A pipe is what processes read and write. It ends when its last writer has
// closed it.
type pipe struct {
	mu         sync.Mutex
	buf, spare []byte
	writers    int
	broken     bool // nobody reads any more: a write fails
	discard    bool // nobody listens any more: a write vanishes
	changed    chan struct{}
}

// wake tells all that wait that something changed. The lock is held.
func (p *pipe) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// wait is a channel that is closed at the next change. The lock is held.
func (p *pipe) wait() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// open adds a writer.
func (p *pipe) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writers++
}

// close takes one away.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writers--
	p.wake()
}

// sever makes writes fail from now on.
func (p *pipe) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = true
	p.wake()
}

// detach ends the pipe for its reader, who still gets what is in it now unless
// that is to be dropped. Later writes vanish.
func (p *pipe) detach(drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard = true
	if drop {
		p.buf = p.buf[:0]
	}
	p.wake()
}

// write writes all of b, waiting for room until stop is closed.
func (p *pipe) write(b []byte, stop <-chan struct{}) (n int, err error) {
	for len(b) > 0 {
		p.mu.Lock()
		if p.broken {
			p.mu.Unlock()
			return n, syscall.EPIPE
		}
		if p.discard {
			p.mu.Unlock()
			return n + len(b), nil
		}
		if room := pipeSize - len(p.buf); room > 0 {
			take := min(room, len(b))
			p.buf = append(p.buf, b[:take]...)
			n, b = n+take, b[take:]
			p.wake()
			p.mu.Unlock()
			continue
		}
		changed := p.wait()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			return n, errKilled
		}
	}
	return n, nil
}

// take returns all that is in the pipe once there is something. It is valid
// until the next call; there is one taker only.
func (p *pipe) take() ([]byte, error) {
	for {
		p.mu.Lock()
		if len(p.buf) > 0 {
			taken := p.buf
			p.buf, p.spare = p.spare[:0], taken
			p.wake()
			p.mu.Unlock()
			return taken, nil
		}
		if p.writers == 0 || p.discard {
			p.mu.Unlock()
			return nil, io.EOF
		}
		changed := p.wait()
		p.mu.Unlock()
		<-changed
	}
}

// read is take for many readers, each with a buffer of its own.
func (p *pipe) read(b []byte, stop <-chan struct{}) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		p.mu.Lock()
		if len(p.buf) > 0 {
			n := copy(b, p.buf)
			p.buf = p.buf[:copy(p.buf, p.buf[n:])]
			p.wake()
			p.mu.Unlock()
			return n, nil
		}
		if p.writers == 0 || p.broken {
			p.mu.Unlock()
			return 0, io.EOF
		}
		changed := p.wait()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			return 0, errKilled
		}
	}
}
