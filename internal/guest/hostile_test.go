package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// entries is a list as it travels.
func entries(names ...string) []byte {
	var b []byte
	for _, name := range names {
		b = proto.AppendInfo(b, execution.FileInfo{Name: name})
	}
	return b
}

// begin makes a script that begins, sends bytes and answers.
func begin(ch uint8, b, result []byte) script {
	return func(_ context.Context, s *wire.Stream, _ *proto.Call) []byte {
		_ = s.Begin(nil)
		send(s, ch, b)
		return result
	}
}

// answer makes a script that only answers.
func answer(result []byte) script {
	return func(context.Context, *wire.Stream, *proto.Call) []byte { return result }
}

func status(s execution.ExitStatus) []byte { return proto.EncodeStatus(s, nil) }

// ended is a task that has.
func ended(id string) execution.TaskInfo {
	return execution.TaskInfo{ID: id, Status: execution.ExitStatus{Ending: execution.EndingExited}}
}

func TestHostileAnswersLoseTheSandbox(t *testing.T) {
	done := proto.EncodeDone()
	exited := status(execution.ExitStatus{Ending: execution.EndingExited})
	tests := map[string]struct {
		operations []string
		play       script
	}{
		"nothing":                    {slices.Collect(maps.Keys(operations())), answer(nil)},
		"garbage":                    {slices.Collect(maps.Keys(operations())), answer([]byte("garbage"))},
		"begun, then nothing":        {[]string{"start", "open", "list", "glob", "output", "tasks"}, begin(0, nil, nil)},
		"ended before it was begun":  {[]string{"start"}, answer(exited)},
		"read before it was opened":  {[]string{"open"}, answer(done)},
		"written before it was sent": {[]string{"write"}, answer(done)},
		"no ending":                  {[]string{"start"}, begin(1, nil, status(execution.ExitStatus{}))},
		"success without exiting":    {[]string{"start"}, begin(1, nil, status(execution.ExitStatus{Ending: execution.EndingSignalled, Signal: 9}))},
		"refused after it was begun": {[]string{"start"}, begin(1, nil, proto.EncodeFailed(execution.ErrFinished))},
		"timed out without a limit":  {[]string{"start"}, begin(1, nil, status(execution.ExitStatus{Ending: execution.EndingTimedOut, Code: -1}))},
		"output beyond the limit":    {[]string{"start"}, begin(1, make([]byte, 11), exited)},
		"output on stdin's channel":  {[]string{"start"}, begin(0, []byte("x"), exited)},
		"output that nobody wants":   {[]string{"start"}, begin(2, []byte("x"), exited)},
		"more of a file than asked":  {[]string{"open"}, begin(0, make([]byte, 11), done)},
		"name with a slash":          {[]string{"stat", "lstat"}, answer(proto.EncodeInfo(execution.FileInfo{Name: "../x"}))},
		"name of another file":       {[]string{"stat", "lstat"}, answer(proto.EncodeInfo(execution.FileInfo{Name: ".."}))},
		"name with a NUL":            {[]string{"stat", "lstat"}, answer(proto.EncodeInfo(execution.FileInfo{Name: "x\x00"}))},
		"listed name with a slash":   {[]string{"list"}, begin(0, entries("ok", "a/b"), done)},
		"listed ..":                  {[]string{"list", "glob"}, begin(0, entries("ok", ".."), done)},
		"listed nothing":             {[]string{"list", "glob"}, begin(0, entries(""), done)},
		"globbed an absolute path":   {[]string{"glob"}, begin(0, entries("/etc/passwd"), done)},
		"globbed out of the folder":  {[]string{"glob"}, begin(0, entries("a/../../b"), done)},
		"endless entry":              {[]string{"list", "glob"}, begin(0, append([]byte{0xff, 0xff, 0xff, 0x7f}, make([]byte, 1000)...), done)},
		"list that is cut":           {[]string{"list", "glob"}, begin(0, entries("name")[:4], done)},
		"another task":               {[]string{"find task", "wait task"}, answer(proto.EncodeTask(ended("task-2")))},
		"task without a name":        {[]string{"start task", "find task", "wait task"}, answer(proto.EncodeTask(ended("")))},
		"name of a task with an ESC": {[]string{"start task"}, answer(proto.EncodeTask(ended("\x1b[2J")))},
		"task that runs has ended":   {[]string{"wait task"}, answer(proto.EncodeTask(execution.TaskInfo{ID: "task-1"}))},
		"event of no number":         {[]string{"events"}, answer(proto.EncodeEvent(0, ended("task-1")))},
		"the same event":             {[]string{"events"}, answer(proto.EncodeEvent(7, ended("task-1")))},
		"event of a task that runs":  {[]string{"events"}, answer(proto.EncodeEvent(1, execution.TaskInfo{ID: "task-1"}))},
		"output before its start":    {[]string{"output"}, begin(0, chunk(4, "x"), done)},
		"output that goes back":      {[]string{"output"}, begin(0, append(chunk(5, "xyz"), chunk(7, "x")...), done)},
		"more output than asked":     {[]string{"output"}, begin(0, chunk(5, "0123456789a"), done)},
		"output of a huge chunk":     {[]string{"output"}, begin(0, proto.AppendChunk(nil, 5, 1<<30), done)},
		"empty output":               {[]string{"output"}, begin(0, chunk(5, ""), done)},
		"output that is cut":         {[]string{"output"}, begin(0, chunk(5, "xyz")[:14], done)},
		"output that has no end":     {[]string{"output"}, begin(0, proto.AppendChunk(nil, -1, 1), done)},
		"list of nameless tasks":     {[]string{"tasks"}, begin(0, proto.AppendTask(nil, ended("")), done)},
		"list of tasks that is cut":  {[]string{"tasks"}, begin(0, proto.AppendTask(nil, ended("task-1"))[:4], done)},
		"list that is garbage":       {[]string{"list", "glob", "tasks"}, begin(0, bytes.Repeat([]byte{3}, 100), done)},
	}
	for name, test := range tests {
		for _, op := range test.operations {
			t.Run(name+" as "+op, func(t *testing.T) {
				c, _ := dial(t, Options{}, test.play)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := operations()[op](ctx, c); !errors.Is(err, execution.ErrLost) || !errors.Is(err, wire.ErrViolation) {
					t.Errorf("it fails with %v", err)
				}
				select {
				case <-c.Done():
				case <-ctx.Done():
					t.Fatal("the client goes on")
				}
				if err := c.Err(); !errors.Is(err, execution.ErrLost) {
					t.Errorf("Err: %v", err)
				}
			})
		}
	}
}

func TestEndlessListTakesNoMemory(t *testing.T) {
	chunk := bytes.Repeat(entries(strings.Repeat("n", 200)), 1000)
	c, m := dial(t, Options{}, func(_ context.Context, s *wire.Stream, _ *proto.Call) []byte {
		_ = s.Begin(nil)
		sender := s.Sender(0)
		defer sender.Close()
		for {
			if _, err := sender.Write(chunk); err != nil {
				return proto.EncodeFailed(err)
			}
		}
	})
	n := 0
	for _, err := range c.List(t.Context(), "d") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 100_000 {
			break // the guest is told to stop
		}
	}
	for start := time.Now(); m.Streams() > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatal("the guest goes on with a list that nobody wants")
		}
	}
}

func TestListKeepsWhatCameBeforeItFailed(t *testing.T) {
	failure := proto.EncodeFailed(&execution.Error{Op: "list", Path: "elsewhere", Err: execution.ErrPermission})
	c, _ := dial(t, Options{}, begin(0, entries("a", "b"), failure))
	var names []string
	var last error
	for info, err := range c.List(t.Context(), "d") {
		if err != nil {
			last = err
			continue
		}
		names = append(names, info.Name)
	}
	if strings.Join(names, " ") != "a b" || !errors.Is(last, execution.ErrPermission) || !strings.Contains(last.Error(), `list: docker box: "d"`) {
		t.Errorf("got %q and %v", names, last)
	}
	if c.Err() != nil {
		t.Errorf("the client ended: %v", c.Err())
	}
}

func TestWriterThatFailsEndsTheCommand(t *testing.T) {
	cancelled := status(execution.ExitStatus{Ending: execution.EndingCancelled, Code: -1})
	c, _ := dial(t, Options{}, func(ctx context.Context, s *wire.Stream, _ *proto.Call) []byte {
		_ = s.Begin(nil)
		send(s, 1, []byte("x"))
		<-ctx.Done()
		return cancelled
	})
	for name, cmd := range map[string]execution.Command{
		"writer": {Shell: "x", Stdout: writer(func([]byte) (int, error) { return 0, errTest })},
		"stdin":  {Shell: "x", Stdin: io.MultiReader(strings.NewReader("x"), failing{}), Stdout: io.Discard},
	} {
		p, err := c.Start(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Wait(t.Context())
		if s.Ending != execution.EndingCancelled || !errors.Is(err, errTest) {
			t.Errorf("%s: Wait = %+v, %v", name, s, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errTest }

func TestReaderThatFailsLeavesNoFile(t *testing.T) {
	kept := make(chan error, 1)
	c, _ := dial(t, Options{}, func(_ context.Context, s *wire.Stream, _ *proto.Call) []byte {
		for {
			p, err := s.Peek(0)
			if err != nil {
				kept <- err // anything but io.EOF means that it is not to be kept
				return proto.EncodeFailed(err)
			}
			s.Advance(0, len(p))
		}
	})
	err := c.WriteFile(t.Context(), "f", io.MultiReader(strings.NewReader("half"), failing{}), execution.WriteOptions{})
	if !errors.Is(err, errTest) {
		t.Errorf("WriteFile: %v", err)
	}
	if err := <-kept; errors.Is(err, io.EOF) {
		t.Error("half a file was taken for a whole one")
	}
}

func TestWriteFileReturnsAlthoughItsReaderBlocks(t *testing.T) {
	c, _ := dial(t, Options{}, answer(proto.EncodeFailed(execution.ErrNoSpace)))
	r, w := io.Pipe()
	defer w.Close()
	if err := c.WriteFile(t.Context(), "f", r, execution.WriteOptions{}); !errors.Is(err, execution.ErrNoSpace) {
		t.Errorf("WriteFile: %v", err)
	}
}

func TestFileClosedEarlyStopsTheTransfer(t *testing.T) {
	stopped := make(chan error, 1)
	c, m := dial(t, Options{}, func(_ context.Context, s *wire.Stream, _ *proto.Call) []byte {
		_ = s.Begin(nil)
		sender := s.Sender(0)
		defer sender.Close()
		_, err := sender.ReadFrom(zeros{})
		stopped <- err
		return proto.EncodeFailed(err)
	})
	f, err := c.OpenFile(t.Context(), "f", execution.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(f, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, f); blocked <- err }()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, execution.ErrClosed) {
		t.Errorf("a Read under way: %v", err)
	}
	if err := <-stopped; !errors.Is(err, wire.ErrCancelled) {
		t.Errorf("the guest stopped with %v", err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	for m.Streams() > 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestSignalAndResizeAreRefusedWhereTheyMakeNoSense(t *testing.T) {
	c, _ := dial(t, Options{}, begin(1, nil, status(execution.ExitStatus{Ending: execution.EndingExited})))
	p, err := c.Start(t.Context(), execution.Command{Shell: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), 65); !errors.Is(err, execution.ErrInvalid) {
		t.Errorf("an unknown signal: %v", err)
	}
	if err := p.(execution.Resizer).Resize(t.Context(), execution.TerminalSize{}); !errors.Is(err, execution.ErrInvalid) {
		t.Errorf("resizing without a terminal: %v", err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), execution.SIGTERM); !errors.Is(err, execution.ErrFinished) {
		t.Errorf("a signal after the end: %v", err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestGuestThatDoesNotKeepTheTimeLosesTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := dial(t, Options{}, func(ctx context.Context, s *wire.Stream, call *proto.Call) []byte {
			if call.Method == proto.MethodStart {
				return begunNever(ctx, s, call)
			}
			return proto.EncodeInfo(execution.FileInfo{Name: "f"})
		})
		p, err := c.Start(t.Context(), execution.Command{Shell: "x", Timeout: time.Minute, Grace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		status, err := p.Wait(t.Context())
		if status.Ending != execution.EndingLost || !errors.Is(err, execution.ErrLost) {
			t.Errorf("Wait = %+v, %v", status, err)
		}
		if took := time.Since(start); took != time.Minute+time.Second+overdue {
			t.Errorf("given up after %v", took)
		}
		if _, err := c.Stat(t.Context(), "f"); err != nil {
			t.Errorf("the others suffer from it: %v", err)
		}
		_ = c.Close()
		m.Close(io.ErrClosedPipe)
	})
}

func TestSlowWriterIsNotTakenForGuestThatDoesNotKeepTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timedOut := status(execution.ExitStatus{Ending: execution.EndingTimedOut, Code: -1, Signal: 15})
		c, m := dial(t, Options{}, begin(1, []byte("x"), timedOut))
		p, err := c.Start(t.Context(), execution.Command{Shell: "x", Timeout: time.Second, Stdout: writer(func(b []byte) (int, error) {
			time.Sleep(time.Hour)
			return len(b), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := p.Wait(t.Context()); err != nil || status.Ending != execution.EndingTimedOut || status.StdoutBytes != 1 {
			t.Errorf("Wait = %+v, %v", status, err)
		}
		_ = c.Close()
		m.Close(io.ErrClosedPipe)
	})
}
