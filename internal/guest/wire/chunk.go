package wire

import "sync"

// smallChunk is the size of the buffers that little payload travels in.
const smallChunk = 8 << 10

// chunkSizes are the sizes of the buffers that payload travels in.
func chunkSizes() [3]int { return [3]int{smallChunk, 64 << 10, MaxData} }

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
	chunks [3]sync.Pool // by chunkSizes
	frames sync.Pool
}

// chunk returns the smallest one that takes want bytes, or the largest.
func (p *pools) chunk(want int) *chunk {
	sizes := chunkSizes()
	class := 0
	for class < len(sizes)-1 && want > sizes[class] {
		class++
	}
	if c, ok := p.chunks[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{data: make([]byte, sizes[class])}
}

func (p *pools) putChunk(c *chunk) {
	c.r, c.w, c.next = 0, 0, nil
	for class, size := range chunkSizes() {
		if len(c.data) == size {
			p.chunks[class].Put(c)
		}
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
