//go:build unix

package process

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// commandLimit is how long ProcessInfo.Command may be, in bytes.
const commandLimit = 256

// commandLine makes a process's NUL-separated arguments fit to be shown: joined
// with spaces, with everything escaped that a terminal would act on, and cut to
// commandLimit bytes.
func commandLine(raw []byte) string {
	raw = bytes.TrimRight(raw, "\x00")
	var b strings.Builder
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		shown := string(raw[:size])
		switch {
		case r == 0:
			shown = " "
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, raw[0])
		case !unicode.IsPrint(r):
			shown = strings.Trim(fmt.Sprintf("%+q", r), "'")
		}
		const more = "…"
		if b.Len()+len(shown) > commandLimit-len(more) {
			b.WriteString(more)
			break
		}
		b.WriteString(shown)
		raw = raw[size:]
	}
	return b.String()
}
