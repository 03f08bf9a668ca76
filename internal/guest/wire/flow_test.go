package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

var errTest = errors.New("for a test")

// flood sends on channel 1 until it is stopped.
func flood(_ context.Context, s *Stream, _ []byte) []byte {
	_ = s.Begin(nil)
	sender := s.Sender(1)
	defer sender.Close()
	for block := make([]byte, 100_000); ; {
		if _, err := sender.Write(block); err != nil {
			return fmt.Append(nil, err)
		}
	}
}

// serveBoth floods or echoes, as the call says.
func serveBoth(ctx context.Context, s *Stream, call []byte) []byte {
	if string(call) == "flood" {
		return flood(ctx, s, call)
	}
	return echo(ctx, s, call)
}

func TestSlowConsumerHoldsUpNobodyElse(t *testing.T) {
	a, b := net.Pipe()
	host, _ := connect(t, a, b, serveBoth)
	blocked, release := make(chan struct{}), make(chan struct{})
	first := true
	opts := OpenOptions{}
	opts.Sinks[1] = func([]byte) error {
		if first {
			first = false
			close(blocked)
		}
		<-release
		return nil
	}
	s, err := host.Open(t.Context(), []byte("flood"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-blocked
	roundTrip(t, host, make([]byte, 1<<20))
	s.mu.Lock()
	if held := s.in[1].size; held > initialWindow {
		t.Errorf("%d bytes are held for a consumer that takes none, with credit for %d", held, initialWindow)
	}
	s.mu.Unlock()
	s.Cancel()
	close(release)
	if result, err := s.Result(); err != nil || string(result) != ErrCancelled.Error() {
		t.Errorf("Result = %q, %v", result, err)
	}
}

func TestFailingSinkCancelsItsStreamOnly(t *testing.T) {
	a, b := net.Pipe()
	host, _ := connect(t, a, b, serveBoth)
	ended := make(chan error, 1)
	opts := OpenOptions{Ended: func(_ bool, _ []byte, err error) { ended <- err }}
	opts.Sinks[1] = func([]byte) error { return errTest }
	if _, err := host.Open(t.Context(), []byte("flood"), opts); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v, want the guest's RESULT", err)
		}
	case <-time.After(patience):
		t.Fatal("the stream does not end")
	}
	roundTrip(t, host, []byte("alive"))
}

func TestWindowGrowsForConsumerThatKeepsUp(t *testing.T) {
	a, b := net.Pipe()
	host, _ := connect(t, a, b, serveBoth)
	got := 0
	enough := make(chan struct{})
	opts := OpenOptions{}
	opts.Sinks[1] = func(p []byte) error {
		if got += len(p); got > 64<<20 {
			close(enough)
			return errTest
		}
		return nil
	}
	s, err := host.Open(t.Context(), []byte("flood"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-enough
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.in[1].window; w <= initialWindow || w > maxWindow {
		t.Errorf("window is %d", w)
	}
}

func TestAbandonedStreamIsForgottenWithItsResult(t *testing.T) {
	a, b := net.Pipe()
	host, guest := connect(t, a, b, serveBoth)
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := host.Open(ctx, []byte("flood"), OpenOptions{Sinks: [Channels]Sink{1: func([]byte) error { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Bind(ctx)()
	cancel(errTest)
	if _, err := s.Result(); !errors.Is(err, errTest) {
		t.Errorf("Result fails with %v, want the context's cause", err)
	}
	waitFor(t, "both sides to forget the stream", func() bool { return host.Streams()+guest.Streams() == 0 })
	roundTrip(t, host, []byte("alive"))
}

// waitFor waits until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestHoldFailsWhatIsNotAcknowledged(t *testing.T) {
	a, b := net.Pipe()
	begin := make(chan struct{})
	host, guest := connect(t, a, b, func(ctx context.Context, s *Stream, call []byte) []byte {
		if string(call) == "late" {
			<-begin
			<-ctx.Done() // the host must have cancelled it
			return nil
		}
		return echo(ctx, s, call)
	})
	running, err := host.Open(t.Context(), []byte("running"), OpenOptions{Peeks: true, Sinks: [Channels]Sink{
		1: func([]byte) error { return nil }, 2: func([]byte) error { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := running.Acked(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	late, err := host.Open(t.Context(), []byte("late"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host.Hold(errTest)
	if _, _, err := late.Acked(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("a call that was not acknowledged: %v", err)
	}
	if _, err := host.Open(t.Context(), nil, OpenOptions{}); !errors.Is(err, errTest) {
		t.Errorf("a new call: %v", err)
	}
	host.Hold(nil)
	close(begin)
	if err := feed(running, bytes.NewReader([]byte("data"))); err != nil {
		t.Error(err)
	}
	if got, err := read(running); string(got) != "data" || !errors.Is(err, io.EOF) {
		t.Errorf("the running stream got %q, %v", got, err)
	}
	waitFor(t, "the cancelled stream to go", func() bool { return guest.Streams() == 0 })
	roundTrip(t, host, []byte("alive"))
}

// stuck is a connection whose writes never end.
type stuck struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func (s *stuck) Write([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *stuck) Close() error              { s.once.Do(func() { close(s.closed) }); return nil }

func TestPeerThatReadsNothingBlocksNoCaller(t *testing.T) {
	r, w := io.Pipe()
	host := New(t.Context(), &stuck{Reader: r, closed: make(chan struct{})}, Config{})
	defer func() {
		_ = w.Close()
		host.Close(errTest)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := host.Greet(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Greet: %v", err)
	}
	for i := range 3 { // also when the queue is full
		s, err := host.Open(ctx, make([]byte, queueRoom), OpenOptions{})
		if err == nil {
			release := s.Bind(ctx)
			_, err = s.Result()
			release()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestBulkThatPeerDoesNotReadBlocksNobodyElse(t *testing.T) {
	r, w := io.Pipe()
	host := New(t.Context(), &stuck{Reader: r, closed: make(chan struct{})}, Config{})
	defer func() {
		_ = w.Close()
		host.Close(errTest)
	}()
	bulk := func(ctx context.Context) error {
		s, err := host.Open(ctx, nil, OpenOptions{})
		if err != nil {
			return err
		}
		defer s.Bind(ctx)()
		_, err = s.Sender(0).Write(make([]byte, 10<<20))
		return err
	}
	stuckForever := make(chan error, 1)
	go func() { stuckForever <- bulk(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := bulk(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Write: %v", err)
	}
	_ = w.Close()
	host.Close(errTest)
	if err := <-stuckForever; err == nil {
		t.Error("a write that was under way has succeeded")
	}
}

func TestEndGivesEveryStreamTheExplainedError(t *testing.T) {
	a, b := net.Pipe()
	var causes []error
	host := New(t.Context(), a, Config{Explain: func(cause error) error {
		causes = append(causes, cause)
		return errTest
	}})
	defer host.Close(io.ErrClosedPipe)
	guest := New(t.Context(), b, Config{Serve: func(ctx context.Context, _ *Stream, _ []byte) []byte { <-ctx.Done(); return nil }})
	guest.Answer(nil)
	if _, err := host.Greet(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s, err := host.Open(t.Context(), nil, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	guest.Close(io.ErrClosedPipe)
	if _, err := s.Result(); !errors.Is(err, errTest) {
		t.Errorf("a pending call fails with %v", err)
	}
	<-host.Done()
	if _, err := host.Open(t.Context(), nil, OpenOptions{}); !errors.Is(err, errTest) {
		t.Errorf("a later call fails with %v", err)
	}
	if len(causes) != 1 {
		t.Errorf("explained %d times: %v", len(causes), causes)
	}
}

func TestCloseFailsPendingCallsWithItsError(t *testing.T) {
	a, b := net.Pipe()
	host, _ := connect(t, a, b, func(ctx context.Context, _ *Stream, _ []byte) []byte { <-ctx.Done(); return nil })
	s, err := host.Open(t.Context(), nil, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host.Close(errTest)
	if _, err := s.Result(); !errors.Is(err, errTest) {
		t.Errorf("Result: %v", err)
	}
	host.Close(io.ErrClosedPipe)
	if err := host.Err(); !errors.Is(err, errTest) {
		t.Errorf("Err after closing again: %v", err)
	}
}

func TestPingIsAnswered(t *testing.T) {
	a, b := net.Pipe()
	host, guest := connect(t, a, b, echo)
	before := host.Beats()
	host.Ping()
	waitFor(t, "the answer", func() bool { return host.Beats() > before })
	before = guest.Beats()
	guest.Ping()
	waitFor(t, "the host's answer", func() bool { return guest.Beats() > before })
}

func TestShortReadsAndSplicingShareTheirCredit(t *testing.T) {
	const rounds = 600
	// One that fills a small buffer, one that does not fill the large one which
	// follows, and one that is spliced.
	sizes := []int64{smallData, 100, 60_000}
	a, b := transports()["os.Pipe"](t)
	host, _ := connect(t, a, b, func(_ context.Context, s *Stream, _ []byte) []byte {
		_ = s.Begin(nil)
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Append(nil, err)
		}
		defer r.Close()
		go func() {
			defer w.Close()
			for i := range rounds {
				_, _ = w.Write(make([]byte, sizes[i%len(sizes)]))
			}
		}()
		sender := s.Sender(0)
		defer sender.Close()
		n := int64(0)
		for i := range rounds {
			m, err := sender.ReadFrom(&io.LimitedReader{R: r, N: sizes[i%len(sizes)]})
			if n += m; err != nil {
				return fmt.Append(nil, n, err)
			}
		}
		return fmt.Append(nil, n, nil)
	})
	s, err := host.Open(t.Context(), nil, OpenOptions{Peeks: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := read(s)
	want := rounds / 3 * (smallData + 100 + 60_000)
	if result, err := s.Result(); len(got) != want || string(result) != fmt.Sprint(want, " <nil>") {
		t.Errorf("got %d bytes of %d; %s, %v", len(got), want, result, err)
	}
}

func TestSendingOnStreamThatHasEndedDoesNotOutliveTheConnection(t *testing.T) {
	r, w := io.Pipe()
	host := New(t.Context(), &stuck{Reader: r, closed: make(chan struct{})}, Config{})
	s, err := host.Open(t.Context(), nil, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := s.Sender(0).Write(make([]byte, MaxData))
		sent <- err
	}()
	for _, b := range [][]byte{greeting(), frame(frameResult, 0, s.id, nil)} {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Result(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	host.Close(errTest)
	select {
	case err := <-sent:
		if err == nil {
			t.Error("it succeeded")
		}
	case <-time.After(patience):
		t.Fatal("it hangs")
	}
}

// A call may be larger than what else may be queued: as long as the peer is
// busy with something else it waits, and is not taken for a flood of answers.
func TestALargeCallIsNoFlood(t *testing.T) {
	host, peer := net.Pipe()
	defer func() { _ = peer.Close() }()
	m := New(t.Context(), host, Config{})
	defer m.Close(io.ErrClosedPipe)
	queued := func() int {
		m.queue.mu.Lock()
		defer m.queue.mu.Unlock()
		return len(m.queue.frames)
	}
	m.Ping() // the peer does not read it, so that what follows stays in the queue
	for start := time.Now(); queued() > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatal("nobody writes")
		}
	}
	if _, err := m.Open(t.Context(), make([]byte, queueLimit+1), OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Ping()
	select {
	case <-m.stopping:
		t.Errorf("the connection ended: %v", m.cause)
	default:
	}
	if _, err := m.Open(t.Context(), make([]byte, MaxCall+1), OpenOptions{}); !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrViolation) {
		t.Errorf("a call beyond all bounds: %v", err)
	}
}
