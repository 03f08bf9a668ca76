package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// printable makes text from elsewhere fit for one line of a terminal: what is
// not printable (control characters, line breaks, direction marks, bytes that
// are not UTF-8) is shown as Go would escape it.
func printable(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return out.String()
}

// printableLines is printable for text that may have several lines. All but
// the first are indented, so that none can pass for a message of ours.
func printableLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n  ")
}

// A console is where pinfold itself speaks: standard error. It may be used
// from many goroutines.
type console struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool // w is one
	quiet    bool // errors only
}

// say prints a message, whatever is in it, and whether quiet or not.
func (c *console) say(format string, args ...any) {
	c.print("pinfold: " + printableLines(fmt.Sprintf(format, args...)))
}

// note is say for what may be missed: it is silent with --quiet.
func (c *console) note(format string, args ...any) {
	if !c.quiet {
		c.say(format, args...)
	}
}

func (c *console) print(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A standard error that is closed or full leaves nobody to tell.
	_, _ = io.WriteString(c.w, line+"\n")
}

// writeTable prints rows in columns below a heading. Every cell is made
// printable.
func writeTable(w io.Writer, heading []string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// count is "1 process" or "3 processes".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
