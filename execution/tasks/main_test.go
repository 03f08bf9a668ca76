package tasks

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a command that the test itself plays.
type script struct {
	cmd     execution.Command
	done    chan struct{}
	once    sync.Once
	status  execution.ExitStatus
	err     error
	mu      sync.Mutex
	killed  int
	signals []execution.Signal
}

func (s *script) Wait(ctx context.Context) (execution.ExitStatus, error) {
	select {
	case <-s.done:
		return s.status, s.err
	case <-ctx.Done():
		return execution.ExitStatus{Code: -1}, ctx.Err()
	}
}

func (s *script) Signal(_ context.Context, sig execution.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, sig)
	return nil
}

func (s *script) Kill(context.Context) error {
	s.mu.Lock()
	s.killed++
	s.mu.Unlock()
	s.end(execution.ExitStatus{Ending: execution.EndingCancelled, Code: -1})
	return nil
}

func (s *script) end(status execution.ExitStatus) {
	s.once.Do(func() {
		s.status = status
		close(s.done)
	})
}

func (s *script) exit(code int) {
	s.end(execution.ExitStatus{Ending: execution.EndingExited, Code: code})
}

// say writes to stdout; an error ends the script as a backend would.
func (s *script) say(text string) {
	if _, err := io.WriteString(s.cmd.Stdout, text); err != nil {
		s.once.Do(func() {
			s.status = execution.ExitStatus{Ending: execution.EndingCancelled, Code: -1, Reason: "its output could not be handed on"}
			s.err = err
			close(s.done)
		})
	}
}

// A stage has a registry whose commands are scripts.
type stage struct {
	*Registry
	mu      sync.Mutex
	scripts []*script
}

func newStage(tb testing.TB, opts Options) *stage {
	tb.Helper()
	s := &stage{}
	s.Registry = New(s.begin, opts)
	tb.Cleanup(func() { s.End(execution.ErrClosed) })
	return s
}

func (s *stage) begin(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cmd.Shell == "missing" {
		return nil, fmt.Errorf("%w: %s", execution.ErrCommandNotFound, cmd.Shell)
	}
	p := &script{cmd: cmd, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, p)
	return p, nil
}

// task starts one, and tells what plays it.
func (s *stage) task(tb testing.TB, keep int64) (execution.Task, *script) {
	tb.Helper()
	t, err := s.StartTask(tb.Context(), execution.Command{Shell: "play"}, execution.TaskOptions{Keep: keep})
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t, s.scripts[len(s.scripts)-1]
}

func wait(tb testing.TB, t execution.Task) execution.TaskInfo {
	tb.Helper()
	info, err := t.Wait(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

func output(tb testing.TB, t execution.Task, opts execution.OutputOptions) string {
	tb.Helper()
	r, err := t.OpenOutput(tb.Context(), execution.Stdout, opts)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
