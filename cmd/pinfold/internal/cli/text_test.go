package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Names and reasons from a sandbox cannot act on a terminal.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain äöü 漢":      "plain äöü 漢",
		"a\x1b]0;x\x07b":   `a\x1b]0;x\ab`,
		"line\nbreak\r":    `line\nbreak\r`,
		"bad \xff byte":    `bad \xff byte`,
		"c1 \u009b2J":      `c1 \u009b2J`,
		"turn \u202e back": `turn \u202e back`,
		"tab\tand del\x7f": `tab\tand del\x7f`,
		"\ufffd itself":    "\ufffd itself",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// A message with line breaks in it cannot pass for another message.
func TestMessagesCannotBeForged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	(&console{w: &out}).say("sandbox lost: %s", "x\npinfold: all is well\x1b[2J\n")
	want := "pinfold: sandbox lost: x\n  pinfold: all is well\\x1b[2J\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestTablesKeepTheirShape(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := writeTable(&out, []string{"ID", "NAME"}, [][]string{{"1", "two\nlines\x1b[0m"}, {"long-one", ""}})
	if err != nil {
		t.Fatal(err)
	}
	want := "ID         NAME\n1          two\\nlines\\x1b[0m\nlong-one   -\n"
	if out.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", out.String(), want)
	}
}

// JSON has no byte in it that a terminal acts on, and still says the same.
func TestJSONIsHarmlessAndExact(t *testing.T) {
	t.Parallel()
	text := "a\x1b[2J\u009b\u202e\x7f\U000e0001\u00e4\u6f22\U0001f600<&>"
	var out bytes.Buffer
	if err := writeJSON(&out, map[string]string{"text": text}); err != nil {
		t.Fatal(err)
	}
	if bad := strings.IndexFunc(out.String(), func(r rune) bool {
		return r != '\n' && r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0xe0001
	}); bad >= 0 {
		t.Errorf("%q has an unprintable character at %d", out.String(), bad)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["text"] != text {
		t.Errorf("%s reads back as %q, %v", out.String(), back["text"], err)
	}
}
