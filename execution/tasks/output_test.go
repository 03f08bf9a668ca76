package tasks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestOutputByOffset(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.say("0123456789")
	for _, row := range []struct {
		opts execution.OutputOptions
		want string
	}{
		{execution.OutputOptions{}, "0123456789"},
		{execution.OutputOptions{Offset: 4}, "456789"},
		{execution.OutputOptions{Offset: 4, Length: 3}, "456"},
		{execution.OutputOptions{Offset: -2}, "89"},
		{execution.OutputOptions{Offset: -200}, "0123456789"},
		{execution.OutputOptions{Offset: math.MinInt64}, "0123456789"},
		{execution.OutputOptions{Offset: 10}, ""},
		{execution.OutputOptions{Length: 10, Follow: true}, "0123456789"},
	} {
		if got := output(t, task, row.opts); got != row.want {
			t.Errorf("%+v: got %q, want %q", row.opts, got, row.want)
		}
	}
	for _, opts := range []execution.OutputOptions{{Offset: 11}, {Offset: math.MaxInt64, Follow: true}} {
		_, err := task.OpenOutput(t.Context(), execution.Stdout, opts)
		wantText(t, err, execution.ErrInvalid, "it has written 10 bytes")
	}
	_, err := task.OpenOutput(t.Context(), 3, execution.OutputOptions{})
	wantText(t, err, execution.ErrInvalid, "stream 3")
	_, err = task.OpenOutput(t.Context(), execution.Stderr, execution.OutputOptions{Length: -1})
	wantText(t, err, execution.ErrInvalid, "length")
	script.exit(0)
}

func TestAReaderOfWhatIsThereDoesNotRunAfterTheRest(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.say("now")
	r, err := task.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	script.say(" later")
	if text, err := io.ReadAll(r); string(text) != "now" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	script.exit(0)
}

func TestGapsAreTold(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 40) // of stdout 10 and 10
	script.say("0123456789" + strings.Repeat("x", 100) + "abcdefghij")
	script.exit(0)
	wait(t, task)
	r, err := task.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{Offset: 8})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, want := range []struct {
		text string
		at   int64
	}{{"89", 10}, {"abcdefghij", 120}} {
		if n, err := r.Read(buf); string(buf[:n]) != want.text || r.Offset() != want.at || err != nil {
			t.Errorf("read %q up to %d, want %q up to %d; %v", buf[:n], r.Offset(), want.text, want.at, err)
		}
	}
	if n, err := r.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

func TestAReadThatWaitsReturns(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	read := func(ctx context.Context) (io.Closer, chan error) {
		r, err := task.OpenOutput(ctx, execution.Stdout, execution.OutputOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := r.Read(make([]byte, 10))
			got <- err
		}()
		return r, got
	}
	_, cancelled := read(ctx)
	closed, byClose := read(t.Context())
	_, byEnd := read(t.Context())
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-byClose; !errors.Is(err, execution.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	script.exit(0)
	if err := <-byEnd; !errors.Is(err, io.EOF) {
		t.Errorf("after the task: %v", err)
	}
}

func TestManyReadersFollow(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 8<<20)
	var want bytes.Buffer
	for i := range 200_000 {
		want.WriteString(string(rune('a'+i%26)) + strings.Repeat("-", i%7))
	}
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() {
			offset := int64(0)
			var got bytes.Buffer
			r, err := task.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{Offset: offset, Follow: true})
			if err != nil {
				t.Error(err)
				return
			}
			buf := make([]byte, 1000*(i+1))
			for {
				n, err := r.Read(buf)
				got.Write(buf[:n])
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				if r.Offset() != int64(got.Len()) {
					t.Errorf("offset %d after %d bytes", r.Offset(), got.Len())
				}
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("a reader got %d bytes, want %d", got.Len(), want.Len())
			}
			if info, err := task.Info(t.Context()); err != nil || info.Running() {
				t.Errorf("at the end of its output the task is %q, %v", info.State(), err)
			}
		})
	}
	for data := want.Bytes(); len(data) > 0; {
		n := min(len(data), 3000)
		script.say(string(data[:n]))
		data = data[n:]
	}
	script.exit(0)
	group.Wait()
}
