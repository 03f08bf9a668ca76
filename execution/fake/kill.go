package fake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Kill ends the job's processes.
func (j *job) Kill(ctx context.Context) error {
	if err := j.handle.fault(ctx, Op{Name: "kill"}); err != nil {
		return j.handle.fail("kill", "", err)
	}
	j.terminate(execution.EndingCancelled, "", nil)
	select {
	case <-j.gone:
		return nil
	default:
	}
	select {
	case <-j.gone:
		return nil
	case <-ctx.Done():
		return j.handle.fail("kill", "", fmt.Errorf("%w: the program is still running", ctx.Err()))
	}
}

// terminate ends all processes: SIGTERM, the grace, SIGKILL. While the leader
// is alive, the first cause given is how the command ended. It does not wait.
func (j *job) terminate(cause execution.Ending, reason string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.terminateLocked(cause, reason, err)
}

// inputFailed ends the job whose stdin could not be read, unless it no longer
// matters.
func (j *job) inputFailed(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.left {
		j.terminateLocked(execution.EndingCancelled, "its input could not be read", err)
	}
}

func (j *job) terminateLocked(cause execution.Ending, reason string, err error) {
	if err != nil {
		j.err = errors.Join(j.err, err)
	}
	if j.cause == "" && (!j.left || cause == execution.EndingOutputLimit) {
		j.cause, j.reason = cause, reason
	}
	if j.dying || len(j.procs) == 0 {
		return
	}
	j.dying = true
	grace := j.cmd.Grace
	if grace == 0 {
		grace = execution.DefaultGrace
	}
	if grace < 0 {
		j.killAll()
		return
	}
	for _, p := range j.procs {
		p.deliver(execution.SIGTERM)
	}
	j.grace = time.AfterFunc(grace, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.killAll()
	})
}

// killAll sends SIGKILL to all. The lock is held.
func (j *job) killAll() {
	j.killed = true
	for _, p := range j.procs {
		p.deliver(execution.SIGKILL)
	}
}

// sandboxEnded ends the job with its sandbox.
func (j *job) sandboxEnded(err error, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.left && j.cause == "" {
		j.cause = execution.EndingCancelled
		if reason != "" {
			j.cause, j.reason, j.err = execution.EndingLost, reason, err
		}
	}
	j.killAll()
	for _, s := range j.streams() {
		s.pipe.detach(true)
	}
}

// outOfMemory ends a process at the memory limit.
func (j *job) outOfMemory(p *Proc) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p == j.leader && !j.left && j.cause == "" {
		j.cause = execution.EndingOutOfMemory
		j.reason = fmt.Sprintf("the limit is %d bytes", j.handle.spec.Limits.Memory)
	}
	p.deliver(execution.SIGKILL)
}
