package server_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

// A leaver is a handle whose commands end at once and leave something behind,
// which lives until gone says otherwise.
type leaver struct {
	empty
	gone  atomic.Bool
	kills atomic.Int32
}

func (l *leaver) Start(context.Context, execution.Command) (execution.Process, error) {
	return left{l}, nil
}

type left struct{ *leaver }

func (l left) Wait(context.Context) (execution.ExitStatus, error) {
	return execution.ExitStatus{
		Ending: execution.EndingExited, Leftovers: []execution.ProcessInfo{{PID: 7, Command: "sleep"}},
	}, nil
}

func (l left) Signal(context.Context, execution.Signal) error { return execution.ErrFinished }
func (l left) Kill(context.Context) error                     { l.kills.Add(1); return nil }
func (l left) Gone() bool                                     { return l.gone.Load() }

// A command whose leftovers live can be killed for their sake; once they have
// gone the guest keeps nothing of it, so that it does not grow.
func TestCommandsAreForgottenWithTheirLeftovers(t *testing.T) {
	host, conn := net.Pipe()
	h := &leaver{}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(t.Context(), conn, server.Options{
			Spawn: func(context.Context, *proto.Config) (execution.Handle, error) { return h, nil },
			Facts: func() proto.Facts { return proto.Facts{PID: 1} },
		})
	}()
	c, err := guest.Dial(t.Context(), host, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run := func() execution.Process {
		t.Helper()
		p, err := c.Start(t.Context(), execution.Command{Args: []string{"server"}})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := p.Wait(t.Context()); err != nil || len(status.Leftovers) != 1 {
			t.Fatal(status, err)
		}
		return p
	}
	first := run()
	for _, row := range []struct {
		gone bool
		want int32
	}{{false, 1}, {true, 1}} {
		h.gone.Store(row.gone)
		run()
		if err := first.Kill(t.Context()); err != nil || h.kills.Load() != row.want {
			t.Errorf("leftovers gone: %v; killed %d times, want %d (%v)", row.gone, h.kills.Load(), row.want, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the guest ended without a reason")
	}
}
