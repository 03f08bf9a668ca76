package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/term"

	"github.com/pinfold-dev/pinfold/execution"
)

func terminalFD(fd int) bool { return term.IsTerminal(fd) }

// A terminal is the one that pinfold was started on, as long as a command with
// -t has it.
type terminal struct {
	in    *os.File // where its keys come from
	sized *os.File // whose window size counts
	saved *term.State
	guard *guard // puts it back in order if pinfold cannot; may be nil
}

func newTerminal(in *os.File, out io.Writer) *terminal {
	t := &terminal{in: in, sized: in}
	if file, ok := out.(*os.File); ok && isTerminal(file) {
		t.sized = file
	}
	return t
}

// size is the window's size, or the classic one where it has none.
func (t *terminal) size() execution.TerminalSize {
	cols, rows, err := term.GetSize(int(t.sized.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return execution.TerminalSize{Rows: 24, Cols: 80}
	}
	return execution.TerminalSize{
		Rows: uint16(min(rows, math.MaxUint16)),
		Cols: uint16(min(cols, math.MaxUint16)),
	}
}

// makeRaw hands every key to the command, Ctrl-C among them.
func (t *terminal) makeRaw(ctx context.Context) error {
	t.guard = startGuard(ctx, t.in)
	saved, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		t.guard.dismiss()
		return fmt.Errorf("setting the terminal to raw mode: %w", err)
	}
	t.saved = saved
	t.guard.arm(t.in)
	return nil
}

// restore undoes makeRaw, once.
func (t *terminal) restore() {
	if t.saved == nil {
		return
	}
	// It fails when the terminal has gone, and then there is nothing to do.
	_ = term.Restore(int(t.in.Fd()), t.saved)
	t.saved = nil
	t.guard.dismiss()
}
