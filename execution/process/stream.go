//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// bufferSize is how much is copied at once where copying cannot be avoided; a
// pipe holds as much.
const bufferSize = 64 << 10

// A stream hands a command's output on to a writer.
//
// A writer that implements io.ReaderFrom gets the pipe itself, as an
// io.LimitedReader on an intake, with as many bytes as were seen to be there.
// It can move them with splice(2), say, without their passing through this
// program. *os.File is the exception: its ReadFrom would only copy, through a
// buffer of its own.
type stream struct {
	context  *Context
	f        *os.File
	conn     syscall.RawConn // of f
	in       intake          // of f
	w        io.Writer
	from     io.ReaderFrom // w, where it can read by itself
	budget   *budget
	terminal bool
	polls    [1]unix.PollFd // of copy's own

	handed chan struct{} // closed when all has been handed on
	n      int64         // bytes handed on
	cut    bool          // somebody still holds the other end

	mu     sync.Mutex
	ending bool // the leader has ended
}

func newStream(c *Context, f *os.File, w io.Writer, b *budget) (*stream, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &stream{context: c, f: f, conn: conn, in: intake{conn}, w: w, budget: b, handed: make(chan struct{})}
	if _, isFile := w.(*os.File); !isFile && w != nil {
		s.from, _ = w.(io.ReaderFrom)
	}
	return s, nil
}

// count is how many bytes were handed on; it is final once handed is closed.
func (s *stream) count() int64 {
	if s == nil {
		return 0
	}
	return s.n
}

// finish tells the stream that the leader has ended, so that it no longer waits
// for output. Handing on what is there does not wait, and so is not disturbed.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	_ = s.f.SetReadDeadline(time.Now())
}

func (s *stream) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// copy hands on output until it ends or is cut off, and then drops what still
// comes, so that nobody who writes it is held up. It ends when the other end,
// or this one, is closed.
func (s *stream) copy(p *proc) {
	s.hand(p)
	close(s.handed)
	_ = s.f.SetReadDeadline(time.Time{})
	for {
		n, err := s.ready()
		if err != nil {
			return
		}
		if _, err := s.pass(io.Discard, min(n, bufferSize)); err != nil {
			return
		}
	}
}

// hand hands on output.
func (s *stream) hand(p *proc) {
	for !s.isEnding() {
		n, err := s.ready()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // finish was called
		case err != nil:
			return
		}
		if !s.move(p, n) {
			return
		}
	}
	s.handRest(p)
}

// handRest hands on output once the leader has ended. What is in the pipe by
// now may be the leader's, and is handed on however long the writer takes.
func (s *stream) handRest(p *proc) {
	limit := time.Now().Add(graceLimit)
	owed := s.buffered()
	for {
		now := time.Now()
		until := now.Add(graceQuiet)
		if owed <= 0 {
			if now.After(limit) {
				s.cut = true
				return
			}
			until = earlier(until, limit)
		}
		n, err := s.readyBy(until)
		if err != nil {
			s.cut = errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
		before := s.n
		if !s.move(p, n) {
			return
		}
		owed -= s.n - before
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// move hands on n bytes that are there to be read. It is false when there is
// nobody to hand them to any more.
func (s *stream) move(p *proc, n int64) bool {
	granted := s.budget.take(n)
	if granted > 0 {
		moved, err := s.pass(s.w, granted)
		s.n += moved
		s.budget.giveBack(granted - moved)
		if err != nil {
			p.endOutput(execution.EndingCancelled, "its output could not be handed on", err)
			return false
		}
	}
	// What a terminal has to read is a guess; but it is something.
	if granted < n && (granted == 0 || !s.terminal) {
		p.endOutput(execution.EndingOutputLimit, fmt.Sprintf("the limit is %d bytes", p.cmd.OutputLimit), nil)
		return false
	}
	return true
}

// pass moves up to n bytes that are there to be read to w, nil dropping them.
// An error is w's.
func (s *stream) pass(w io.Writer, n int64) (moved int64, err error) {
	if s.from != nil && w == s.w {
		moved, err = s.from.ReadFrom(&io.LimitedReader{R: s.in, N: n})
		if err == nil && (moved < 0 || moved > n) {
			return 0, fmt.Errorf("ReadFrom of a writer returned %d for %d bytes", moved, n)
		}
		return max(moved, 0), err
	}
	buffer := s.context.buffers.Get().(*[bufferSize]byte)
	defer s.context.buffers.Put(buffer)
	for moved < n {
		got, err := s.in.Read(buffer[:min(n-moved, bufferSize)])
		if got == 0 || err != nil {
			return moved, nil // the next ready tells what it is
		}
		if w == nil {
			moved += int64(got)
			continue
		}
		wrote, err := w.Write(buffer[:got])
		moved += int64(max(0, min(wrote, got)))
		if err == nil && wrote != got {
			err = io.ErrShortWrite
		}
		if err != nil {
			return moved, err
		}
		if s.terminal {
			return moved, nil // n was a guess
		}
	}
	return moved, nil
}

// ready waits until there is something to read and says how much. At the end
// it fails with io.EOF.
func (s *stream) ready() (n int64, err error) {
	var lookErr error
	err = s.conn.Read(func(fd uintptr) bool {
		n, lookErr = s.look(int(fd))
		return n > 0 || lookErr != nil
	})
	if err == nil {
		err = lookErr
	}
	return n, err
}

// readyBy is ready that waits no longer than until. What is there by then
// counts, also when it is seen later: this program may have been held up, as by
// a limit on processor time.
func (s *stream) readyBy(until time.Time) (n int64, err error) {
	_ = s.f.SetReadDeadline(until)
	n, err = s.ready()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if late, lookErr := s.lookNow(); late > 0 || lookErr != nil {
			return late, lookErr
		}
	}
	return n, err
}

// look says how much there is to read: 0 for nothing yet.
func (s *stream) look(fd int) (int64, error) {
	polls := s.polls[:]
	polls[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	for {
		_, err := unix.Poll(polls, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		break
	}
	switch {
	case polls[0].Revents == 0:
		return 0, nil
	case polls[0].Revents&unix.POLLIN == 0:
		return 0, io.EOF
	case s.terminal:
		return terminalChunk, nil
	}
	n, err := unix.IoctlGetInt(fd, bytesReady)
	switch {
	case err != nil:
		return 0, err
	case n == 0 && polls[0].Revents&unix.POLLHUP != 0:
		return 0, io.EOF
	}
	return int64(n), nil // 0 when somebody has taken it back meanwhile
}

// terminalChunk is how much is read at once from a terminal, which cannot tell
// how much it has.
const terminalChunk = 4096

// buffered is how much of what the leader wrote is still to be read.
func (s *stream) buffered() int64 {
	if s.terminal {
		return bufferSize
	}
	n, _ := s.lookNow() // what is wrong shows when more is waited for
	return n
}

// lookNow is look without waiting.
func (s *stream) lookNow() (n int64, err error) {
	if controlErr := s.conn.Control(func(fd uintptr) { n, err = s.look(int(fd)) }); controlErr != nil {
		return 0, controlErr
	}
	return n, err
}
