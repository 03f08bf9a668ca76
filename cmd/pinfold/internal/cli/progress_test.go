package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/images"
)

// On a terminal a pull is told in a few lines; a build in its own.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&console{w: &out, terminal: true})
		for n := range 1000 {
			p.event(images.Event{Step: "pull debian:12", ID: "layer1", Text: "Downloading", Current: int64(n) << 20, Total: 1000 << 20})
			p.event(images.Event{Step: "pull debian:12", ID: "layer2", Text: "Downloading", Current: 0, Total: 24 << 20})
			time.Sleep(5 * time.Millisecond)
		}
		p.event(images.Event{Step: "build minimal", Text: "Step 1/2 : \x1b]0;x\x07"})
		want := "pinfold: pull debian:12 …\n  400 MiB of 1 GiB\n  800 MiB of 1 GiB\n" +
			"pinfold: build minimal …\n  Step 1/2 : \\x1b]0;x\\a\n"
		if out.String() != want {
			t.Errorf("shown is\n%s\nwant\n%s", &out, want)
		}
	})
}

// In a pipe, and with --quiet, there is none.
func TestProgressElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []*console{{terminal: false}, {terminal: true, quiet: true}} {
		var out bytes.Buffer
		c.w = &out
		newProgress(c).event(images.Event{Step: "pull debian:12", ID: "layer", Total: 1})
		if out.Len() > 0 {
			t.Errorf("shown is %q", &out)
		}
	}
}
