package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/process"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

// A station is a guest that hosts can come back to.
type station struct {
	door *door
	end  chan error
	cfg  guest.Config

	mu    sync.Mutex
	conns []io.Closer // every connection of a host
}

// newStation starts a guest, with its first host.
func newStation(t *testing.T, cfg guest.Config) (*station, *guest.Client) {
	t.Helper()
	commands, err := process.New(process.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Key = testKey()
	s := &station{door: newDoor(), end: make(chan error, 1), cfg: cfg, conns: []io.Closer{ours}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		s.end <- server.Run(ctx, theirs, server.Options{
			Spawn: func(ctx context.Context, cfg *proto.Config) (execution.Handle, error) {
				return commands.Spawn(ctx, execution.Spec{Env: cfg.Env})
			},
			Facts:  func() proto.Facts { return proto.Facts{PID: 1} },
			Listen: func(*proto.Config) (server.Listener, error) { return s.door, nil },
		})
	}()
	t.Cleanup(func() {
		stop()
		<-s.door.closed
		if err := commands.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := guest.Dial(t.Context(), ours, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

func (s *station) options() guest.Options {
	return guest.Options{Backend: "test", Handle: "box", Config: s.cfg, Redial: s.redial}
}

func (s *station) redial(ctx context.Context) (io.ReadWriteCloser, error) {
	conn, err := s.door.knock(ctx)
	if err == nil {
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
	}
	return conn, err
}

// cut ends every connection that there is.
func (s *station) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// attach is another host.
func (s *station) attach(t *testing.T, mode execution.AttachMode) (*guest.Client, error) {
	t.Helper()
	conn, err := s.redial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opts := s.options()
	opts.Redial = nil
	c, err := guest.Attach(t.Context(), conn, mode, opts)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// follow is another host, as soon as the one before it is seen to be gone.
func (s *station) follow(t *testing.T, mode execution.AttachMode, opts guest.Options) *guest.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := s.redial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c, err := guest.Attach(ctx, conn, mode, opts)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if !errors.Is(err, execution.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// handle makes a client a whole handle.
type wholeHandle struct{ *guest.Client }

func (wholeHandle) ID() string                    { return "box" }
func (wholeHandle) Spec() execution.Spec          { return execution.Spec{} }
func (wholeHandle) Destroy(context.Context) error { return nil }

// Nothing is lost or doubled when the connection breaks again and again, in
// either direction, whatever is under way.
func TestConnectionThatBreaksLosesNothing(t *testing.T) {
	s, c := newStation(t, guest.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	over := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for pause := time.Millisecond; ; pause = pause*3/2 + time.Millisecond {
			select {
			case <-over:
				return
			case <-time.After(min(pause, 200*time.Millisecond)):
				s.cut()
			}
		}
	})
	var work sync.WaitGroup
	work.Go(func() {
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		var back bytes.Buffer
		p, err := c.Start(ctx, execution.Command{Shell: "cat", Stdin: bytes.NewReader(data), Stdout: &back})
		if err != nil {
			t.Error(err)
			return
		}
		if status, err := p.Wait(ctx); err != nil || !status.Success() || !bytes.Equal(back.Bytes(), data) {
			t.Errorf("cat: %v, %v, %d of %d bytes", status, err, back.Len(), len(data))
		}
	})
	work.Go(func() {
		var out bytes.Buffer
		p, err := c.Start(ctx, execution.Command{Shell: "seq 1 200000", Stdout: &out})
		if err != nil {
			t.Error(err)
			return
		}
		var want bytes.Buffer
		for i := 1; i <= 200000; i++ {
			fmt.Fprintln(&want, i)
		}
		if status, err := p.Wait(ctx); err != nil || !status.Success() || !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Errorf("seq: %v, %v, %d of %d bytes", status, err, out.Len(), want.Len())
		}
	})
	work.Go(func() {
		for i := range 200 {
			result, err := execution.Exec(ctx, wholeHandle{c}, execution.Command{Shell: fmt.Sprintf("printf %d; exit 7", i)})
			if err != nil || result.Code != 7 || string(result.Stdout) != fmt.Sprint(i) {
				t.Errorf("run %d: %v, %v, %q", i, result.ExitStatus, err, result.Stdout)
				return
			}
		}
	})
	work.Wait()
	close(over)
	cutting.Wait()
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

func TestHostThatDiedIsReplaced(t *testing.T) {
	s, first := newStation(t, guest.Config{})
	foreground, err := first.Start(t.Context(), execution.Command{Shell: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := first.StartTask(t.Context(), execution.Command{Shell: "for i in 1 2 3; do echo $i; sleep 0.05; done; sleep 1000"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := first.StartTask(t.Context(), execution.Command{Shell: "exit 5"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.WriteFile(t.Context(), "file", strings.NewReader("kept"), execution.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	// It dies as by SIGKILL: nothing is said, and nobody redials.
	_ = first.Close()
	second := s.follow(t, execution.AttachExclusive, s.options())
	if got, err := execution.ReadFile(t.Context(), wholeHandle{second}, "file", 0); string(got) != "kept" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	result, err := execution.Exec(t.Context(), wholeHandle{second}, execution.Command{Shell: "pgrep -f 'sleep 1000' | wc -l"})
	if err != nil || foreground == nil {
		t.Errorf("%v, %v", result, err)
	}
	again, err := second.Task(t.Context(), task.ID())
	if err != nil {
		t.Fatal(err)
	}
	r, err := again.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("1\n2\n3\n"))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "1\n2\n3\n" || r.Offset() != int64(len(got)) {
		t.Errorf("output %q to %d, %v", got, r.Offset(), err)
	}
	_ = r.Close()
	for event, err := range second.Events(t.Context()) {
		if err != nil || event.Task.ID != short.ID() || event.Task.Status.Code != 5 {
			t.Errorf("event %+v, %v", event, err)
		}
		break
	}
	if err := again.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	for event, err := range second.Events(t.Context()) {
		if err != nil || event.Task.ID != task.ID() || event.Task.Status.Ending != execution.EndingCancelled {
			t.Errorf("event %+v, %v", event, err)
		}
		break
	}
}

func TestWhoeverHoldsTheSandbox(t *testing.T) {
	s, first := newStation(t, guest.Config{})
	p, err := first.Start(t.Context(), execution.Command{Shell: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.attach(t, execution.AttachExclusive); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("a second host: %v", err)
	}
	if _, err := s.attach(t, execution.AttachShared); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("a second host that shares: %v", err)
	}
	if err := first.Err(); err != nil {
		t.Fatalf("the first host was disturbed: %v", err)
	}
	second, err := s.attach(t, execution.AttachTakeOver)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait(t.Context())
	if !errors.Is(err, execution.ErrLost) || !strings.Contains(status.Reason, "taken over") {
		t.Errorf("the first host's command: %+v, %v", status, err)
	}
	_ = second.Close()
	shared := s.follow(t, execution.AttachShared, s.options())
	other, err := s.attach(t, execution.AttachShared)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*guest.Client{shared, other} {
		if _, err := c.Stat(t.Context(), "/"); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.attach(t, execution.AttachExclusive); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("an exclusive host beside others: %v", err)
	}
}

func TestWithoutTheKeyNobodyComesIn(t *testing.T) {
	s, first := newStation(t, guest.Config{})
	for name, key := range map[string][]byte{"wrong": []byte("guessed"), "none": nil} {
		conn, err := s.door.knock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		opts := guest.Options{Config: guest.Config{Key: key}}
		if _, err := guest.Attach(t.Context(), conn, execution.AttachTakeOver, opts); err == nil {
			t.Errorf("%s key: attached", name)
		}
	}
	// Those who say nothing do not keep others out for ever, and cost little.
	for range 4 {
		conn, err := s.door.knock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	conn, err := s.door.knock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.Probe(t.Context(), conn, testKey()); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, err := first.Stat(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

// Who shares a sandbox and has lost the connection for a moment is not put out
// by others who share it.
func TestSharersDoNotPutEachOtherOut(t *testing.T) {
	s, c := newStation(t, guest.Config{})
	_ = c.Close()
	opts := s.options()
	gate := make(chan struct{})
	opts.Redial = func(ctx context.Context) (io.ReadWriteCloser, error) {
		<-gate
		return s.redial(ctx)
	}
	first := s.follow(t, execution.AttachShared, opts)
	s.cut()
	if _, err := s.attach(t, execution.AttachShared); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if _, err := first.Stat(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

func TestGuestThatEndsWithItsHost(t *testing.T) {
	s, c := newStation(t, guest.Config{EndWithHost: true})
	if _, err := c.Start(t.Context(), execution.Command{Shell: "sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case err := <-s.end:
		t.Logf("it ended with %v", err)
	case <-time.After(patience):
		t.Error("it outlives its host")
	}
}
