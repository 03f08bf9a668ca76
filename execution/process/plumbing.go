//go:build unix

package process

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// plumbing is what connects a command's streams to the caller's.
type plumbing struct {
	theirs         [3]int  // descriptors for the command
	opened         []int   // those of them that are to be closed
	stdout, stderr *stream // stderr is nil on a terminal
	stdin          *feeder // nil where there is nothing to read
	master         *os.File
	copying        sync.WaitGroup
}

// newPlumbing makes the pipes, or the terminal, for a command.
func newPlumbing(c *Context, cmd execution.Command) (*plumbing, error) {
	b := &plumbing{}
	limit := &budget{limited: cmd.OutputLimit > 0}
	limit.left.Store(cmd.OutputLimit)
	var err error
	if cmd.TTY != nil {
		err = b.openTerminal(c, cmd, limit)
	} else {
		err = b.openPipes(c, cmd, limit)
	}
	if err != nil {
		b.closeTheirs()
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *plumbing) openPipes(c *Context, cmd execution.Command, limit *budget) error {
	b.theirs[0] = c.null
	if cmd.Stdin != nil {
		read, write, err := openPipe()
		if err != nil {
			return err
		}
		b.theirs[0], b.opened = read, append(b.opened, read)
		ours, err := ourEnd(write, "stdin")
		if err != nil {
			return err
		}
		b.stdin = newFeeder(ours, cmd.Stdin, false)
	}
	for i, name := range []string{"stdout", "stderr"} {
		read, write, err := openPipe()
		if err != nil {
			return err
		}
		b.theirs[i+1], b.opened = write, append(b.opened, write)
		ours, err := ourEnd(read, name)
		if err != nil {
			return err
		}
		if i == 0 {
			b.stdout, err = newStream(c, ours, cmd.Stdout, limit)
		} else {
			b.stderr, err = newStream(c, ours, cmd.Stderr, limit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *plumbing) openTerminal(c *Context, cmd execution.Command, limit *budget) error {
	master, slave, err := openTerminal(*cmd.TTY)
	if err != nil {
		return err
	}
	b.theirs, b.opened = [3]int{slave, slave, slave}, []int{slave}
	if b.master, err = ourEnd(master, "terminal"); err != nil {
		return err
	}
	if b.stdout, err = newStream(c, b.master, cmd.Stdout, limit); err != nil {
		return err
	}
	b.stdout.terminal = true
	stdin := cmd.Stdin
	if stdin == nil {
		stdin = eof{}
	}
	b.stdin = newFeeder(b.master, stdin, true)
	return nil
}

// ourEnd makes a file of our end of a pipe or terminal. It does not block, so
// that nobody holds a thread while he waits for a command.
func ourEnd(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// begin starts copying for a command that has been started.
func (b *plumbing) begin(p *proc) {
	b.copying.Go(func() { b.stdout.copy(p) })
	if b.stderr != nil {
		b.copying.Go(func() { b.stderr.copy(p) })
	}
	if b.stdin != nil {
		// It may be left behind in a Read that does not return, so that
		// nobody waits for it.
		go b.stdin.copy(p)
	}
}

// finish ends stdin and waits until what is to be handed on of the output has
// been. It reports whether output was cut off because somebody still holds it.
func (b *plumbing) finish() (cut bool) {
	if b.stdin != nil {
		b.stdin.stop()
	}
	b.stdout.finish()
	if b.stderr != nil {
		b.stderr.finish()
		<-b.stderr.handed
		cut = b.stderr.cut
	}
	<-b.stdout.handed
	return cut || b.stdout.cut
}

// closeTheirs closes what the command has by now.
func (b *plumbing) closeTheirs() {
	for _, fd := range b.opened {
		_ = unix.Close(fd)
	}
	b.opened = nil
}

// close closes our ends and waits for the copying of output to end.
func (b *plumbing) close() {
	if b.stdin != nil {
		_ = b.stdin.w.Close()
	}
	if b.stdout != nil {
		_ = b.stdout.f.Close()
	}
	if b.stderr != nil {
		_ = b.stderr.f.Close()
	}
	b.copying.Wait()
}

// A budget is what two streams may carry together.
type budget struct {
	limited bool
	left    atomic.Int64
}

// take gives up to n bytes out of the budget.
func (b *budget) take(n int64) int64 {
	if !b.limited {
		return n
	}
	for {
		left := b.left.Load()
		granted := min(n, left)
		if b.left.CompareAndSwap(left, left-granted) {
			return granted
		}
	}
}

// giveBack returns what was taken and not used.
func (b *budget) giveBack(n int64) {
	if b.limited {
		b.left.Add(n)
	}
}

// eof is an empty input.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
