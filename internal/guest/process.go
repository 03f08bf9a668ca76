package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// Channels of a process's output.
const (
	stdoutChannel = 1
	stderrChannel = 2
)

// Start starts a command; see [execution.Handle]. The process is also an
// [execution.Resizer].
func (c *Client) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	const op = "start"
	if err := cmd.Validate(); err != nil {
		return nil, c.wrap(op, "", err)
	}
	p := &process{
		client: c, number: c.processes.Add(1), cmd: cmd, started: time.Now(), done: make(chan struct{}),
	}
	opts := wire.OpenOptions{Ended: p.ended}
	if cmd.Stdout != nil {
		opts.Sinks[stdoutChannel] = func(b []byte) error { return p.output(b, cmd.Stdout, &p.stdout) }
	}
	if cmd.Stderr != nil {
		opts.Sinks[stderrChannel] = func(b []byte) error { return p.output(b, cmd.Stderr, &p.stderr) }
	}
	call := &proto.Call{Method: proto.MethodStart, Process: p.number, Command: proto.Command{
		Command: cmd, HasStdin: cmd.Stdin != nil, HasStdout: cmd.Stdout != nil, HasStderr: cmd.Stderr != nil,
	}}
	s, err := c.mux.Open(ctx, call.Encode(), opts)
	if err != nil {
		return nil, c.wrap(op, "", err)
	}
	_, ok, err := s.Acked(ctx)
	if err != nil {
		<-p.done // no writer of the caller's is in use any more
		return nil, c.wrap(op, "", err)
	}
	if !ok {
		return nil, c.refused(op, s)
	}
	p.guard(s)
	if cmd.Stdin != nil {
		// It may outlive the command by one Read, which nothing can interrupt.
		go p.feed(s)
	}
	return p, nil
}

// overdue is how long a guest may take to end a command whose time and grace
// have run out.
const overdue = 30 * time.Second

// guard gives up on a command that its guest does not end in time. Only the
// guest keeps the time; but it may have been taken over, or what it has to kill
// may hang in the kernel.
func (p *process) guard(s *wire.Stream) {
	if p.cmd.Timeout <= 0 {
		return
	}
	grace := p.cmd.Grace
	if grace == 0 {
		grace = execution.DefaultGrace
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = time.AfterFunc(p.cmd.Timeout+max(grace, 0)+overdue, func() {
		if p.client.paused.Load() || s.Busy() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.late != nil {
				p.late.Reset(overdue) // the guest, or the caller's writer, is still to have its turn
			}
			return
		}
		s.Abandon(fmt.Errorf("%w: the command did not end within %v of its time limit", execution.ErrLost, overdue))
	})
}

// refused is why a command was not started.
func (c *Client) refused(op string, s *wire.Stream) error {
	result, err := s.Result()
	if err != nil {
		return c.wrap(op, "", err)
	}
	_, _, failure, err := proto.DecodeStatus(result)
	switch {
	case err == nil && failure == nil:
		err = wire.Violation("command ended before it was started")
	case failure != nil:
		failure.Op = op
		return failure.Err(c.backend, c.handle)
	}
	return c.outcome(op, "", failure, err)
}

// A process is a command that was started.
type process struct {
	client  *Client
	number  uint64
	cmd     execution.Command
	started time.Time

	stdout, stderr atomic.Int64 // bytes that the writers got

	mu       sync.Mutex
	localErr error       // of a writer or the stdin reader, the first one
	broken   error       // what the guest did that it may not
	late     *time.Timer // gives up on it; nil once it has ended

	done   chan struct{} // closed when the following are final
	status execution.ExitStatus
	err    error
}

// output hands bytes to one of the command's writers.
func (p *process) output(b []byte, w io.Writer, count *atomic.Int64) error {
	if limit := p.cmd.OutputLimit; limit > 0 && p.stdout.Load()+p.stderr.Load()+int64(len(b)) > limit {
		err := p.client.broken(wire.Violation("output beyond its limit"))
		p.mu.Lock()
		p.broken = err
		p.mu.Unlock()
		return err
	}
	n, err := w.Write(b)
	count.Add(int64(max(0, min(n, len(b)))))
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		p.fault(err)
	}
	return err
}

// fault keeps the first error of the caller's own streams.
func (p *process) fault(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.localErr == nil {
		p.localErr = err
	}
}

// feed is the command's standard input.
func (p *process) feed(s *wire.Stream) {
	if err := feed(s, p.cmd.Stdin); isRead(err) {
		p.fault(err) // before the guest can answer
		s.Cancel()
	}
}

// ended takes the stream's end, whatever it was. All output has been handed
// over.
func (p *process) ended(begun bool, result []byte, err error) {
	defer close(p.done)
	const op = "wait"
	p.mu.Lock()
	localErr, broken := p.localErr, p.broken
	if p.late != nil {
		p.late.Stop()
		p.late = nil
	}
	p.mu.Unlock()
	var failed *proto.Failure
	if err == nil {
		if err = broken; err == nil {
			failed, err = p.conclude(begun, result)
		}
	}
	if err != nil {
		p.status = execution.ExitStatus{
			Ending: execution.EndingLost, Code: -1, Reason: err.Error(), Duration: time.Since(p.started),
		}
	}
	p.status.StdoutBytes, p.status.StderrBytes = p.stdout.Load(), p.stderr.Load()
	switch {
	case localErr != nil:
		p.err = p.client.wrap(op, "", errors.Join(localErr, err))
	case err != nil:
		p.err = p.client.wrap(op, "", err)
	case failed != nil:
		failed.Op = op
		p.err = failed.Err(p.client.backend, p.client.handle)
	}
}

// conclude takes over the status that the guest tells, and the error of its
// own Wait.
func (p *process) conclude(begun bool, result []byte) (*proto.Failure, error) {
	status, failed, refused, err := proto.DecodeStatus(result)
	switch {
	case refused != nil && !begun:
		return refused, nil // Start tells why
	case refused != nil:
		err = wire.Violation("command refused after it was started")
	case err == nil:
		err = p.plausible(status)
	}
	if err != nil {
		return nil, p.client.broken(err)
	}
	p.status = status
	return failed, nil
}

// plausible checks that a status is one that this command can have.
func (p *process) plausible(s execution.ExitStatus) error {
	switch {
	case s.Ending == execution.EndingTimedOut && p.cmd.Timeout == 0,
		s.Ending == execution.EndingOutputLimit && p.cmd.OutputLimit == 0:
		return wire.Violation("a command without that limit ended as %s", s.Ending)
	}
	return nil
}

// Wait implements execution.Process.
func (p *process) Wait(ctx context.Context) (execution.ExitStatus, error) {
	select {
	case <-p.done:
		return p.status, p.err
	default:
	}
	select {
	case <-p.done:
		return p.status, p.err
	case <-ctx.Done():
		return execution.ExitStatus{Code: -1}, fmt.Errorf("wait: %w", context.Cause(ctx))
	}
}

// isOver reports whether the command has ended.
func (p *process) isOver() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal implements execution.Process.
func (p *process) Signal(ctx context.Context, sig execution.Signal) error {
	const op = "signal"
	switch {
	case !sig.Valid():
		return p.client.wrap(op, "", fmt.Errorf("%w: %v", execution.ErrInvalid, sig))
	case p.isOver():
		return p.client.wrap(op, "", p.over())
	}
	return p.client.do(ctx, op, &proto.Call{Method: proto.MethodSignal, Process: p.number, Signal: sig})
}

// over is why something cannot be done to a command that has ended.
func (p *process) over() error {
	if err := p.client.mux.Err(); err != nil {
		return err
	}
	return execution.ErrFinished
}

// Resize implements execution.Resizer.
func (p *process) Resize(ctx context.Context, size execution.TerminalSize) error {
	const op = "resize"
	switch {
	case p.cmd.TTY == nil:
		return p.client.wrap(op, "", fmt.Errorf("%w: the command has no terminal", execution.ErrInvalid))
	case p.isOver():
		return p.client.wrap(op, "", p.over())
	}
	return p.client.do(ctx, op, &proto.Call{Method: proto.MethodResize, Process: p.number, Size: size})
}

// Kill implements execution.Process.
func (p *process) Kill(ctx context.Context) error {
	if p.isOver() && p.status.Ending != execution.EndingLost && len(p.status.Leftovers) == 0 {
		return nil
	}
	return p.client.do(ctx, "kill", &proto.Call{Method: proto.MethodKill, Process: p.number})
}
