//go:build linux && (amd64 || arm64)

package process

import (
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

// TestPlainConformance checks what other systems use on this one.
func TestPlainConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the other")
	}
	executiontest.Run(t, executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			c := newForKit(tb)
			c.launcher.close()
			c.launcher = plainLauncher{}
			return c
		},
	})
}

// TestMarkedConformance checks what kernels without subreapers need on one that
// has them.
func TestMarkedConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the other")
	}
	executiontest.Run(t, executiontest.Harness{
		New: func(tb testing.TB) execution.Context {
			tb.Helper()
			c := newForKit(tb)
			c.launcher.(*supervisors).tags = newTags(false)
			return c
		},
	})
}

// TestMarkFindsWhatGetsAway has processes fall to the first process of all, and
// one change its mark.
func TestMarkFindsWhatGetsAway(t *testing.T) {
	c := newTestContext(t, Options{})
	s, ok := c.launcher.(*supervisors)
	if !ok {
		t.Skip("there is a limit on resident memory")
	}
	s.tags = newTags(true)
	h := spawn(t, c)
	text := mark(t)
	line := "sh -c 'setsid env -i sh -c \"ulimit -m 1000; sleep " + text + "\" & setsid sleep " + text + " &'; exec sleep " + text
	p, err := h.Start(t.Context(), execution.Command{Shell: line})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has started", func() bool { return len(withMark(text)) >= 3 })
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive := withMark(text); len(alive) > 0 {
		t.Errorf("alive after Kill: %v", alive)
	}
}
