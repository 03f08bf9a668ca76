package cli

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A copy that is broken off ends, also when the other end of a tar stream does
// nothing any more.
func TestCopyOfATarStreamIsBrokenOff(t *testing.T) {
	t.Parallel()
	idle, never, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = never.Close(), idle.Close() })
	stalled, stuck := io.Pipe()
	t.Cleanup(func() { _ = stalled.Close() })
	for _, args := range [][]string{{"cp", "-", "box:/"}, {"cp", "box:file", "-"}} {
		app, stays := newStayingApp(t, say("", 0))
		if err := stays.handle.WriteFile(t.Context(), "file", strings.NewReader("content"), execution.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		app.stdin, app.stdout = idle, stuck
		ended := make(chan int, 1)
		go func() { ended <- app.pinfold(t.Context(), args...) }()
		app.signals <- os.Interrupt
		select {
		case code := <-ended:
			if code != 130 {
				t.Errorf("%q: exit code %d, %q", args, code, &app.errors)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q goes on", args)
		}
	}
}
