package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// How long output is collected once the leader has gone and others still hold
// it: until it is quiet for a while, and no longer than the whole.
const (
	leftoverQuiet = 100 * time.Millisecond
	leftoverMax   = time.Second
)

var errNoProcess = errors.New("cannot fork: the limit of processes is reached")

// A job is a command that was started, with all the processes that descend
// from it: the execution.Process of this backend.
type job struct {
	handle  *Handle
	cmd     execution.Command
	started time.Time
	stdin   *pipe
	stdout  *stream
	stderr  *stream // nil on a terminal
	moved   chan struct{}

	leader *Proc
	gone   chan struct{} // closed when no process is left
	done   chan struct{} // closed when status and err are final

	mu       sync.Mutex
	size     execution.TerminalSize
	procs    map[int]*Proc
	killed   bool // nothing may be forked any more
	dying    bool // somebody is at work to end it
	grace    *time.Timer
	carried  int64
	computed time.Duration
	left     bool // the leader has ended
	cause    execution.Ending
	reason   string
	err      error
	status   execution.ExitStatus
}

// newJob prepares a command.
func newJob(h *Handle, cmd execution.Command) *job {
	j := &job{
		handle: h, cmd: cmd, started: time.Now(), stdin: &pipe{}, moved: make(chan struct{}, 1),
		gone: make(chan struct{}), done: make(chan struct{}), procs: map[int]*Proc{},
	}
	if cmd.Stdin != nil {
		j.stdin.open()
	}
	j.stdout = newStream(j, cmd.Stdout)
	if cmd.TTY == nil {
		j.stderr = newStream(j, cmd.Stderr)
	} else {
		j.size = *cmd.TTY
	}
	return j
}

// begin starts a process of the job.
func (j *job) begin(ctx context.Context, p *Proc, program Program, limited bool) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.job, p.stop, p.dead, p.ended = j, stop, ctx.Done(), make(chan struct{})
	p.notified = map[execution.Signal]chan execution.Signal{}
	p.Stdin, p.Stdout, p.Stderr = procReader{p, j.stdin}, procWriter{p, j.stdout.pipe}, procWriter{p, j.stdout.pipe}
	if j.stderr != nil {
		p.Stderr = procWriter{p, j.stderr.pipe}
	}
	if err := j.enlist(p, limited); err != nil {
		stop()
		return err
	}
	for _, out := range p.outputs {
		out.open()
	}
	go p.run(ctx, program)
	return nil
}

// enlist gives a process its ID and its place among the others.
func (j *job) enlist(p *Proc, limited bool) error {
	h := j.handle
	h.mu.Lock()
	defer h.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := h.spec.Limits.PIDs
	switch {
	case h.err != nil:
		return h.err
	case j.killed:
		return errKilled
	case limited && limit > 0 && int64(h.live) >= limit:
		return errNoProcess
	}
	h.lastPID++
	p.pid = h.lastPID
	if p.group == 0 {
		p.group = p.pid
	}
	h.live++
	h.jobs[j] = struct{}{}
	j.procs[p.pid] = p
	return nil
}

// finish takes a process that has ended out of the lists.
func (j *job) finish(p *Proc) {
	h := j.handle
	h.mu.Lock()
	defer h.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.procs, p.pid)
	h.live--
	h.memory -= p.memory
	close(p.ended)
	if len(j.procs) == 0 {
		close(j.gone)
		delete(h.jobs, j)
		if j.grace != nil {
			j.grace.Stop()
		}
	}
	if h.err != nil && h.live == 0 {
		close(h.idle)
	}
}

// run is the life of a job from the start of its leader on.
func (j *job) run() {
	j.feed()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		var both sync.WaitGroup
		for _, s := range j.streams() {
			both.Go(s.copy)
		}
		both.Wait()
	}()
	var timeout *time.Timer
	if j.cmd.Timeout > 0 {
		timeout = time.AfterFunc(j.cmd.Timeout, func() {
			j.terminate(execution.EndingTimedOut, fmt.Sprintf("after %v", j.cmd.Timeout), nil)
		})
	}
	<-j.leader.ended
	duration := time.Since(j.started)
	if timeout != nil {
		timeout.Stop()
	}
	j.stdin.sever()
	j.mu.Lock()
	j.left = true
	ending := j.cause != ""
	j.mu.Unlock()
	if !ending {
		j.collect(drained)
	}
	<-drained
	j.mu.Lock()
	ending = j.cause != ""
	j.mu.Unlock()
	if ending {
		<-j.gone
	}
	j.conclude(duration)
}

// collect waits for the end of the output, but not for ever.
func (j *job) collect(drained <-chan struct{}) {
	quiet, whole := time.NewTimer(leftoverQuiet), time.NewTimer(leftoverMax)
	defer quiet.Stop()
	defer whole.Stop()
	for {
		select {
		case <-drained:
			return
		case <-j.moved:
			quiet.Reset(leftoverQuiet)
			continue
		case <-j.gone:
			return
		case <-quiet.C:
		case <-whole.C:
		}
		for _, s := range j.streams() {
			s.pipe.detach(false)
		}
		return
	}
}

// conclude makes the status final.
func (j *job) conclude(duration time.Duration) {
	alive := j.alive()
	j.mu.Lock()
	defer j.mu.Unlock()
	s := execution.ExitStatus{
		Ending: j.cause, Code: -1, Signal: j.leader.signal, Reason: j.reason,
		Duration: duration, UserTime: j.computed, StdoutBytes: j.stdout.carried,
	}
	if j.stderr != nil {
		s.StderrBytes = j.stderr.carried
	}
	switch {
	case j.cause != "":
	case j.leader.signal != 0:
		s.Ending = execution.EndingSignalled
	default:
		s.Ending, s.Code = execution.EndingExited, j.leader.code
	}
	s.Leftovers = alive[:min(len(alive), execution.MaxLeftovers)]
	j.status = s
	j.err = j.handle.fail("wait", "", j.err)
	close(j.done)
}

// Wait waits for the end.
func (j *job) Wait(ctx context.Context) (execution.ExitStatus, error) {
	select {
	case <-j.done:
	default:
		select {
		case <-j.done:
		case <-ctx.Done():
			return execution.ExitStatus{Code: -1}, j.handle.fail("wait", "", ctx.Err())
		}
	}
	status := j.status
	status.Leftovers = slices.Clone(status.Leftovers)
	return status, j.err
}

// Signal sends a signal to the leader's process group.
func (j *job) Signal(ctx context.Context, sig execution.Signal) error {
	ctx, leave, err := j.handle.enter(ctx, Op{Name: "signal"})
	if err == nil {
		defer leave()
		err = j.signal(ctx, sig)
	}
	return j.handle.fail("signal", "", err)
}

func (j *job) signal(ctx context.Context, sig execution.Signal) error {
	if !sig.Valid() {
		return fmt.Errorf("%w: signal %d: want 1 to 64", execution.ErrInvalid, int(sig))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left {
		return execution.ErrFinished
	}
	for _, p := range j.procs {
		if p.group == j.leader.group {
			p.deliver(sig)
		}
	}
	return nil
}

// Resize changes the size of the terminal.
func (j *job) Resize(ctx context.Context, size execution.TerminalSize) error {
	ctx, leave, err := j.handle.enter(ctx, Op{Name: "resize"})
	if err == nil {
		defer leave()
		j.mu.Lock()
		defer j.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case j.cmd.TTY == nil:
			err = fmt.Errorf("%w: the command has no terminal", execution.ErrInvalid)
		case j.left:
			err = execution.ErrFinished
		default:
			const sigwinch = 28
			j.size = size
			j.leader.deliver(sigwinch)
		}
	}
	return j.handle.fail("resize", "", err)
}

func (j *job) terminal() (execution.TerminalSize, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size, j.cmd.TTY != nil
}

func (j *job) used(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.computed += d
}

func (j *job) streams() []*stream {
	if j.stderr == nil {
		return []*stream{j.stdout}
	}
	return []*stream{j.stdout, j.stderr}
}

// alive are the job's processes, in order of their IDs.
func (j *job) alive() []execution.ProcessInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []execution.ProcessInfo
	for _, pid := range slices.Sorted(maps.Keys(j.procs)) {
		const limit = 256
		command := strings.Join(j.procs[pid].Args, " ")
		all = append(all, execution.ProcessInfo{PID: pid, Command: command[:min(limit, len(command))]})
	}
	return all
}

var (
	_ execution.Process = (*job)(nil)
	_ execution.Resizer = (*job)(nil)
)
