package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestKnockIsAnswered(t *testing.T) {
	host, guest := net.Pipe()
	want := Knock{Mode: KnockResume, Session: [SessionSize]byte{1, 2, 3}, Received: 1 << 40}
	done := make(chan error, 1)
	go func() {
		k, answer, err := Admit(t.Context(), guest, []byte("key"))
		if err == nil && k != want {
			err = errors.New("another knock came")
		}
		if err == nil {
			err = answer(KnockAnswer{Status: KnockOK, Received: 7})
		}
		done <- err
	}()
	got, err := want.Ask(t.Context(), host, []byte("key"))
	if err != nil || got != (KnockAnswer{KnockOK, 7}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKnockWithAnotherKey(t *testing.T) {
	host, guest := net.Pipe()
	done := make(chan error, 1)
	go func() {
		_, _, err := Admit(t.Context(), guest, []byte("key"))
		_ = guest.Close()
		done <- err
	}()
	if _, err := (Knock{Mode: KnockTakeOver}).Ask(t.Context(), host, []byte("guess")); err == nil {
		t.Error("the guest answered")
	}
	if err := <-done; !errors.Is(err, ErrImposter) {
		t.Errorf("the guest says %v", err)
	}
}

// A recording of one conversation is of no use for another.
func TestKnockCannotBeReplayed(t *testing.T) {
	host, guest := net.Pipe()
	var said bytes.Buffer
	go func() {
		_, _, _ = Admit(t.Context(), guest, []byte("key"))
		_ = guest.Close()
	}()
	tee := struct {
		io.Reader
		io.Writer
		io.Closer
	}{host, io.MultiWriter(&said, host), host}
	_, _ = Knock{Mode: KnockTakeOver}.Ask(t.Context(), tee, []byte("key"))

	host, guest = net.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, host, int64(len(magic)+numberSize))
		_, _ = host.Write(said.Bytes())
	}()
	if _, _, err := Admit(t.Context(), guest, []byte("key")); !errors.Is(err, ErrImposter) {
		t.Errorf("a replay: %v", err)
	}
	_ = host.Close()
}

func TestKnockEndsWithItsContext(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := (Knock{Mode: KnockProbe}).Ask(ctx, host, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ask: %v", err)
	}
}

// FuzzKnock has either side read what the other could never have said.
// A guest that was made by another release says so before anything else, and
// so is told apart from one that makes no sense.
func TestKnockAtAnotherVersion(t *testing.T) {
	for _, theirs := range []byte{Version - 1, Version + 1} {
		ours, guest := net.Pipe()
		go func() {
			greeting := append([]byte(magic), make([]byte, numberSize)...)
			greeting[len(magic)-1] = theirs
			_, _ = guest.Write(greeting)
		}()
		_, err := Knock{Mode: KnockExclusive}.Ask(t.Context(), ours, []byte("key"))
		if want := fmt.Sprintf("protocol %d, this one %d", theirs, Version); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrVersion that says %q", err, want)
		}
		_, _ = ours.Close(), guest.Close()
	}
}

func FuzzKnock(f *testing.F) {
	f.Add(append([]byte(magic), make([]byte, 100)...))
	f.Add([]byte("OCI runtime exec failed: exec failed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := (Knock{Mode: KnockProbe}).ask(readOnly{bytes.NewReader(b)}, []byte("key")); err == nil {
			t.Error("the host believes it")
		}
		if _, _, err := admit(readOnly{bytes.NewReader(b)}, []byte("key")); err == nil {
			t.Error("the guest believes it")
		}
	})
}

// readOnly takes what is written and drops it.
type readOnly struct{ io.Reader }

func (readOnly) Write(p []byte) (int, error) { return len(p), nil }
