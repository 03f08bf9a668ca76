package executiontest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// A guard stands between a case and its test, so that a case can run on a
// goroutine of its own and be abandoned when it hangs: what an abandoned case
// still says goes nowhere.
type guard struct {
	testing.TB

	mu      sync.Mutex
	over    bool
	skipped bool
	why     string
}

// end closes the guard and tells whether the case wanted to be skipped.
func (g *guard) end() (why string, skipped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	return g.why, g.skipped
}

func (g *guard) say(fail bool, text string) {
	g.TB.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over:
	case fail:
		g.TB.Error(text)
	default:
		g.TB.Log(text)
	}
}

func (g *guard) Error(args ...any) {
	g.TB.Helper()
	g.say(true, fmt.Sprint(args...))
}

func (g *guard) Errorf(format string, args ...any) {
	g.TB.Helper()
	g.say(true, fmt.Sprintf(format, args...))
}

func (g *guard) Fatal(args ...any) {
	g.TB.Helper()
	g.say(true, fmt.Sprint(args...))
	runtime.Goexit()
}

func (g *guard) Fatalf(format string, args ...any) {
	g.TB.Helper()
	g.say(true, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (g *guard) Log(args ...any) {
	g.TB.Helper()
	g.say(false, fmt.Sprint(args...))
}

func (g *guard) Logf(format string, args ...any) {
	g.TB.Helper()
	g.say(false, fmt.Sprintf(format, args...))
}

func (g *guard) Fail() { g.say(true, "failed") }

func (g *guard) FailNow() {
	g.say(true, "failed")
	runtime.Goexit()
}

func (g *guard) Skip(args ...any) { g.skip(fmt.Sprint(args...)) }

func (g *guard) Skipf(format string, args ...any) { g.skip(fmt.Sprintf(format, args...)) }

func (g *guard) SkipNow() { g.skip("") }

func (g *guard) skip(why string) {
	g.mu.Lock()
	g.skipped, g.why = true, why
	g.mu.Unlock()
	runtime.Goexit()
}
