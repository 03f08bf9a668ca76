package wire

// Receive windows, in bytes: how much a sender may send that has not been
// consumed.
const (
	initialWindow = 256 << 10
	maxWindow     = 2 << 20
)

// An inbox is one channel of a stream on its receiving side: bytes that have
// arrived and that nobody has taken. Its stream's lock guards it.
//
// Payload is read from the connection right into the room that the inbox
// gives, always filling the last chunk first, so that what an inbox holds in
// memory is bounded by its window whatever the size of the frames.
type inbox struct {
	head, tail *chunk
	size       int   // bytes to be taken
	filling    bool  // the last chunk is being written to
	closed     bool  // nothing may arrive: not asked for, or EOF
	discard    bool  // what arrives is dropped
	credit     int64 // what the peer may still send
	window     int64 // credit when all has been taken
	owed       int64 // taken, and not given back as credit
	pumping    bool  // a goroutine hands it to its sink
}

// room returns where to put up to want bytes that are about to be read. fill
// follows.
func (i *inbox) room(p *pools, want int) []byte {
	if i.tail == nil || i.tail.w == len(i.tail.data) {
		c := p.chunk(want)
		if i.tail == nil {
			i.head = c
		} else {
			i.tail.next = c
		}
		i.tail = c
	}
	i.filling = true
	free := i.tail.data[i.tail.w:]
	return free[:min(len(free), want)]
}

// fill makes n bytes of the room available.
func (i *inbox) fill(p *pools, n int) {
	i.filling = false
	if i.discard {
		i.head, i.size = i.tail, 0 // its room serves again for what follows
		return
	}
	i.tail.w += n
	i.size += n
	i.trim(p)
}

// peek is what can be taken without a copy; it stays valid until take.
func (i *inbox) peek() []byte {
	if i.head == nil || i.discard {
		return nil
	}
	return i.head.data[i.head.r:i.head.w]
}

// take removes n bytes of what peek returned, and returns the credit that is
// to be given for it, 0 as long as it is too little to be worth a frame.
func (i *inbox) take(p *pools, n int) (credit int64) {
	if i.discard {
		return 0
	}
	i.head.r += n
	i.size -= n
	i.owed += int64(n)
	i.trim(p)
	if i.closed || i.owed < i.window/2 {
		return 0
	}
	credit = i.owed
	if i.size == 0 && i.window < maxWindow {
		credit += i.window
		i.window *= 2
	}
	i.owed = 0
	i.credit += credit
	return credit
}

// trim releases the first chunk when all of it has been taken.
func (i *inbox) trim(p *pools) {
	c := i.head
	if c == nil || c.r < c.w || c == i.tail && i.filling {
		return
	}
	i.head = c.next
	if i.head == nil {
		i.tail = nil
	}
	p.putChunk(c)
}

// drop forgets what has arrived, and what is still to arrive. Somebody may
// still look at what peek returned, so the chunks are not used again.
func (i *inbox) drop() {
	i.discard = true
	if !i.filling {
		i.head, i.tail, i.size = nil, nil, 0
	}
}
