//go:build unix

package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// How long output is collected once a leader has ended and others still hold
// its streams: until they have been silent for graceQuiet, and no longer than
// graceLimit in all. What the leader itself wrote is handed on in any case.
const (
	graceQuiet = 100 * time.Millisecond
	graceLimit = time.Second
)

// writerGrace is how long Destroy waits for the caller's writers and readers to
// return once all processes are dead.
const writerGrace = 2 * time.Second

// A proc is a command that was started. It is an [execution.Process].
type proc struct {
	h       *handle
	cmd     execution.Command
	tree    tree // set once started
	began   time.Time
	timer   *time.Timer // nil without Timeout
	plumb   *plumbing
	oomMark int64 // of the memory control group's counter, at the start

	done   chan struct{} // the status is final
	killed chan struct{} // killing has come to its end
	gone   chan struct{} // nothing is left: no process, no descriptor, no goroutine of ours
	forced chan struct{} // closed when there is no more time to be polite

	status execution.ExitStatus
	err    error

	mu       sync.Mutex
	started  bool
	ended    bool // the leader has
	finished bool // nothing may be begun any more
	isForced bool
	killing  bool
	cause    execution.Ending // why it was killed; "" when it was not
	reason   string
	causeErr error
	killer   sync.WaitGroup
}

func newProc(h *handle, cmd execution.Command) *proc {
	return &proc{
		h: h, cmd: cmd,
		done: make(chan struct{}), killed: make(chan struct{}),
		gone: make(chan struct{}), forced: make(chan struct{}),
	}
}

// Wait waits for the end; see [execution.Process].
func (p *proc) Wait(ctx context.Context) (execution.ExitStatus, error) {
	select {
	case <-p.done:
		return p.status, p.err
	default:
	}
	select {
	case <-p.done:
		return p.status, p.err
	case <-ctx.Done():
		return execution.ExitStatus{Code: -1}, ctx.Err()
	}
}

// Gone reports whether nothing is left of the command, its leftovers included.
// Who keeps a process for their sake can let go of it then.
func (p *proc) Gone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Signal signals the command's process group; see [execution.Process].
func (p *proc) Signal(ctx context.Context, sig execution.Signal) error {
	const op = "signal"
	if err := ctx.Err(); err != nil {
		return p.h.failure(op, "", err)
	}
	if !sig.Valid() {
		return p.h.failure(op, "", fmt.Errorf("%w: signal %d: want 1 to 64", execution.ErrInvalid, int(sig)))
	}
	if err := p.tree.signal(sig); err != nil {
		return p.h.failure(op, "", mapError(err))
	}
	return nil
}

// Kill kills the command with all that descends from it; see
// [execution.Process]. When ctx ends first, killing goes on.
func (p *proc) Kill(ctx context.Context) error {
	const op = "kill"
	p.end(execution.EndingCancelled, "", nil)
	select {
	case <-p.tree.drained():
	case <-ctx.Done():
		return p.h.failure(op, "", ctx.Err())
	}
	if res := p.tree.result(); res.untraced {
		return p.h.failure(op, "", fmt.Errorf("%w: %s", execution.ErrLost, res.reason))
	}
	return nil
}

// end kills the command for a reason which becomes its ending, unless it has
// ended by itself or another reason came first.
func (p *proc) end(cause execution.Ending, reason string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.blame(cause, reason, err)
	}
	p.startKiller()
}

// endOutput is end for what goes wrong with the output. It counts also when the
// leader has ended meanwhile: whether that was so is chance.
func (p *proc) endOutput(cause execution.Ending, reason string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blame(cause, reason, err)
	p.startKiller()
}

func (p *proc) blame(cause execution.Ending, reason string, err error) {
	if p.cause == "" {
		p.cause, p.reason, p.causeErr = cause, reason, err
	}
}

// force is end for Destroy: at once, and also for a command that is only being
// started.
func (p *proc) force() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isForced {
		p.isForced = true
		close(p.forced)
	}
	if !p.ended {
		p.blame(execution.EndingCancelled, "the sandbox was destroyed", nil)
	}
	p.startKiller()
}

// awaitGone waits, after force, until nothing is left of a command. When all
// that is left is a writer of the caller's that does not return, it is not
// waited for much longer.
func (p *proc) awaitGone(ctx context.Context) error {
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.killed:
	}
	timer := time.NewTimer(writerGrace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// startKiller starts killing once. mu is held.
func (p *proc) startKiller() {
	if p.killing || p.finished || !p.started {
		return
	}
	p.killing = true
	p.killer.Go(p.kill)
}

func (p *proc) kill() {
	defer close(p.killed)
	grace := p.cmd.Grace
	if grace == 0 {
		grace = execution.DefaultGrace
	}
	p.mu.Lock()
	polite := !p.isForced && grace > 0
	p.mu.Unlock()
	if polite && p.ask(grace) {
		return
	}
	p.tree.kill(p.h.context.giveUp)
}

// ask asks the tree to end and reports whether it has done so within the grace.
// It asks again whoever it did not find before; and once more everybody who is
// left when the leader has ended, since a process that a shell has just forked,
// and that is not yet the program it is to be, may let the signal pass.
func (p *proc) ask(grace time.Duration) bool {
	const first, most = 20 * time.Millisecond, time.Second
	asked := map[int]bool{}
	p.tree.terminate(asked)
	late := time.NewTimer(grace)
	defer late.Stop()
	again := time.NewTimer(first)
	defer again.Stop()
	ended := p.tree.ended()
	select {
	case <-ended:
		ended = nil
	default:
	}
	for pause := first; ; {
		select {
		case <-p.tree.drained():
			return true
		case <-p.forced:
			return false
		case <-late.C:
			return false
		case <-ended:
			ended = nil
			clear(asked)
		case <-again.C:
			pause = min(2*pause, most)
			again.Reset(pause)
		}
		p.tree.terminate(asked)
	}
}

func (p *proc) isKilling() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killing
}

// begin takes over a tree that has been started.
func (p *proc) begin(t tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tree, p.started = t, true
	if p.isForced {
		p.startKiller()
	}
	if limit := p.cmd.Timeout; limit > 0 {
		p.timer = time.AfterFunc(limit, func() {
			p.end(execution.EndingTimedOut, fmt.Sprintf("the time limit is %v", limit), nil)
		})
	}
	p.plumb.begin(p)
	go p.run()
}

// run follows a command from its start until nothing is left of it.
func (p *proc) run() {
	defer close(p.gone)
	<-p.tree.ended()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.collect()
	p.conclude()
	close(p.done)

	p.awaitDrained()
	p.mu.Lock()
	p.finished = true
	p.mu.Unlock()
	p.killer.Wait()
	p.plumb.close()
	p.h.leave(p)
}

// awaitDrained waits until nothing of the tree is alive, or until the Context
// gives up on it.
func (p *proc) awaitDrained() {
	select {
	case <-p.tree.drained():
	case <-p.h.context.giveUp:
	}
}

// collect waits for the output that is still to come, and for the last of the
// processes where they are being killed.
func (p *proc) collect() {
	quiet := time.NewTimer(graceQuiet)
	defer quiet.Stop()
	if p.isKilling() {
		p.awaitDrained()
	}
	cut := p.plumb.finish()
	if p.isKilling() {
		p.awaitDrained()
		return
	}
	if cut {
		return
	}
	// Nobody holds the output any more. What was about to end is no leftover.
	select {
	case <-p.tree.drained():
	case <-quiet.C:
	}
}

// conclude works out the status.
func (p *proc) conclude() {
	res := p.tree.result()
	p.mu.Lock()
	cause, reason, err := p.cause, p.reason, p.causeErr
	p.mu.Unlock()
	s := execution.ExitStatus{
		Code: -1, Signal: res.signal, Reason: res.reason,
		Duration: res.at.Sub(p.began), UserTime: res.user, SystemTime: res.system,
		StdoutBytes: p.plumb.stdout.count(), StderrBytes: p.plumb.stderr.count(),
	}
	switch {
	case res.lost:
		s.Ending = execution.EndingLost
		p.err = p.h.failure("wait", "", fmt.Errorf("%w: %s", execution.ErrLost, res.reason))
	case cause != "":
		s.Ending, s.Reason = cause, reason
		if err != nil {
			p.err = p.h.failure("wait", "", fmt.Errorf("%s: %w", reason, err))
		}
	case res.signal == execution.SIGKILL && p.ranOutOfMemory():
		s.Ending = execution.EndingOutOfMemory
	case res.signal != 0:
		s.Ending = execution.EndingSignalled
	default:
		s.Ending, s.Code = execution.EndingExited, res.code
	}
	select {
	case <-p.tree.drained():
	default:
		s.Leftovers = p.tree.leftovers()
	}
	p.status = s
}

// ranOutOfMemory reports whether the kernel has killed for memory since the
// start. Which process that was it does not say; the caller knows that the
// leader was killed.
func (p *proc) ranOutOfMemory() bool {
	count, ok := p.h.context.launcher.oomKills()
	return ok && count > p.oomMark
}

// A terminalProc is a command on a terminal. It is an [execution.Resizer].
type terminalProc struct{ *proc }

// Resize changes the terminal's size, which the foreground processes learn by
// SIGWINCH.
func (p terminalProc) Resize(ctx context.Context, size execution.TerminalSize) error {
	const op = "resize"
	if err := ctx.Err(); err != nil {
		return p.h.failure(op, "", err)
	}
	select {
	case <-p.tree.ended():
		return p.h.failure(op, "", execution.ErrFinished)
	default:
	}
	if err := setTerminalSize(p.plumb.master, size); err != nil {
		return p.h.failure(op, "", mapError(err))
	}
	return nil
}
