package wire

import (
	"encoding/binary"
	"io"
	"runtime"
	"testing"
)

// slowConn takes a Write and finishes it when it is told to.
type slowConn struct {
	io.ReadWriteCloser
	begun, finish chan struct{}
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.begun <- struct{}{}
	<-c.finish
	return len(p), nil
}

// A peer that says it has got what is still being written does not make others
// write into it: not at first, and not when it is sent again.
func TestWhatIsWrittenIsNotUsedAgain(t *testing.T) {
	const n = 1000
	for _, again := range []bool{false, true} {
		var p pools
		slow := &slowConn{begun: make(chan struct{}), finish: make(chan struct{})}
		var conn io.ReadWriteCloser = slow
		if again {
			conn = nil
		}
		l := newLink(conn, &p, hostRetains)
		b := p.frame()
		done := make(chan error, 2)
		go func() { done <- l.writeFrame(b, n) }()
		if again {
			for l.retains() == 0 {
				runtime.Gosched()
			}
			go func() { done <- l.resumeOn(slow, 0) }()
		}
		<-slow.begun
		if err := l.seen(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if p.frame() == b {
				t.Fatalf("it is used again (sent again: %v)", again)
			}
		}
		close(slow.finish)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func (l *link) retains() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.size()
}
