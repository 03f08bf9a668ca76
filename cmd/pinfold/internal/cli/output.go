package cli

import (
	"errors"
	"io"
)

// errGivenUp is what a command's writer fails with once nobody waits for its
// reader any more.
var errGivenUp = errors.New("the output is not read by anybody")

// An output hands what is written to it to a goroutine of its own, which
// writes it to a standard stream. That may block for ever, in a pipe whose
// reader (a pager, say) has stopped reading, and a blocked write to a standard
// stream cannot be interrupted; but it can be given up.
//
// After giveUp, the goroutine stays behind in its write, until the reader goes
// or pinfold ends.
type output struct {
	buffer  []byte // a copy, since the writer's own is its again when it is given up
	todo    chan []byte
	done    chan error
	givenUp chan struct{}
	stop    chan struct{}
	ended   chan struct{}
}

func newOutput(w io.Writer) *output {
	o := &output{
		todo: make(chan []byte), done: make(chan error, 1),
		givenUp: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer close(o.ended)
		for {
			select {
			case p := <-o.todo:
				_, err := w.Write(p)
				o.done <- err
			case <-o.stop:
				return
			}
		}
	}()
	return o
}

// Write returns when all of p was written, or the output was given up. It may
// be called from one goroutine at a time.
func (o *output) Write(p []byte) (int, error) {
	select {
	case <-o.givenUp: // and the buffer may be in use
		return 0, errGivenUp
	default:
	}
	o.buffer = append(o.buffer[:0], p...)
	select {
	case o.todo <- o.buffer:
	case <-o.givenUp:
		return 0, errGivenUp
	case <-o.stop:
		return 0, errGivenUp
	}
	select {
	case err := <-o.done:
		if err != nil {
			return 0, err
		}
		return len(p), nil
	case <-o.givenUp:
		return 0, errGivenUp
	}
}

// giveUp makes a Write that is under way and all later ones fail. It may be
// called once.
func (o *output) giveUp() { close(o.givenUp) }

// close ends the goroutine and waits for it, unless the output was given up.
// Later writes fail.
func (o *output) close() {
	close(o.stop)
	select {
	case <-o.ended:
	case <-o.givenUp:
	}
}
