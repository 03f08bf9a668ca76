package cli

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// An output passes everything on, in order, and its writer's errors back.
func TestOutput(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	out := newOutput(&to)
	for _, text := range []string{"one ", "", "two"} {
		if n, err := out.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	out.close()
	if to.String() != "one two" {
		t.Errorf("passed on %q", &to)
	}
	if _, err := out.Write([]byte("late")); !errors.Is(err, errGivenUp) {
		t.Errorf("after close, Write = %v", err)
	}

	broken := errors.New("broken")
	out = newOutput(failingWriter{broken})
	defer out.close()
	if _, err := out.Write([]byte("x")); !errors.Is(err, broken) {
		t.Errorf("Write = %v, want %v", err, broken)
	}
}

// A write that blocks can be given up, and its caller has its bytes back.
func TestOutputGivenUp(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	out := newOutput(w)
	text := []byte("text")
	failed := make(chan error)
	go func() {
		_, err := out.Write(text)
		text[0] = 'n' // it is the caller's again
		_, again := out.Write(text)
		failed <- errors.Join(err, again)
	}()
	first := make([]byte, 1)
	if _, err := io.ReadFull(r, first); err != nil {
		t.Fatal(err)
	}
	out.giveUp()
	if err := <-failed; !errors.Is(err, errGivenUp) {
		t.Errorf("Write = %v", err)
	}
	rest := make([]byte, 3)
	if _, err := io.ReadFull(r, rest); err != nil || string(rest) != "ext" {
		t.Errorf("the reader that came back got %q, %v", rest, err)
	}
	out.close()
	<-out.ended
}
