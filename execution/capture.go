package execution

import "sync"

// A Capture is a writer that keeps the start and the end of what is written to
// it and counts the rest, so that it stays small however much comes. The zero
// value keeps CaptureLimit bytes.
type Capture struct {
	Limit int // bytes to keep, half of them from the end; 0 means CaptureLimit

	mu      sync.Mutex
	head    []byte
	tail    []byte // a ring once it is full
	start   int    // where the ring begins
	dropped int64
}

// Write never fails.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	half := c.limit() - c.limit()/2
	if room := half - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.writeTail(p)
	return n, nil
}

func (c *Capture) writeTail(p []byte) {
	size := c.limit() / 2
	if over := len(p) - size; over > 0 {
		c.dropped += int64(over + len(c.tail))
		c.tail, c.start = append(c.tail[:0], p[over:]...), 0
		return
	}
	if room := size - len(c.tail); room > 0 {
		take := min(room, len(p))
		c.tail = append(c.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.start:], p)
		c.start = (c.start + n) % size
		c.dropped += int64(n)
		p = p[n:]
	}
}

func (c *Capture) limit() int {
	if c.Limit > 0 {
		return c.Limit
	}
	return CaptureLimit
}

// Take returns a copy of what is kept, and how many bytes are missing between
// its two halves.
func (c *Capture) Take() (kept []byte, dropped int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept = make([]byte, 0, len(c.head)+len(c.tail))
	kept = append(kept, c.head...)
	kept = append(kept, c.tail[c.start:]...)
	kept = append(kept, c.tail[:c.start]...)
	return kept, c.dropped
}
