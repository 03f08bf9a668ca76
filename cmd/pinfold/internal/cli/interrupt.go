package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-dev/pinfold/execution"
)

// interruptible runs do with a context that the first signal which asks for
// the end cancels, and waits for it. What failed because of that fails as
// broken off, with the exit code that a shell gives the signal.
func (a *app) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := a.listen()
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case host := <-signals.c:
				if sig, ends := endingSignal(host); ends {
					cancel(interruption(sig))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err := do(ctx)
	signals.stop()
	cancel(nil)
	<-over
	var broken *codeError
	if err != nil && errors.As(context.Cause(ctx), &broken) {
		return broken
	}
	return err
}

// interruption is the error of work that a signal broke off.
func interruption(sig execution.Signal) error {
	return &codeError{exitSignal + int(sig), fmt.Errorf("broken off by %s", sig)}
}
