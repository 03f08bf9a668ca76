package cli

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// A displayWriter shows the output of untrusted commands on a terminal. Text,
// tabs, line breaks, carriage returns and backspaces pass, and so do colours
// (CSI … m) and erasing within a line (CSI K), which progress bars need. All
// other control sequences are taken out: those that set the title or the
// clipboard, move the cursor elsewhere, switch modes, or make the terminal
// answer. Bytes that are not UTF-8 become U+FFFD, since some terminals read
// them as control characters.
//
// A sequence that is split over several writes is recognised: nothing of it
// is shown before it is complete.
type displayWriter struct {
	w io.Writer

	state   displayState
	pending []byte // of a sequence or a rune that is not complete
	inText  int    // bytes of a string sequence passed over so far
	styled  bool   // a colour was passed on and not reset
	out     []byte
}

type displayState uint8

const (
	plainText displayState = iota
	afterEscape
	inControl        // CSI: parameters, then a final byte
	inStringSequence // OSC, DCS, SOS, PM, APC: text, then BEL or ST
	inIntermediate   // ESC with intermediate bytes: one final byte to come
)

const (
	escape = 0x1b
	bell   = 0x07

	// maxControl and maxString bound sequences that do not end: what follows
	// is text again. Since the start was never shown, it is harmless.
	maxControl = 64
	maxString  = 4096
)

// Write shows what of p is harmless. It counts all of p as written unless the
// terminal fails.
func (d *displayWriter) Write(p []byte) (int, error) {
	d.out = d.out[:0]
	for _, b := range p {
		d.step(b)
	}
	if len(d.out) > 0 {
		if _, err := d.w.Write(d.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close ends what the output left open: half a character, or a colour.
func (d *displayWriter) Close() error {
	d.out = d.out[:0]
	if d.state == plainText && len(d.pending) > 0 {
		d.replace()
	}
	d.pending, d.state = nil, plainText
	if d.styled {
		d.out = append(d.out, "\x1b[0m"...)
		d.styled = false
	}
	if len(d.out) == 0 {
		return nil
	}
	_, err := d.w.Write(d.out)
	return err
}

func (d *displayWriter) step(b byte) {
	switch d.state {
	case plainText:
		d.text(b)
	case afterEscape:
		d.escaped(b)
	case inControl:
		d.control(b)
	case inStringSequence:
		d.stringSequence(b)
	case inIntermediate:
		if b < 0x20 || b > 0x2f {
			d.abandon(b, b >= 0x30 && b <= 0x7e)
		}
	}
}

func (d *displayWriter) text(b byte) {
	if b < utf8.RuneSelf {
		if len(d.pending) > 0 {
			d.replace()
		}
		switch {
		case b == escape:
			d.state = afterEscape
		case b >= 0x20 && b != 0x7f, b == '\n', b == '\t', b == '\r', b == '\b':
			d.out = append(d.out, b)
		}
		return
	}
	d.pending = append(d.pending, b)
	if !utf8.FullRune(d.pending) {
		return
	}
	r, size := utf8.DecodeRune(d.pending)
	switch {
	case r == utf8.RuneError && size == 1:
		// The last byte may start another character.
		bad := d.pending
		d.pending = nil
		d.out = utf8.AppendRune(d.out, utf8.RuneError)
		for _, again := range bad[1:] {
			d.step(again)
		}
		return
	case r >= 0x80 && r < 0xa0:
		d.escaped(d.pending[1] - 0x40) // C1 stands for an escape and a letter
	default:
		d.out = append(d.out, d.pending...)
	}
	d.pending = d.pending[:0]
}

func (d *displayWriter) replace() {
	d.out = utf8.AppendRune(d.out, utf8.RuneError)
	d.pending = d.pending[:0]
}

func (d *displayWriter) escaped(b byte) {
	d.state = plainText
	switch {
	case b == '[':
		d.state = inControl
		d.pending = d.pending[:0]
	case bytes.IndexByte([]byte("]PX^_"), b) >= 0:
		d.state, d.inText = inStringSequence, 0
	case b >= 0x20 && b <= 0x2f:
		d.state = inIntermediate
	default:
		d.abandon(b, b >= 0x30 && b <= 0x7e)
	}
}

// abandon ends a sequence at b, which is its last byte or, when not, is taken
// as what it is outside of one.
func (d *displayWriter) abandon(b byte, isLast bool) {
	d.state = plainText
	d.pending = d.pending[:0]
	if !isLast {
		d.text(b)
	}
}

func (d *displayWriter) control(b byte) {
	switch {
	case b >= 0x40 && b <= 0x7e:
		if d.harmless(b) {
			d.out = append(d.out, escape, '[')
			d.out = append(append(d.out, d.pending...), b)
			if b == 'm' {
				last := d.pending[bytes.LastIndexByte(d.pending, ';')+1:]
				d.styled = len(bytes.Trim(last, "0")) > 0
			}
		}
		d.abandon(b, true)
	case b >= 0x20 && b <= 0x3f && len(d.pending) < maxControl:
		d.pending = append(d.pending, b)
	default:
		d.abandon(b, false)
	}
}

// harmless reports whether the control sequence in pending that ends with
// final may be shown.
func (d *displayWriter) harmless(final byte) bool {
	if final != 'm' && final != 'K' {
		return false
	}
	for _, b := range d.pending {
		if (b < '0' || b > '9') && b != ';' && b != ':' {
			return false // a private or an intermediate byte makes it another sequence
		}
	}
	return true
}

func (d *displayWriter) stringSequence(b byte) {
	d.inText++
	switch {
	case b == bell:
		d.abandon(b, true)
	case b == escape, b == '\n', d.inText > maxString:
		// ST is ESC \, whose second byte afterEscape takes out. A line break
		// is not part of any such string.
		d.abandon(b, false)
	}
}
