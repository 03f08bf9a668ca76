package wire

import "sync"

// Sizes of the buffers that payload travels in, without room for a header.
const (
	smallChunk = 8 << 10
	largeChunk = 64 << 10
)

// A chunk is a buffer of an inbox: data[r:w] is payload that nobody has taken
// yet.
type chunk struct {
	data []byte
	r, w int
	next *chunk
}

// pools keeps buffers for reuse. The garbage collector empties it, so that a
// connection at rest holds none.
type pools struct {
	small, large, frames sync.Pool
}

// chunk returns one that suits want bytes.
func (p *pools) chunk(want int) *chunk {
	pool, size := &p.large, largeChunk
	if want <= smallChunk {
		pool, size = &p.small, smallChunk
	}
	if c, ok := pool.Get().(*chunk); ok {
		return c
	}
	return &chunk{data: make([]byte, size)}
}

func (p *pools) putChunk(c *chunk) {
	c.r, c.w, c.next = 0, 0, nil
	if len(c.data) == smallChunk {
		p.small.Put(c)
	} else {
		p.large.Put(c)
	}
}

// A frameBuffer holds one outgoing DATA frame: header and payload in one
// piece, so that it takes one write.
type frameBuffer [headerSize + MaxData]byte

func (p *pools) frame() *frameBuffer {
	if b, ok := p.frames.Get().(*frameBuffer); ok {
		return b
	}
	return new(frameBuffer)
}

func (p *pools) putFrame(b *frameBuffer) { p.frames.Put(b) }
