package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/pinfold-dev/pinfold/execution"
)

// A listener receives the signals that a run cares for.
type listener struct {
	c    chan os.Signal
	stop func()
}

func listen() *listener {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return &listener{c: c, stop: func() { signal.Stop(c) }}
}

func endingSignal(host os.Signal) (sig execution.Signal, ends bool) {
	switch host {
	case os.Interrupt:
		return execution.SIGINT, true
	case syscall.SIGTERM:
		return execution.SIGTERM, true
	}
	return 0, false
}

// isResize is always false: Windows does not tell of a new window size.
func isResize(os.Signal) bool { return false }

func ignorePipeSignal() {}
