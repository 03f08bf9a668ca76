package wire

// A retained log holds bytes that were sent, from the first one that the peer
// has not seen on.
type retained struct {
	parts []part
	seen  uint64 // bytes before the first part
	sent  uint64 // bytes up to the end of the last
	pipe  spliced
}

// A part is some of the bytes: in memory of its own, in a buffer that goes back
// to the pools, or in the pipe.
type part struct {
	data   []byte
	frame  *frameBuffer
	inPipe int
}

func (r *retained) size() int { return int(r.sent - r.seen) } //nolint:gosec // bounded by the queue and the limit

// copyInto is up to how large a part grows by small writes, in bytes.
const copyInto = 4 << 10

func (r *retained) copy(p []byte) {
	r.sent += uint64(len(p))
	if n := len(r.parts); n > 0 {
		last := &r.parts[n-1]
		if last.frame == nil && last.inPipe == 0 && len(last.data)+len(p) <= copyInto {
			last.data = append(last.data, p...)
			return
		}
	}
	r.parts = append(r.parts, part{data: append([]byte(nil), p...)})
}

func (r *retained) keep(b *frameBuffer, n int) {
	r.sent += uint64(n) //nolint:gosec // positive
	r.parts = append(r.parts, part{data: b[:n], frame: b})
}

// forget drops what the peer has seen. It may tell of less than before: what it
// said before a connection broke comes again after it.
func (r *retained) forget(free func(*frameBuffer), seen uint64) error {
	if seen > r.sent {
		return Violation("%d bytes seen of %d", seen, r.sent)
	}
	if seen < r.seen {
		return nil
	}
	n := int(seen - r.seen) //nolint:gosec // at most size
	r.seen = seen
	for n > 0 {
		first := &r.parts[0]
		if first.inPipe > 0 {
			take := min(n, first.inPipe)
			if err := r.pipe.discard(take); err != nil {
				return err
			}
			first.inPipe -= take
			n -= take
		} else {
			take := min(n, len(first.data))
			first.data = first.data[take:]
			n -= take
		}
		if first.inPipe == 0 && len(first.data) == 0 {
			if first.frame != nil {
				free(first.frame)
			}
			r.parts[0] = part{}
			r.parts = r.parts[1:]
		}
	}
	if len(r.parts) == 0 {
		r.parts = nil
	}
	return nil
}

// all returns the bytes, which are all in memory then.
func (r *retained) all() ([][]byte, error) {
	list := make([][]byte, 0, len(r.parts))
	for i := range r.parts {
		if n := r.parts[i].inPipe; n > 0 {
			data := make([]byte, n)
			if err := r.pipe.read(data); err != nil {
				return nil, err
			}
			r.parts[i] = part{data: data}
		}
		list = append(list, r.parts[i].data)
	}
	return list, nil
}

// drop gives up the bytes.
func (r *retained) drop() {
	r.parts = nil
	r.pipe.close()
}
