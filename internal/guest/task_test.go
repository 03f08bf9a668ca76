package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// chunk is output as it travels.
func chunk(offset int64, text string) []byte {
	return append(proto.AppendChunk(nil, offset, len(text)), text...)
}

// An output that is closed, or whose context has ended, in the middle of what
// has come fails so, and costs nothing else.
func TestOutputThatIsLeftInTheMiddle(t *testing.T) {
	for name, row := range map[string]struct {
		leave func(r execution.OutputReader, cancel func())
		want  error
	}{
		"closed":    {func(r execution.OutputReader, _ func()) { _ = r.Close() }, execution.ErrClosed},
		"cancelled": {func(_ execution.OutputReader, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			c, m := dial(t, Options{}, begin(0, chunk(0, "output"), proto.EncodeDone()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := (&task{c, "task-1"}).OpenOutput(ctx, execution.Stdout, execution.OutputOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if n, err := r.Read(make([]byte, 3)); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			for start := time.Now(); m.Streams() > 0 || c.mux.Streams() > 0; time.Sleep(time.Millisecond) {
				if time.Since(start) > patience {
					t.Fatal("the guest does not end")
				}
			}
			row.leave(r, cancel)
			for start := time.Now(); r.(*outputReader).why.Load() == nil; time.Sleep(time.Millisecond) {
				if time.Since(start) > patience {
					t.Fatal("it goes on")
				}
			}
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, row.want) {
				t.Errorf("Read: %v", err)
			}
			if err := c.Err(); err != nil {
				t.Errorf("the sandbox: %v", err)
			}
		})
	}
}

// A guest that lets nobody come back is given up when the lease has run out.
func TestReconnectingEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hello := (&Facts{PID: 1, Dir: "/work", Lease: time.Minute}).Encode()
		conn, _ := fakeGuest(t, hello, never)
		var opts Options
		opts.Config.Key = []byte("key")
		var silent []net.Conn
		opts.Redial = func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			silent = append(silent, theirs)
			return ours, nil
		}
		opts.Explain = func(context.Context, error) error { return nil }
		c, err := Dial(t.Context(), conn, opts)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_ = conn.Close()
		<-c.Done()
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*knockTime {
			t.Errorf("it took %v", took)
		}
		_ = c.Close()
		for _, conn := range silent {
			_ = conn.Close()
		}
	})
}

// A list of tasks has an end.
func TestEndlessTasksLoseTheSandbox(t *testing.T) {
	c, _ := dial(t, Options{}, func(_ context.Context, s *wire.Stream, _ *proto.Call) []byte {
		_ = s.Begin(nil)
		sender := s.Sender(0)
		defer sender.Close()
		b := proto.AppendTask(nil, execution.TaskInfo{ID: "task-1"})
		for {
			if _, err := sender.Write(b); err != nil {
				return proto.EncodeFailed(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range c.Tasks(ctx) {
		if err != nil {
			if !errors.Is(err, execution.ErrLost) {
				t.Error(err)
			}
			break
		}
	}
}
