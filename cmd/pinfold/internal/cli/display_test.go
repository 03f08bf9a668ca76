package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// shown passes text through a displayWriter in chunks of size bytes.
func shown(t *testing.T, text string, size int) string {
	t.Helper()
	var out bytes.Buffer
	display := &displayWriter{w: &out}
	for start := 0; start < len(text); start += size {
		chunk := text[start:min(start+size, len(text))]
		if n, err := display.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", chunk, n, err)
		}
	}
	if err := display.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What a terminal would act on is taken out, however the writes are cut; text
// and colours stay.
func TestDisplayRemovesControlSequences(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ in, out string }{
		"text":                      {"plain täxt 漢字\n\ttab\rcr\b", "plain täxt 漢字\n\ttab\rcr\b"},
		"colours":                   {"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
		"true colours with colons":  {"\x1b[38:2::1:2:3mx\x1b[m", "\x1b[38:2::1:2:3mx\x1b[m"},
		"erase in line":             {"50%\r\x1b[K60%", "50%\r\x1b[K60%"},
		"a colour left on":          {"\x1b[31mred", "\x1b[31mred\x1b[0m"},
		"title":                     {"a\x1b]0;owned\x07b", "ab"},
		"title ended by ST":         {"a\x1b]2;owned\x1b\\b", "ab"},
		"clipboard":                 {"a\x1b]52;c;ZXZpbA==\x07b", "ab"},
		"title by C1 in UTF-8":      {"a\u009d0;owned\x07b", "ab"},
		"CSI by C1 in UTF-8":        {"a\u009b2Jb", "ab"},
		"raw C1":                    {"a\x9b2Jb", "a\ufffd2Jb"},
		"clear and move":            {"a\x1b[2J\x1b[H\x1b[10;10Hb", "ab"},
		"alternate screen":          {"a\x1b[?1049hb", "ab"},
		"mouse reporting":           {"a\x1b[?1000h\x1b[?1006hb", "ab"},
		"answers to questions":      {"a\x1b[c\x1b[6n\x1b[>q\x1b[21tb", "ab"},
		"key modes":                 {"a\x1b[>4;2m\x1b[?4mb", "ab"},
		"DCS":                       {"a\x1bP$q\"p\x1b\\b", "ab"},
		"APC, PM and SOS":           {"a\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\b", "ab"},
		"character sets":            {"a\x1b(0\x0e\x0fb", "ab"},
		"reset":                     {"a\x1bcb", "ab"},
		"bell and other C0":         {"a\x07\x00\x05\x7f\x0b\x0cb", "ab"},
		"escape within a CSI":       {"a\x1b[3\x1b[31mb", "a\x1b[31mb\x1b[0m"},
		"a line break ends a title": {"a\x1b]0;x\nb", "a\nb"},
		"unfinished":                {"a\x1b[31", "a"},
		"unfinished title":          {"a\x1b]0;x", "a"},
		"half a character":          {"a\xe6\xbc", "a\ufffd"},
		"half a character, then":    {"a\xe6\xbcb\xffc", "a\ufffdb\ufffdc"},
		"bad bytes before a C1":     {"\xe6\xc2\x9b2Jb", "\ufffdb"},
		"a colour that never ends":  {"\x1b[" + strings.Repeat("1", 65) + "m", "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, 1 << 10} {
				if got := shown(t, row.in, size); got != row.out {
					t.Errorf("in chunks of %d: %q shows as %q, want %q", size, row.in, got, row.out)
				}
			}
		})
	}
}

// A title that never ends hides the rest of the output for a while only.
func TestDisplayComesBackFromAnEndlessString(t *testing.T) {
	t.Parallel()
	got := shown(t, "\x1b]0;"+strings.Repeat("x", 2*maxString)+"end", 100)
	if !strings.HasSuffix(got, "xend") {
		t.Errorf("the output after an endless title is lost: %q", got)
	}
}

// A terminal that fails is the command's writer that fails.
func TestDisplayPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("terminal gone")
	display := &displayWriter{w: failingWriter{broken}}
	if _, err := display.Write([]byte("x")); !errors.Is(err, broken) {
		t.Errorf("Write = %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// Nothing that the filter lets through makes a terminal do more than show
// text, colour it, and go back on its line; and how writes are cut does not
// matter.
func FuzzDisplay(f *testing.F) {
	f.Add([]byte("\x1b]52;c;x\x07\x1b[31m\x9b\xc2\x9b2J"), 3)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		whole := shown(t, string(in), len(in)+1)
		if cut := shown(t, string(in), 1+(size&15)); cut != whole {
			t.Errorf("%q in one piece shows as %q, in pieces as %q", in, whole, cut)
		}
		for rest := whole; rest != ""; {
			at := strings.IndexFunc(rest, func(r rune) bool {
				return r < 0x20 && !strings.ContainsRune("\n\t\r\b", r) || r >= 0x7f && r < 0xa0
			})
			if at < 0 {
				break
			}
			rest = rest[at:]
			end := strings.IndexAny(rest, "mK")
			if !strings.HasPrefix(rest, "\x1b[") || end < 0 || strings.Trim(rest[2:end], "0123456789;:") != "" {
				t.Fatalf("%q shows as %q, which has %q in it", in, whole, rest)
			}
			rest = rest[end:]
		}
	})
}
