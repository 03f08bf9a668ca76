package cli

import (
	"io"
	"os"
)

// outlets are where output of untrusted commands goes. Each is closed in the
// end, and can be given up where its reader does not read.
type outlets struct {
	shown   []*displayWriter
	outputs []*output
}

// outputTo makes w one that can be given up.
func (o *outlets) outputTo(w io.Writer) io.Writer {
	out := newOutput(w)
	o.outputs = append(o.outputs, out)
	return out
}

// shownOn puts a filter before w when it is a terminal.
func (o *outlets) shownOn(w io.Writer) io.Writer {
	out := o.outputTo(w)
	if file, ok := w.(*os.File); !ok || !isTerminal(file) {
		return out
	}
	display := &displayWriter{w: out}
	o.shown = append(o.shown, display)
	return display
}

// close ends what the outputs left open, such as a colour, and lets go
// of them.
func (o *outlets) close() {
	for _, display := range o.shown {
		_ = display.Close() // The ending is known, and a terminal that fails now shows nothing anyway.
	}
	for _, out := range o.outputs {
		out.close()
	}
}

// giveUp makes the writes that are under way and all later ones fail. It may
// be called once.
func (o *outlets) giveUp() {
	for _, out := range o.outputs {
		out.giveUp()
	}
}
