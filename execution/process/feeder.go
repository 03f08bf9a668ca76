//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// A feeder hands a command its input.
//
// A reader that implements io.WriterTo gets the pipe itself, an *os.File, to
// write to as it likes.
type feeder struct {
	w        *os.File
	r        io.Reader
	terminal bool
	stopped  atomic.Bool
}

func newFeeder(w *os.File, r io.Reader, terminal bool) *feeder {
	return &feeder{w: w, r: r, terminal: terminal}
}

// copy hands on input until it ends, and the end too. A command that does not
// want any more of it is no failure.
func (f *feeder) copy(p *proc) {
	err := f.hand(p.h.context)
	if !f.terminal {
		_ = f.w.Close()
	}
	if err != nil && !f.stopped.Load() {
		p.end(execution.EndingCancelled, "its input could not be read", err)
	}
}

// hand copies, and returns the reader's error only.
func (f *feeder) hand(c *Context) error {
	if from, ok := f.r.(io.WriterTo); ok && !f.terminal {
		if _, err := from.WriteTo(f.w); !errors.Is(err, unix.EPIPE) {
			return err // of a pipe that stop has closed, copy takes no notice
		}
		return nil
	}
	buffer := c.buffers.Get().(*[bufferSize]byte)
	defer c.buffers.Put(buffer)
	last := byte('\n')
	for {
		n, err := f.r.Read(buffer[:])
		if n > 0 {
			last = buffer[n-1]
			if _, err := f.w.Write(buffer[:n]); err != nil {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			f.endTerminal(last)
			return nil
		case err != nil:
			return err
		}
	}
}

// endTerminal passes on the end of the input on a terminal, where it is a
// character. Within a line the first one only ends that.
func (f *feeder) endTerminal(last byte) {
	if !f.terminal {
		return
	}
	const endOfFile = "\x04"
	text := endOfFile
	if last != '\n' && last != endOfFile[0] {
		text += endOfFile
	}
	_, _ = f.w.WriteString(text)
}

// stop ends the feeding of a command that has ended.
func (f *feeder) stop() {
	f.stopped.Store(true)
	if f.terminal {
		_ = f.w.SetWriteDeadline(time.Now())
		return
	}
	_ = f.w.Close()
}
