package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is when a test that waits is taken to hang.
const patience = 20 * time.Second

// A script plays a guest: it carries out one operation, with bytes of its own
// choice.
type script func(ctx context.Context, s *wire.Stream, call *proto.Call) []byte

// fakeGuest plays a guest at the other end of the connection that it returns.
func fakeGuest(t *testing.T, hello []byte, play script) (net.Conn, *wire.Mux) {
	t.Helper()
	host, guest := net.Pipe()
	m := wire.New(t.Context(), guest, wire.Config{Serve: func(ctx context.Context, s *wire.Stream, b []byte) []byte {
		call, err := proto.DecodeCall(b)
		if err != nil {
			t.Errorf("the host sent a call that cannot be decoded: %v", err)
			return nil
		}
		return play(ctx, s, call)
	}})
	m.Answer(hello)
	t.Cleanup(func() { m.Close(io.ErrClosedPipe) })
	return host, m
}

func goodHello() []byte { return (&Facts{PID: 1, Dir: "/work"}).Encode() }

// dial gets a client of a guest that plays a script.
func dial(t *testing.T, opts Options, play script) (*Client, *wire.Mux) {
	t.Helper()
	conn, m := fakeGuest(t, goodHello(), play)
	opts.Backend, opts.Handle = "docker", "box"
	c, err := Dial(t.Context(), conn, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, m
}

// never is an operation that the guest does not answer.
func never(ctx context.Context, _ *wire.Stream, _ *proto.Call) []byte {
	<-ctx.Done()
	return proto.EncodeFailed(ctx.Err())
}

// begunNever is one that it begins and does not end.
func begunNever(ctx context.Context, s *wire.Stream, call *proto.Call) []byte {
	_ = s.Begin(nil)
	return never(ctx, s, call)
}

// send sends bytes on a channel.
func send(s *wire.Stream, ch uint8, b []byte) {
	sender := s.Sender(ch)
	defer sender.Close()
	_, _ = sender.Write(b)
}

// operations are all that a client can be asked for, each to its end.
func operations() map[string]func(ctx context.Context, c *Client) error {
	return map[string]func(ctx context.Context, c *Client) error{
		"start": func(ctx context.Context, c *Client) error {
			p, err := c.Start(ctx, execution.Command{Shell: "x", Stdout: io.Discard, OutputLimit: 10})
			if err == nil {
				_, err = p.Wait(ctx)
			}
			return err
		},
		"open": func(ctx context.Context, c *Client) error {
			f, err := c.OpenFile(ctx, "f", execution.ReadOptions{Length: 10})
			if err == nil {
				defer f.Close()
				_, err = io.Copy(io.Discard, f)
			}
			return err
		},
		"write": func(ctx context.Context, c *Client) error {
			return c.WriteFile(ctx, "f", io.LimitReader(zeros{}, 1<<20), execution.WriteOptions{})
		},
		"stat":  func(ctx context.Context, c *Client) error { _, err := c.Stat(ctx, "f"); return err },
		"lstat": func(ctx context.Context, c *Client) error { _, err := c.Lstat(ctx, "f"); return err },
		"list": func(ctx context.Context, c *Client) error {
			for _, err := range c.List(ctx, "d") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"start task": func(ctx context.Context, c *Client) error {
			_, err := c.StartTask(ctx, execution.Command{Shell: "x"}, execution.TaskOptions{})
			return err
		},
		"find task": func(ctx context.Context, c *Client) error { _, err := c.Task(ctx, "task-1"); return err },
		"wait task": func(ctx context.Context, c *Client) error { _, err := (&task{c, "task-1"}).Wait(ctx); return err },
		"kill task": func(ctx context.Context, c *Client) error { return (&task{c, "task-1"}).Kill(ctx) },
		"output": func(ctx context.Context, c *Client) error {
			r, err := (&task{c, "task-1"}).OpenOutput(ctx, execution.Stdout, execution.OutputOptions{Offset: 5, Length: 10})
			if err == nil {
				defer r.Close()
				_, err = io.Copy(io.Discard, r)
			}
			return err
		},
		"tasks": func(ctx context.Context, c *Client) error {
			for _, err := range c.Tasks(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"events": func(ctx context.Context, c *Client) error {
			for event, err := range c.Events(ctx) {
				if event.Kind == execution.EventSandboxEnded {
					return fmt.Errorf("events: %w", event.Err) // which is no call's
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		"glob": func(ctx context.Context, c *Client) error {
			for _, err := range c.Glob(ctx, "d", "*") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
