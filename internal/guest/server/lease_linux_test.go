package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/process"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// patience is when a test that waits is taken to hang.
const patience = 20 * time.Second

// An empty handle can do nothing but end.
type empty struct {
	execution.Handle
	destroyed int
}

func (e *empty) Dir() string                   { return "/" }
func (e *empty) Destroy(context.Context) error { e.destroyed++; return nil }

func emptyOptions(h *empty) server.Options {
	return server.Options{
		Spawn: func(context.Context, *proto.Config) (execution.Handle, error) { return h, nil },
		Facts: func() proto.Facts { return proto.Facts{PID: 1} },
	}
}

func TestGuestEndsWhenItsHostIsSilentForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		h := &empty{}
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context(), conn, emptyOptions(h)) }()
		m := wire.New(t.Context(), host, wire.Config{})
		defer m.Close(io.ErrClosedPipe)
		cfg := guest.Config{Lease: time.Minute}
		if _, err := m.Greet(t.Context(), cfg.Encode()); err != nil {
			t.Fatal(err)
		}
		for range 100 { // not silent: a sign of life each half minute
			time.Sleep(30 * time.Second)
			m.Ping()
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatalf("ended with %v although the host lives", <-ended)
			}
		}
		start := time.Now()
		err := <-ended
		if silent := time.Since(start); !errors.Is(err, server.ErrExpired) || silent < time.Minute || silent > 2*time.Minute {
			t.Errorf("ended after %v with %v", silent, err)
		}
		if h.destroyed != 1 {
			t.Errorf("the handle was destroyed %d times", h.destroyed)
		}
	})
}

func TestGuestThatIsNeverGreetedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		defer host.Close()
		if err := server.Run(t.Context(), conn, emptyOptions(&empty{})); !errors.Is(err, server.ErrExpired) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestGuestEndsWithItsHost(t *testing.T) {
	host, conn := net.Pipe()
	h := &empty{}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.WithoutCancel(t.Context()), conn, emptyOptions(h)) }()
	c, err := guest.Dial(t.Context(), host, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) || h.destroyed != 1 {
			t.Errorf("ended with %v, handle destroyed %d times", err, h.destroyed)
		}
	case <-time.After(patience):
		t.Fatal("the guest outlives its host")
	}
}

func TestGuestRestsOnceAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		rests := 0
		opts := emptyOptions(&empty{})
		opts.Rest = func() { rests++ }
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context(), conn, opts) }()
		c, err := guest.Dial(t.Context(), host, guest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("the guest ended without a reason")
		}
		if rests != 1 {
			t.Errorf("rested %d times after the start", rests)
		}
	})
}

// A quiet handle has no events to tell of, and knows one file.
type quiet struct{ empty }

func (*quiet) NextEvent(ctx context.Context, _ uint64) (execution.Event, uint64, error) {
	<-ctx.Done()
	return execution.Event{}, 0, ctx.Err()
}

func (*quiet) Stat(_ context.Context, path string) (execution.FileInfo, error) {
	return execution.FileInfo{Name: path}, nil
}

// Who only waits for what happens does not keep the guest from its rest.
func TestGuestRestsWhileItsEventsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, conn := net.Pipe()
		var rests atomic.Int32
		opts := emptyOptions(nil)
		opts.Spawn = func(context.Context, *proto.Config) (execution.Handle, error) { return &quiet{}, nil }
		opts.Rest = func() { rests.Add(1) }
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context(), conn, opts) }()
		c, err := guest.Dial(t.Context(), host, guest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for event, err := range c.Events(t.Context()) {
				if err != nil || event.Kind != execution.EventSandboxEnded {
					t.Errorf("told of %+v, %v", event, err)
				}
			}
		}()
		time.Sleep(time.Minute)
		before := rests.Load()
		if _, err := c.Stat(t.Context(), "file"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := rests.Load(); n != before+1 {
			t.Errorf("rested %d times, and %d before the work", n, before)
		}
		_ = c.Close()
		<-followed
		if err := <-ended; err == nil {
			t.Error("the guest ended without a reason")
		}
	})
}

// run serves the process backend, and returns a client of it.
func run(t *testing.T) *guest.Client {
	t.Helper()
	commands, err := process.New(process.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(context.WithoutCancel(t.Context()), theirs, server.Options{
			Spawn: func(ctx context.Context, cfg *proto.Config) (execution.Handle, error) {
				return commands.Spawn(ctx, execution.Spec{Dir: cfg.Dir, Env: cfg.Env})
			},
			Facts: func() proto.Facts { return proto.Facts{PID: os.Getpid()} },
		})
	}()
	c, err := guest.Dial(t.Context(), ours, guest.Options{Backend: "test", Handle: "box"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-ended; err == nil {
			t.Error("the guest ended without a reason")
		}
		if err := commands.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// alive counts the processes on this machine that have an argument.
func alive(t *testing.T, arg string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range lines {
		b, _ := os.ReadFile(line) // it may have ended
		if strings.Contains("\x00"+string(b), "\x00"+arg+"\x00") {
			n++
		}
	}
	return n
}

// uniqueSleep is an argument of sleep that nobody else has.
func uniqueSleep() string { return fmt.Sprintf("9999.%d", time.Now().UnixNano()) }

func TestCommandOfHostThatWentAwayIsKilled(t *testing.T) {
	c := run(t)
	arg := uniqueSleep()
	p, err := c.Start(t.Context(), execution.Command{Shell: "(setsid sleep " + arg + " &); exec sleep " + arg})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command to run", func() bool { return alive(t, arg) == 2 })
	_ = c.Close()
	waitFor(t, "all that the command started to end", func() bool { return alive(t, arg) == 0 })
	if status, err := p.Wait(t.Context()); status.Ending != execution.EndingLost || !errors.Is(err, execution.ErrClosed) {
		t.Errorf("Wait = %+v, %v", status, err)
	}
}

func TestCommandWhoseStartIsGivenUpIsKilled(t *testing.T) {
	c := run(t)
	arg := uniqueSleep()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		p, err := c.Start(ctx, execution.Command{Args: []string{"sleep", arg}})
		if err == nil {
			if err := p.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("Start: %v", err)
		}
	}
	waitFor(t, "what was started in vain to end", func() bool { return alive(t, arg) == 0 })
}

// waitFor waits until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestOrderOfOperationsIsTheGuests(t *testing.T) {
	c := run(t)
	// What a file operation does is there for the command that follows, and the
	// other way round, however many there are at once.
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := fmt.Sprint("file-", i)
			if err := c.WriteFile(t.Context(), name, strings.NewReader(name), execution.WriteOptions{}); err != nil {
				t.Error(err)
				return
			}
			var out execution.Capture
			p, err := c.Start(t.Context(), execution.Command{Args: []string{"cat", name}, Stdout: &out})
			if err != nil {
				t.Error(err)
				return
			}
			status, err := p.Wait(t.Context())
			if got, _ := out.Take(); err != nil || !status.Success() || string(got) != name {
				t.Errorf("%+v, %v, %q", status, err, got)
			}
		})
	}
	all.Wait()
}
