package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

var errTest = errors.New("for a test")

func TestDialTellsWhatTheGuestFound(t *testing.T) {
	facts := &Facts{PID: 1, UID: 1000, Dir: "/work", Seccomp: 2, Limits: CgroupLimits{Memory: 1 << 31, PIDs: Unlimited}}
	conn, m := fakeGuest(t, facts.Encode(), never)
	c, err := Dial(t.Context(), conn, Options{Config: Config{Dir: "/work", Env: []string{"A=b"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Facts() != *facts || c.Dir() != "/work" {
		t.Errorf("facts are %+v, want %+v", c.Facts(), facts)
	}
	hello, err := m.AwaitHello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := proto.DecodeConfig(hello)
	if err != nil || cfg.Dir != "/work" || cfg.Env[0] != "A=b" || cfg.Lease != DefaultLease {
		t.Errorf("the guest was told %+v, %v", cfg, err)
	}
}

func TestDialFailsWithTheGuestsReason(t *testing.T) {
	refusal := proto.EncodeFailed(&execution.Error{Op: "spawn", Path: "/none", Err: execution.ErrDirNotFound})
	conn, _ := fakeGuest(t, refusal, never)
	_, err := Dial(t.Context(), conn, Options{Backend: "docker", Handle: "box"})
	if !errors.Is(err, execution.ErrDirNotFound) || !strings.Contains(err.Error(), `docker box: "/none"`) {
		t.Errorf("Dial: %v", err)
	}
}

// What cannot be sent is the caller's mistake and not the guest's.
func TestWhatIsTooLargeToBeSentIsInvalid(t *testing.T) {
	huge := strings.Repeat("x", wire.MaxCall)
	conn, _ := fakeGuest(t, goodHello(), never)
	_, err := Dial(t.Context(), conn, Options{Config: Config{Env: []string{"HUGE=" + huge}}})
	if !errors.Is(err, execution.ErrInvalid) || errors.Is(err, wire.ErrViolation) {
		t.Errorf("Dial: %v", err)
	}
	c, _ := dial(t, Options{}, answer(proto.EncodeDone()))
	if _, err := c.Start(t.Context(), execution.Command{Args: []string{"echo", huge}}); !errors.Is(err, execution.ErrInvalid) ||
		errors.Is(err, wire.ErrViolation) {
		t.Errorf("Start: %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("the client ended: %v", err)
	}
}

func TestDialFailsWithTheExplanation(t *testing.T) {
	for name, first := range map[string]string{
		"end": "", "garbage": "exec format error, and more than a header of text",
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, guest) }()
			go func() {
				_, _ = io.WriteString(guest, first)
				_ = guest.Close()
			}()
			var cause error
			_, err := Dial(t.Context(), host, Options{Explain: func(_ context.Context, err error) error {
				cause = err
				return fmt.Errorf("%w: it did not start", execution.ErrLost)
			}})
			if !errors.Is(err, execution.ErrLost) || !strings.HasSuffix(err.Error(), "it did not start") {
				t.Errorf("Dial: %v", err)
			}
			if cause == nil || first != "" && !strings.Contains(cause.Error(), "exec format") {
				t.Errorf("the cause is %v", cause)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, host, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
	if _, err := guest.Write([]byte{0}); err == nil {
		t.Error("the connection was not closed")
	}
}

// A write that is given up is undone before WriteFile returns, if the guest
// does that in time.
func TestWriteThatIsGivenUpWaitsForTheGuest(t *testing.T) {
	for _, answers := range []bool{true, false} {
		undone, release := false, make(chan struct{})
		c, m := dial(t, Options{}, func(ctx context.Context, _ *wire.Stream, _ *proto.Call) []byte {
			<-ctx.Done()
			if !answers {
				<-release
			}
			undone = true
			return proto.EncodeFailed(ctx.Err())
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := c.WriteFile(ctx, "f", strings.NewReader("x"), execution.WriteOptions{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		if answers && !undone {
			t.Error("it returned before the guest had undone it")
		}
		close(release)
		_ = c.Close()
		<-m.Done()
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	for _, play := range []script{never, begunNever} {
		c, m := dial(t, Options{}, play)
		for name, operation := range operations() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			// A file that is open is no longer bound to the context.
			if name != "open" {
				if err := operation(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
			}
			cancel()
		}
		if err := c.Err(); err != nil {
			t.Errorf("the client ended: %v", err)
		}
		_ = c.Close()
		<-m.Done()
	}
}

func TestLossFailsEveryPendingAndLaterCall(t *testing.T) {
	c, m := dial(t, Options{Explain: func(context.Context, error) error {
		return &execution.Error{Backend: "docker", Handle: "box", Err: fmt.Errorf("%w: out of memory", execution.ErrLost)}
	}}, begunNever)
	pending := map[string]chan error{}
	for name, operation := range operations() {
		failed := make(chan error, 1)
		pending[name] = failed
		go func() { failed <- operation(context.WithoutCancel(t.Context()), c) }()
	}
	for start := time.Now(); m.Streams() < len(pending) && time.Since(start) < patience; {
		time.Sleep(time.Millisecond)
	}
	go m.Close(io.ErrClosedPipe)
	want := func(name string, err error) {
		t.Helper()
		text := ": docker box: "
		if !errors.Is(err, execution.ErrLost) || !strings.HasSuffix(err.Error(), "sandbox lost: out of memory") ||
			strings.Count(err.Error(), "docker box") != 1 || !strings.Contains(err.Error(), text) {
			t.Errorf("%s fails with %q", name, err)
		}
	}
	for name, failed := range pending {
		select {
		case err := <-failed:
			want("pending "+name, err)
		case <-time.After(patience):
			t.Fatalf("pending %s hangs", name)
		}
	}
	<-c.Done()
	for name, operation := range operations() {
		want("later "+name, operation(t.Context(), c))
	}
	if err := c.Err(); !errors.Is(err, execution.ErrLost) {
		t.Errorf("Err: %v", err)
	}
}

func TestLostProcessSaysSo(t *testing.T) {
	c, m := dial(t, Options{}, func(ctx context.Context, s *wire.Stream, call *proto.Call) []byte {
		_ = s.Begin(nil)
		send(s, 1, []byte("last words"))
		return never(ctx, s, call)
	})
	var out bytes.Buffer
	said := make(chan struct{})
	p, err := c.Start(t.Context(), execution.Command{Shell: "x", Stdout: writer(func(b []byte) (int, error) {
		defer close(said)
		return out.Write(b)
	})})
	if err != nil {
		t.Fatal(err)
	}
	<-said
	m.Close(io.ErrClosedPipe)
	for range 2 {
		status, err := p.Wait(t.Context())
		if status.Ending != execution.EndingLost || status.Code != -1 || status.StdoutBytes != 10 || !errors.Is(err, execution.ErrLost) {
			t.Errorf("Wait = %+v, %v", status, err)
		}
	}
	for name, err := range map[string]error{
		"Signal": p.Signal(t.Context(), execution.SIGTERM), "Kill": p.Kill(t.Context()),
	} {
		if !errors.Is(err, execution.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// writer is a function that is a writer.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestCloseFailsPendingCallsWithErrClosed(t *testing.T) {
	c, m := dial(t, Options{Explain: func(context.Context, error) error { t.Error("explained"); return nil }}, begunNever)
	failed := make(chan error, 1)
	go func() { _, err := c.Stat(context.WithoutCancel(t.Context()), "x"); failed <- err }()
	for m.Streams() == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = c.Close()
	_ = c.Close()
	if err := <-failed; !errors.Is(err, execution.ErrClosed) {
		t.Errorf("a pending call fails with %v", err)
	}
	if _, err := c.Stat(t.Context(), "x"); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("a later call fails with %v", err)
	}
	if err := c.Err(); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("Err: %v", err)
	}
}

func TestPauseFailsWhatIsNotAcknowledged(t *testing.T) {
	c, m := dial(t, Options{}, func(ctx context.Context, s *wire.Stream, call *proto.Call) []byte {
		switch call.Method {
		case proto.MethodStart:
			_ = s.Begin(nil)
			_, _ = s.Peek(0)
			return proto.EncodeStatus(execution.ExitStatus{Ending: execution.EndingExited}, nil)
		default:
			return never(ctx, s, call)
		}
	})
	stdin, typed := io.Pipe()
	running, err := c.Start(t.Context(), execution.Command{Shell: "x", Stdin: stdin})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { _, err := c.Stat(context.WithoutCancel(t.Context()), "x"); failed <- err }()
	for m.Streams() < 2 {
		time.Sleep(time.Millisecond)
	}
	c.Pause(true)
	if err := <-failed; !errors.Is(err, execution.ErrPaused) {
		t.Errorf("a call that was not acknowledged: %v", err)
	}
	for name, operation := range operations() {
		if err := operation(t.Context(), c); !errors.Is(err, execution.ErrPaused) {
			t.Errorf("new %s: %v", name, err)
		}
	}
	c.Pause(false)
	for m.Streams() > 1 { // what was cancelled is dropped by the guest
		time.Sleep(time.Millisecond)
	}
	if _, err := typed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = typed.Close()
	if status, err := running.Wait(t.Context()); err != nil || !status.Success() {
		t.Errorf("the running process: %+v, %v", status, err)
	}
}

// deaf is a connection whose other end says nothing after the greeting.
func deaf(t *testing.T) net.Conn {
	t.Helper()
	host, guest := net.Pipe()
	_, _ = host, guest
	conn, m := fakeGuest(t, goodHello(), never)
	return &muffled{Conn: conn, m: m}
}

// muffled swallows everything but the first write, so that nothing is
// answered.
type muffled struct {
	net.Conn
	m      *wire.Mux
	writes atomic.Int64
}

func (d *muffled) Write(p []byte) (int, error) {
	if d.writes.Add(1) > 1 {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

func TestSilenceIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		c, err := Dial(t.Context(), deaf(t), Options{Explain: func(context.Context, error) error {
			asked = append(asked, time.Since(start))
			if len(asked) < 3 {
				return nil
			}
			return errTest
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Stat(t.Context(), "x"); !errors.Is(err, execution.ErrLost) || !errors.Is(err, errTest) {
			t.Errorf("a pending call: %v", err)
		}
		if want := "[20s 40s 1m0s]"; fmt.Sprint(asked) != want {
			t.Errorf("asked at %v, want %v", asked, want)
		}
	})
}

func TestGuestThatIsSilentForeverIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, err := Dial(t.Context(), deaf(t), Options{Explain: func(context.Context, error) error { asked++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Stat(t.Context(), "x"); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "1m40s") {
			t.Errorf("a pending call: %v", err)
		}
		if asked != maxSilences {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestSilenceOfPausedGuestDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Dial(t.Context(), deaf(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Pause(true)
		time.Sleep(time.Hour)
		if err := c.Err(); err != nil {
			t.Errorf("lost while paused: %v", err)
		}
		c.Pause(false)
		time.Sleep(DefaultSilence + 2*DefaultHeartbeat)
		if err := c.Err(); !errors.Is(err, execution.ErrLost) {
			t.Errorf("not lost after it woke up: %v", err)
		}
	})
}

func TestHeartbeatKeepsAnIdleClientAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, m := fakeGuest(t, goodHello(), never)
		c, err := Dial(t.Context(), conn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		before := m.Beats()
		time.Sleep(time.Hour)
		if err := c.Err(); err != nil {
			t.Errorf("lost although the guest answers: %v", err)
		}
		if beats := m.Beats() - before; beats < 700 {
			t.Errorf("the guest heard of its host %d times in an hour", beats)
		}
		_ = c.Close()
		m.Close(io.ErrClosedPipe)
	})
}

func TestExplainIsBoundedAndEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ error) error { <-ctx.Done(); return ctx.Err() }
		c, m := dial(t, Options{Explain: hang}, never)
		start := time.Now()
		m.Close(io.ErrClosedPipe)
		<-c.Done()
		if took := time.Since(start); took != explainDeadline {
			t.Errorf("explaining took %v", took)
		}
		c, m = dial(t, Options{Explain: hang}, never)
		m.Close(io.ErrClosedPipe)
		synctest.Wait()
		start = time.Now()
		_ = c.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("closing took %v", took)
		}
		if err := c.Err(); !errors.Is(err, execution.ErrClosed) {
			t.Errorf("Err: %v", err)
		}
	})
}
