package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// Channels of a process's output.
const (
	stdoutChannel = 1
	stderrChannel = 2
)

// start runs a command to its end.
func (one *session) start(ctx context.Context, st *wire.Stream, call *proto.Call) []byte {
	cmd := call.Command.Command
	begun := make(chan struct{})
	if call.Command.HasStdin {
		cmd.Stdin = &input{st}
	}
	if call.Command.HasStdout {
		out := &output{sender: st.Sender(stdoutChannel), begun: begun}
		defer out.sender.Close()
		cmd.Stdout = out
	}
	if call.Command.HasStderr {
		out := &output{sender: st.Sender(stderrChannel), begun: begun}
		defer out.sender.Close()
		cmd.Stderr = out
	}
	proc, err := one.server.handle.Start(ctx, cmd)
	if err != nil {
		close(begun)
		return proto.EncodeFailed(err)
	}
	one.remember(call.Process, proc)
	if err := st.Begin(nil); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
		defer cancel()
		_ = proc.Kill(cleanup) // nobody is left to be told
	}
	close(begun)
	status, err := wait(ctx, proc)
	if len(status.Leftovers) == 0 {
		one.forget(call.Process)
	}
	return proto.EncodeStatus(status, err)
}

// wait waits for the end of proc, and makes it come when the host cancels.
func wait(ctx context.Context, proc execution.Process) (execution.ExitStatus, error) {
	status, err := proc.Wait(ctx)
	if ctx.Err() == nil || status.Ending != "" {
		return status, err
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
	defer cancel()
	killErr := proc.Kill(cleanup)
	status, err = proc.Wait(cleanup)
	if status.Ending == "" {
		err = errors.Join(killErr, err)
		status = execution.ExitStatus{Ending: execution.EndingLost, Code: -1, Reason: err.Error()}
	}
	return status, err
}

// remember keeps a process so that it can be killed. Those kept for leftovers
// that have ended meanwhile are forgotten.
func (one *session) remember(number uint64, proc execution.Process) {
	one.mu.Lock()
	defer one.mu.Unlock()
	for old, proc := range one.processes {
		if kept, ok := proc.(interface{ Gone() bool }); ok && kept.Gone() {
			delete(one.processes, old)
		}
	}
	one.processes[number] = proc
}

func (one *session) forget(number uint64) {
	one.mu.Lock()
	defer one.mu.Unlock()
	delete(one.processes, number)
}

// control does something to a process that was started.
func (one *session) control(ctx context.Context, call *proto.Call) error {
	one.mu.Lock()
	proc := one.processes[call.Process]
	one.mu.Unlock()
	switch call.Method {
	case proto.MethodKill:
		if proc == nil {
			return nil // ended, and left nothing behind
		}
		// The host may stop waiting; the kill goes on.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
		defer cancel()
		return proc.Kill(cleanup)
	case proto.MethodResize:
		if proc == nil {
			return execution.ErrFinished
		}
		if r, ok := proc.(execution.Resizer); ok {
			return r.Resize(ctx, call.Size)
		}
		return fmt.Errorf("%w: resizing", execution.ErrUnsupported)
	default:
		if proc == nil {
			return execution.ErrFinished
		}
		return proc.Signal(ctx, call.Signal)
	}
}

// An output carries one of a command's streams to the host. Once the host has
// cancelled the command nobody wants its output, and it is dropped.
type output struct {
	sender *wire.Sender
	begun  <-chan struct{} // closed when the host has been told that it runs: output comes after that
}

func (o *output) Write(p []byte) (int, error) {
	<-o.begun
	n, err := o.sender.Write(p)
	if errors.Is(err, wire.ErrCancelled) {
		return len(p), nil
	}
	return n, err
}

// ReadFrom lets bytes go from a pipe to the stream without being copied. Errors
// of r's are not reported: whoever reads it will see them again.
func (o *output) ReadFrom(r io.Reader) (int64, error) {
	<-o.begun
	n, err := o.sender.ReadFrom(r)
	if _, ok := errors.AsType[*wire.ReadError](err); ok {
		return n, nil
	}
	if errors.Is(err, wire.ErrCancelled) {
		rest, _ := io.Copy(io.Discard, r) // as above
		return n + rest, nil
	}
	return n, err
}

// An input is what the host sends on a stream.
type input struct{ stream *wire.Stream }

func (i *input) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p, err := i.stream.Peek(0)
	if err != nil {
		return 0, err
	}
	n := copy(b, p)
	i.stream.Advance(0, n)
	return n, nil
}

// WriteTo saves io.Copy a buffer and a copy.
func (i *input) WriteTo(w io.Writer) (total int64, err error) {
	for {
		p, err := i.stream.Peek(0)
		if err == io.EOF { //nolint:errorlint // as Peek returns it
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(p)
		i.stream.Advance(0, n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}
