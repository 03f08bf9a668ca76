//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// finish starts a command and waits for its end.
func finish(t *testing.T, h execution.Handle, cmd execution.Command) (execution.ExitStatus, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	p, err := h.Start(ctx, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p.Wait(ctx)
}

// A splicer takes output by splice(2), as the guest does.
type splicer struct {
	t      *testing.T
	pipe   [2]int
	got    bytes.Buffer
	calls  int
	refuse error // after the first call
}

func newSplicer(t *testing.T) *splicer {
	t.Helper()
	s := &splicer{t: t}
	if err := unix.Pipe2(s.pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Close(s.pipe[0])
		_ = unix.Close(s.pipe[1])
	})
	return s
}

func (s *splicer) Write([]byte) (int, error) {
	s.t.Error("a writer that can read by itself is written to")
	return 0, io.ErrClosedPipe
}

func (s *splicer) ReadFrom(r io.Reader) (total int64, err error) {
	if s.calls++; s.calls > 1 && s.refuse != nil {
		return 0, s.refuse
	}
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, fmt.Errorf("got a %T", r)
	}
	pipe, ok := limited.R.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("got a %T within", limited.R)
	}
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	for limited.N > 0 {
		var n int64
		var spliceErr error
		err := conn.Read(func(fd uintptr) bool {
			n, spliceErr = unix.Splice(int(fd), nil, s.pipe[1], nil, int(min(limited.N, 4096)), 0)
			return !errors.Is(spliceErr, unix.EAGAIN)
		})
		if err = errors.Join(err, spliceErr); err != nil {
			return total, err
		}
		buffer := make([]byte, n)
		if _, err := unix.Read(s.pipe[0], buffer); err != nil {
			return total, err
		}
		s.got.Write(buffer)
		limited.N -= n
		total += n
	}
	return total, nil
}

func TestWriterGetsThePipeItself(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	stdout, stderr := newSplicer(t), newSplicer(t)
	status, err := finish(t, h, execution.Command{Shell: "seq 200000; seq 300 >&2", Stdout: stdout, Stderr: stderr})
	want := run(t, h, "seq 200000 | cksum")
	if err != nil || !status.Success() {
		t.Fatal(status, err)
	}
	if status.StdoutBytes != int64(stdout.got.Len()) || status.StderrBytes != int64(stderr.got.Len()) {
		t.Errorf("counted %d and %d bytes, handed on %d and %d",
			status.StdoutBytes, status.StderrBytes, stdout.got.Len(), stderr.got.Len())
	}
	r, err := execution.Exec(t.Context(), h, execution.Command{Shell: "cksum", Stdin: &stdout.got})
	if err != nil || !bytes.Equal(r.Stdout, want.Stdout) {
		t.Errorf("checksum %q, want %q (%v)", r.Stdout, want.Stdout, err)
	}
}

func TestLimitHoldsForWriterWithPipe(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	for _, limit := range []int64{1, 100, 65_536, 1_000_003} {
		stdout, stderr := newSplicer(t), newSplicer(t)
		status, err := finish(t, h, execution.Command{
			Shell: "yes & yes >&2", Stdout: stdout, Stderr: stderr, OutputLimit: limit,
		})
		if err != nil || status.Ending != execution.EndingOutputLimit {
			t.Errorf("limit %d: %+v, %v", limit, status, err)
		}
		if got := int64(stdout.got.Len() + stderr.got.Len()); got != limit || status.StdoutBytes+status.StderrBytes != limit {
			t.Errorf("limit %d: %d bytes came, %d were counted", limit, got, status.StdoutBytes+status.StderrBytes)
		}
	}
}

// A command can read the pipe that it writes to. What it takes back is not
// waited for, however its output is taken: a leftover that holds the pipe would
// keep the call from returning.
func TestOutputThatIsTakenBack(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	leave := execution.Command{Shell: "printf x; sleep 600 & exit 3"}
	thief := &takeBack{splicer: newSplicer(t)}
	for name, w := range map[string]io.Writer{
		"read": takenBack{thief}, "spliced": thief,
	} {
		cmd := leave
		cmd.Stdout = w
		status, err := finish(t, h, cmd)
		if err != nil || status.Code != 3 || len(status.Leftovers) != 1 || status.StdoutBytes != 0 {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}

// A takeBack empties the pipe, as the command could, before it reads from it.
type takeBack struct{ *splicer }

func (b *takeBack) ReadFrom(r io.Reader) (int64, error) {
	b.empty(r)
	n, err := b.splicer.ReadFrom(r)
	if errors.Is(err, io.EOF) { // what a pipe says that has nothing
		err = nil
	}
	return n, err
}

func (b *takeBack) empty(r io.Reader) {
	conn, err := r.(*io.LimitedReader).R.(syscall.Conn).SyscallConn()
	if err != nil {
		b.t.Error(err)
		return
	}
	err = conn.Control(func(fd uintptr) {
		if n, err := unix.Read(int(fd), make([]byte, 4096)); n <= 0 {
			b.t.Errorf("nothing to take back: %d, %v", n, err)
		}
	})
	if err != nil {
		b.t.Error(err)
	}
}

// takenBack reads what a takeBack has emptied.
type takenBack struct{ *takeBack }

func (b takenBack) ReadFrom(r io.Reader) (int64, error) {
	b.empty(r)
	return b.got.ReadFrom(r)
}

func TestFailingWriterWithPipe(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	stdout := newSplicer(t)
	stdout.refuse = io.ErrNoProgress
	status, err := finish(t, h, execution.Command{Shell: "yes", Stdout: stdout})
	if !errors.Is(err, io.ErrNoProgress) || status.Ending != execution.EndingCancelled {
		t.Errorf("%+v, %v", status, err)
	}
}

// A slow writer gets all of what a leader wrote that has long ended.
func TestOutputInThePipeWhenTheLeaderEnds(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	var got bytes.Buffer
	first := true
	status, err := finish(t, h, execution.Command{
		Shell: "seq 12000 && exit 5", // 60,894 bytes: they fit into a pipe
		Stdout: writerFunc(func(p []byte) (int, error) {
			if first {
				time.Sleep(graceLimit + graceQuiet)
				first = false
			}
			return got.Write(p)
		}),
	})
	if err != nil || status.Code != 5 {
		t.Fatalf("%+v, %v", status, err)
	}
	if got.Len() != 60_894 || !strings.HasSuffix(got.String(), "\n12000\n") {
		t.Errorf("got %d bytes, ending with %q", got.Len(), got.String()[max(0, got.Len()-10):])
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Leftovers that write for ever are cut off, and not held up.
func TestLeftoversThatWrite(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	var got int64
	p, err := h.Start(t.Context(), execution.Command{
		Shell:  `while :; do echo beat; echo beat >&3; sleep 0.01; done 3>beats & echo "$(printf 'a\033b')"; exit 4`,
		Stdout: writerFunc(func(p []byte) (int, error) { got += int64(len(p)); return len(p), nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	status, err := p.Wait(ctx)
	if err != nil || status.Code != 4 || len(status.Leftovers) == 0 || status.StdoutBytes != got {
		t.Fatalf("%+v, %v; got %d bytes", status, err, got)
	}
	for _, l := range status.Leftovers {
		if l.PID <= 0 || strings.ContainsRune(l.Command, '\033') || len(l.Command) > commandLimit {
			t.Errorf("leftover %+v", l)
		}
	}
	size := func() int64 {
		info, err := h.Stat(ctx, "beats")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size
	}
	before := size()
	eventually(t, "it goes on", func() bool { return size() > before+200 })
	if err := p.Kill(ctx); err != nil {
		t.Error(err)
	}
}

func TestStdinThatIsNeverRead(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	for name, line := range map[string]string{"not read": "exit 3", "closed": "exec <&-; exit 3", "read a little": "head -c 10; exit 3"} {
		for kind, reader := range map[string]io.Reader{
			"plain": io.LimitReader(zeros{}, 100<<20), "writes by itself": bytes.NewReader(make([]byte, 10<<20)),
		} {
			status, err := finish(t, h, execution.Command{Shell: line, Stdin: reader})
			if err != nil || status.Code != 3 {
				t.Errorf("%s, %s: %+v, %v", name, kind, status, err)
			}
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStdinThatFails(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	for kind, reader := range map[string]io.Reader{
		"plain": io.MultiReader(strings.NewReader("x"), failing{}), "writes by itself": failing{},
	} {
		status, err := finish(t, h, execution.Command{Shell: "cat; sleep 1000", Stdin: reader})
		if !errors.Is(err, io.ErrNoProgress) || status.Ending != execution.EndingCancelled {
			t.Errorf("%s: %+v, %v", kind, status, err)
		}
	}
}

// A reader's own error is not taken for that of the pipe, though it is of the
// same kind.
func TestStdinThatIsClosedFromTheStart(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for kind, reader := range map[string]io.Reader{"plain": io.MultiReader(file), "writes by itself": closedReader{file}} {
		status, err := finish(t, h, execution.Command{Shell: "cat; sleep 1000", Stdin: reader})
		if !errors.Is(err, os.ErrClosed) || status.Ending != execution.EndingCancelled {
			t.Errorf("%s: %+v, %v", kind, status, err)
		}
	}
}

// A closedReader hides that its file could be spliced from.
type closedReader struct{ *os.File }

func (r closedReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r.File})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

func (failing) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write([]byte("before"))
	return int64(n), errors.Join(err, io.ErrNoProgress)
}

// TestDestroyWithAStuckWriter has a writer that does not return. It cannot be
// made to, and must not hold up what matters.
func TestDestroyWithAStuckWriter(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	text := mark(t)
	release, reached := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p, err := h.Start(t.Context(), execution.Command{
		Shell:  "echo hi; exec sleep " + text,
		Stdout: writerFunc(func(p []byte) (int, error) { once.Do(func() { close(reached) }); <-release; return len(p), nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if alive := withMark(text); len(alive) > 0 {
		t.Errorf("alive after Destroy: %v", alive)
	}
	close(release)
	if status, err := p.Wait(t.Context()); err != nil || status.Ending != execution.EndingCancelled {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestLongArguments(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	const longest = 128 << 10 // of one argument, with its NUL
	for _, row := range []struct {
		arg, args int
		want      error
	}{
		{longest, 1, nil},
		{longest + 1, 1, execution.ErrInvalid},
		{1000, 1000, nil},
		{100_000, 60, execution.ErrInvalid},   // 6 MB: more than any stack limit lets the kernel take
		{100_000, 1000, execution.ErrInvalid}, // 100 MB
	} {
		args := []string{"/bin/sh", "-c", `printf %s "$*" | wc -c`, "sh"}
		for range row.args {
			args = append(args, strings.Repeat("x", row.arg-1))
		}
		r, err := execution.Exec(t.Context(), h, execution.Command{Args: args})
		if !errors.Is(err, row.want) {
			t.Errorf("%d arguments of %d bytes: %v", row.args, row.arg, err)
		}
		if want := fmt.Sprintln(row.args*row.arg - 1); row.want == nil && strings.TrimSpace(string(r.Stdout)) != strings.TrimSpace(want) {
			t.Errorf("%d arguments of %d bytes: %s arrived, want %s", row.args, row.arg, r.Stdout, want)
		}
	}
	value := strings.Repeat("v", 100_000)
	r, err := execution.Exec(t.Context(), h, execution.Command{Shell: "echo ${#LONG}", Env: []string{"LONG=" + value}})
	if err != nil || string(r.Stdout) != "100000\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

func TestTerminalJobControl(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	in, keyboard := io.Pipe()
	var screen bytes.Buffer
	var mu sync.Mutex
	shows := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(screen.String(), text)
	}
	p, err := h.Start(t.Context(), execution.Command{
		Args: []string{"bash", "--norc", "-i"}, Env: []string{"PS1=prompt> ", "TERM=dumb"},
		Stdin: in, TTY: &execution.TerminalSize{Rows: 30, Cols: 90},
		Stdout: writerFunc(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return screen.Write(p) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	step := func(typed, shown string) {
		t.Helper()
		if _, err := io.WriteString(keyboard, typed); err != nil {
			t.Fatal(err)
		}
		eventually(t, shown, func() bool { return shows(shown) })
	}
	// It is in the foreground by the time it has become the program.
	sleeps := func() bool {
		infos := describe(descendants(p.(terminalProc).tree.leader()))
		return len(infos) == 1 && infos[0].Command == "sleep 1000"
	}
	step("", "prompt> ")
	step("sleep 1000\n", "sleep 1000")
	eventually(t, "sleep runs", sleeps)
	step("\x1a", "Stopped")
	step("kill %1; wait %1; echo a$((1+1))b\n", "a2b")
	step("sleep 1000; echo c$((2+2))d\n", "sleep 1000; echo")
	eventually(t, "sleep runs", sleeps)
	step("\x03", "^C")
	eventually(t, "a prompt", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.HasSuffix(screen.String(), "prompt> ")
	})
	step("echo e$(stty size)f; exit 7\n", "e30 90f")
	status, err := p.Wait(t.Context())
	if err != nil || status.Code != 7 || shows("no job control") {
		t.Errorf("%+v, %v", status, err)
	}
	_ = keyboard.Close()
}

// A lateReader reads for itself, but not before it may.
type lateReader struct {
	bytes.Buffer

	may chan struct{}
}

func (l *lateReader) ReadFrom(r io.Reader) (int64, error) {
	<-l.may
	return l.Buffer.ReadFrom(r)
}

// Whoever reads from the pipe does not run into the deadline by which the
// stream learns that the leader has ended.
func TestWriterThatReadsWhenTheLeaderHasEnded(t *testing.T) {
	h := spawn(t, newTestContext(t, Options{}))
	stdout := &lateReader{may: make(chan struct{})}
	started, err := h.Start(t.Context(), execution.Command{Shell: "echo text; exit 3", Stdout: stdout})
	if err != nil {
		t.Fatal(err)
	}
	s := started.(*proc).plumb.stdout
	eventually(t, "the stream knows of the end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ending
	})
	close(stdout.may)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	status, err := started.Wait(ctx)
	if err != nil || status.Code != 3 || stdout.String() != "text\n" {
		t.Errorf("%+v, %v, got %q", status, err, stdout.String())
	}
}

// What is in a pipe is not lost when this program was held up beyond the time
// that it waits: the time is for those who have written nothing yet.
func TestOutputThatIsLookedAtLate(t *testing.T) {
	c := newTestContext(t, Options{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := newStream(c, r, nil, &budget{})
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if n, err := s.readyBy(past); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an empty pipe: %d, %v", n, err)
	}
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.readyBy(past); n != 4 || err != nil {
		t.Errorf("a pipe with 4 bytes: %d, %v", n, err)
	}
	if n, err := s.in.Read(make([]byte, 10)); n != 4 || err != nil {
		t.Errorf("reading them: %d, %v", n, err)
	}
	_ = w.Close()
	if n, err := s.readyBy(past); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a pipe that has ended: %d, %v", n, err)
	}
}
