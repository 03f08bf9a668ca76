package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
)

// An attachment says which sandbox to attach to, and how.
type attachment struct {
	id       string
	takeOver bool
}

func (to *attachment) register(flags *pflag.FlagSet) {
	flags.BoolVar(&to.takeOver, "take-over", false, "end what another host runs in the sandbox in the foreground, and use it")
}

// enter attaches; where the sandbox is held, the error says what to do.
func (to *attachment) enter(ctx context.Context, backend execution.Context) (execution.Handle, error) {
	h, err := to.attach(ctx, backend)
	if err != nil && !to.takeOver && errors.Is(err, execution.ErrConflict) {
		return nil, fmt.Errorf("%w\n--take-over does that: what runs there in the foreground ends, tasks go on", err)
	}
	return h, err
}

// attach attaches: beside other terminals, or in place of who holds the
// sandbox.
func (to *attachment) attach(ctx context.Context, backend execution.Context) (execution.Handle, error) {
	attacher, ok := backend.(execution.Attacher)
	if !ok {
		return nil, fmt.Errorf("%w: the %s backend has no sandboxes that one can come back to", execution.ErrUnsupported, backend.Type())
	}
	opts := execution.AttachOptions{Mode: execution.AttachShared}
	if to.takeOver {
		opts.Mode = execution.AttachTakeOver
	}
	return attacher.Attach(ctx, to.id, opts)
}

// leave lets go of a sandbox. One that was removed meanwhile is left already.
func leave(ctx context.Context, h execution.Handle) error {
	err := execution.Detach(ctx, h)
	if errors.Is(err, execution.ErrLost) || errors.Is(err, execution.ErrClosed) {
		return nil
	}
	return err
}

// leaveDeadline bounds letting go, whatever the engine does.
const leaveDeadline = 10 * time.Second

// withSandbox runs do with a sandbox that is there, until a signal, and leaves
// the sandbox as it is.
func (a *app) withSandbox(ctx context.Context, to attachment, do func(context.Context, execution.Handle) error) error {
	return a.interruptible(ctx, func(ctx context.Context) error {
		backend, err := a.backends.open(ctx, backendDocker, openOptions{})
		if err != nil {
			return err
		}
		h, err := to.enter(ctx, backend)
		if err == nil {
			err = do(ctx, h)
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveDeadline)
			defer cancel()
			if leaveErr := leave(bounded, h); err == nil {
				err = leaveErr
			}
		}
		if closeErr := backend.Close(); err == nil {
			err = closeErr
		}
		return err
	})
}

// What commands on a sandbox want first.
const wantSandbox = "want an ID or name as 'pinfold ps' shows it"

// sandboxArgs checks that there is a sandbox and at most that many arguments
// after it.
func sandboxArgs(more int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return &usageError{cmd.CommandPath(), errors.New("no sandbox; " + wantSandbox)}
		case more >= 0 && len(args) > 1+more:
			return &usageError{cmd.CommandPath(), errors.New(want)}
		}
		return nil
	}
}

// A followUp tells what was started for later, for scripts.
type followUp struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Task    string     `json:"task,omitempty"`    // none when no command was given
	Expires *time.Time `json:"expires,omitempty"` // of what was made now
}
