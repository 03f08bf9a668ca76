//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/process/internal/warden"
)

// supervisors is the launcher for Linux.
type supervisors struct {
	pool *pool
	tags *tags       // nil where the kernel has subreapers
	init *initDuties // nil unless this is the first process of a container
}

func newLauncher(null int, firstProcess bool) (launcher, error) {
	p, err := newPool(null)
	if err != nil {
		return nil, err
	}
	s := &supervisors{pool: p}
	if !p.nursery.reaps {
		if s.tags = newTags(firstProcess); s.tags == nil {
			p.close()
			return plainLauncher{}, nil
		}
	}
	if firstProcess {
		s.init = newInitDuties()
	}
	return s, nil
}

func (s *supervisors) provenKill() bool { return true }

func (s *supervisors) close() {
	s.pool.close()
	if s.init != nil {
		s.init.close()
	}
}

// startDeadline bounds how long a start may go on after its context has ended.
// It is reached only where execve itself hangs, as on a dead network file
// system.
const startDeadline = 2 * time.Second

func (s *supervisors) launch(ctx context.Context, l *launch) (tree, error) {
	job := &warden.Job{Path: l.path, Dir: l.dir, Args: l.args, Env: l.env, Files: l.files, TTY: l.tty}
	if s.tags != nil {
		job.Mark = s.tags.take().tag
	}
	for tries := 0; ; tries++ {
		sup, err := s.pool.get()
		if err != nil {
			s.retire(job.Mark)
			return nil, &launchError{launchFork, err}
		}
		t, err := s.launchOn(ctx, sup, job)
		// A supervisor that has waited may have been killed meanwhile. A socket
		// that is closed with something unread in it says so: then the job was
		// not read, and another may have it.
		if err == nil || !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) || tries > maxIdle {
			if err != nil {
				s.retire(job.Mark)
			}
			return t, err
		}
	}
}

// retire forgets a mark that nothing has any more.
func (s *supervisors) retire(mark uint64) {
	if s.tags != nil {
		s.tags.drop(mark)
	}
}

func (s *supervisors) launchOn(ctx context.Context, sup *supervisor, job *warden.Job) (tree, error) {
	if err := warden.AskRun(sup.control, job); err != nil {
		if errors.Is(err, unix.E2BIG) {
			s.pool.put(sup) // nothing was sent
			return nil, &launchError{launchExec, err}
		}
		s.pool.drop(sup)
		return nil, &launchError{launchFork, err}
	}
	answer, err := sup.answer(ctx)
	t := &supervisedTree{
		owner: s, supervisor: sup, family: subtree{sup.pid}, tag: job.Mark,
		endedC: make(chan struct{}), drainedC: make(chan struct{}),
	}
	if s.tags != nil {
		t.family = tagged{s.tags, t.tag}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.abandon()
		return nil, ctx.Err()
	case errors.Is(err, unix.ECONNRESET):
		s.pool.drop(sup)
		return nil, &launchError{launchFork, err}
	case err != nil:
		// The command has killed its supervisor before that could say so much
		// as that there is a command.
		t.lose()
		return t, nil
	case answer.Kind == warden.Failed:
		s.pool.put(sup)
		return nil, &launchError{stages[warden.Stage(answer.Flags)], unix.Errno(answer.Value)}
	}
	t.pid = answer.Value
	go t.read()
	return t, nil
}

// answer waits for the answer to a job.
func (s *supervisor) answer(ctx context.Context) (warden.Report, error) {
	answered := make(chan struct{})
	defer close(answered)
	nudge := time.AfterFunc(nudgeAfter, func() { s.nudge(answered) })
	defer nudge.Stop()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		_ = s.control.SetReadDeadline(time.Now().Add(startDeadline))
	})
	r, err := warden.Read(s.control)
	if !stop() {
		<-late
		_ = s.control.SetReadDeadline(time.Time{})
	}
	return r, err
}

// nudgeAfter is how long a supervisor may take before it is looked after.
const nudgeAfter = time.Second

// nudge lets a supervisor go on that somebody has stopped: any process of the
// same user can, one of another command too, which must not hold up this one.
func (s *supervisor) nudge(answered <-chan struct{}) {
	again := time.NewTicker(nudgeAfter)
	defer again.Stop()
	for {
		_ = unix.Kill(s.pid, unix.SIGCONT)
		select {
		case <-answered:
			return
		case <-again.C:
		}
	}
}

// stages translates what a supervisor says.
var stages = map[warden.Stage]launchStage{
	warden.StageFork: launchFork, warden.StageSetup: launchSetup,
	warden.StageDir: launchDir, warden.StageExec: launchExec,
}

// supervisedTree is a command under a supervisor.
type supervisedTree struct {
	owner *supervisors
	pid   int

	endedC, drainedC chan struct{}

	// mu is held while somebody looks at the tree or signals it, so that the
	// supervisor does not go to another command meanwhile.
	mu         sync.Mutex
	supervisor *supervisor
	family     family
	tag        uint64 // the mark, where there is one
	res        leaderResult
	hasEnded   bool
	isDrained  bool
	killing    bool
}

func (t *supervisedTree) leader() int              { return t.pid }
func (t *supervisedTree) ended() <-chan struct{}   { return t.endedC }
func (t *supervisedTree) drained() <-chan struct{} { return t.drainedC }

func (t *supervisedTree) result() leaderResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.res
}

// read follows the supervisor's reports. It ends when the tree is drained.
func (t *supervisedTree) read() {
	for {
		r, err := warden.Read(t.supervisor.control)
		if err != nil {
			t.lose()
			return
		}
		if r.Flags&warden.Ended != 0 {
			t.mu.Lock()
			t.res = decodeStatus(r)
			t.hasEnded = true
			close(t.endedC)
			t.mu.Unlock()
		}
		if r.Flags&warden.Drained != 0 {
			t.awaitMarked()
			t.mu.Lock()
			t.isDrained = true
			t.owner.pool.put(t.supervisor)
			t.owner.retire(t.tag)
			close(t.drainedC)
			t.mu.Unlock()
			return
		}
	}
}

// awaitMarked waits until no process has the command's mark, where there is
// one: there, that the supervisor has no child says little. Twice nothing in a
// row is nothing, since who forks while one looks is seen the second time.
func (t *supervisedTree) awaitMarked() {
	if t.owner.tags == nil {
		return
	}
	const first, most = time.Millisecond, 100 * time.Millisecond
	pause := first
	for clean := 0; clean < 2; {
		if len(t.family.members()) == 0 {
			clean++
			continue
		}
		clean = 0
		t.mu.Lock()
		if t.killing {
			pause = first
		}
		t.mu.Unlock()
		time.Sleep(pause)
		pause = min(2*pause, most)
	}
}

func decodeStatus(r warden.Report) leaderResult {
	status := unix.WaitStatus(r.Value)
	res := leaderResult{
		at:     time.Now(),
		user:   r.User,
		system: r.System,
	}
	if status.Signaled() {
		res.signal = execution.Signal(status.Signal())
	} else {
		res.code = status.ExitStatus()
	}
	return res
}

// abandon gives up a start that hangs.
func (t *supervisedTree) abandon() {
	_ = unix.Kill(t.supervisor.pid, unix.SIGKILL)
	t.owner.pool.drop(t.supervisor)
	t.owner.killStrays(t)
}

// lose handles the death of the supervisor. What was below it is killed where
// it can still be found.
func (t *supervisedTree) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner.pool.drop(t.supervisor)
	proven := t.owner.killStrays(t)
	if !t.hasEnded {
		t.hasEnded = true
		t.res = leaderResult{
			at: time.Now(), signal: execution.SIGKILL,
			reason: "its supervisor was killed, and then all that was below it",
		}
		if !proven {
			t.res = leaderResult{
				at: time.Now(), lost: true,
				reason: "its supervisor was killed by a process of the same user; what it started may still run",
			}
		}
		close(t.endedC)
	}
	t.res.untraced = !proven
	t.isDrained = true
	t.owner.retire(t.tag)
	close(t.drainedC)
}

func (t *supervisedTree) signal(sig execution.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasEnded {
		return execution.ErrFinished
	}
	err := unix.Kill(-t.pid, unix.Signal(sig))
	if errors.Is(err, unix.ESRCH) {
		return execution.ErrFinished
	}
	return err
}

func (t *supervisedTree) terminate(asked map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDrained {
		return
	}
	for _, pid := range t.family.members() {
		if !asked[pid] {
			asked[pid] = true
			// One that is stopped would not know of it.
			signalMember(t.family, pid, unix.SIGTERM, unix.SIGCONT)
		}
	}
}

func (t *supervisedTree) kill(giveUp <-chan struct{}) {
	const first, most = time.Millisecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		if !t.killRound(pause > first) {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-t.drainedC:
			timer.Stop()
			return
		case <-giveUp:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// killRound has the supervisor kill from above, which is quick and certain, and
// from the second round on also kills whatever /proc shows below it, which is
// how a tree loses that grows quicker at its bottom than it is cut at its top.
func (t *supervisedTree) killRound(wide bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDrained {
		return false
	}
	if !t.killing {
		t.killing = true
		_ = warden.AskKill(t.supervisor.control)
	}
	if wide {
		// Somebody may have stopped the supervisor.
		_ = unix.Kill(t.supervisor.pid, unix.SIGCONT)
		for _, pid := range t.family.members() {
			signalMember(t.family, pid, unix.SIGKILL)
		}
	}
	return true
}

func (t *supervisedTree) leftovers() []execution.ProcessInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDrained {
		return nil
	}
	return describe(t.family.members())
}

// oomKills is 0 where this is not the first process of a container: then the
// control group is not ours, and its counter says nothing.
func (s *supervisors) oomKills() (int64, bool) {
	if s.init == nil {
		return 0, false
	}
	return s.init.oomKills()
}
