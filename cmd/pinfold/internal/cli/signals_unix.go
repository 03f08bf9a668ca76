//go:build unix

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

// listen starts to receive. A signal that was ignored when pinfold began
// (nohup, a background job of a script) stays ignored.
func listen() *listener {
	c := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return &listener{c: c, stop: func() { signal.Stop(c) }}
}

// endingSignal translates a signal of this host. ends reports whether it asks
// for the command's end; 0 is one that is not passed on.
func endingSignal(host os.Signal) (sig execution.Signal, ends bool) {
	switch host {
	case syscall.SIGINT:
		return execution.SIGINT, true
	case syscall.SIGTERM:
		return execution.SIGTERM, true
	case syscall.SIGHUP:
		return execution.SIGHUP, true
	case syscall.SIGQUIT:
		return execution.SIGQUIT, true
	case syscall.SIGUSR1:
		return execution.SIGUSR1, false
	case syscall.SIGUSR2:
		return execution.SIGUSR2, false
	}
	return 0, false
}

func isResize(host os.Signal) bool { return host == syscall.SIGWINCH }

// ignorePipeSignal makes writing to a closed pipe an error like any other, so
// that the sandbox is removed before pinfold ends. Unlike an ignored signal, a
// received one is not inherited by programs that pinfold starts.
func ignorePipeSignal() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
