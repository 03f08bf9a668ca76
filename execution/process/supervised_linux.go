//go:build linux && (amd64 || arm64)

package process

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// supervisors is the launcher for Linux.
type supervisors struct {
	pool *pool
	init *initDuties // nil unless this is the first process of a container
}

func newLauncher(null int, firstProcess bool) (launcher, error) {
	p, err := newPool(null)
	if err != nil {
		return nil, err
	}
	s := &supervisors{pool: p}
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
	r, blob, err := encodeJob(l)
	if err != nil {
		return nil, &launchError{launchExec, err}
	}
	sup, err := s.sendJob(r, blob, l.files[:])
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = sup.control.SetReadDeadline(time.Now().Add(startDeadline)) })
	answer, err := readReport(sup.control)
	stop()
	_ = sup.control.SetReadDeadline(time.Time{})
	t := &supervisedTree{
		owner: s, supervisor: sup,
		endedC: make(chan struct{}), drainedC: make(chan struct{}),
	}
	switch {
	case err != nil && ctx.Err() != nil:
		t.abandon()
		return nil, ctx.Err()
	case err != nil:
		// The command has killed its supervisor before that could say so much
		// as that there is a command.
		t.lose()
		return t, nil
	case answer.kind == reportFailed:
		s.pool.put(sup)
		return nil, &launchError{launchStage(answer.flags), unix.Errno(answer.value)}
	}
	t.pid = int(answer.value)
	go t.read()
	return t, nil
}

// sendJob finds a supervisor that takes the job. Idle ones may have been killed
// in the meantime; what they did not get they did not start.
func (s *supervisors) sendJob(r request, blob []byte, fds []int) (*supervisor, error) {
	for tries := 0; ; tries++ {
		sup, err := s.pool.get()
		if err != nil {
			return nil, &launchError{launchFork, err}
		}
		err = sendRequest(sup.control, r, blob, fds)
		if err == nil {
			return sup, nil
		}
		s.pool.drop(sup)
		if !isGone(err) || tries > maxIdle {
			return nil, &launchError{launchFork, err}
		}
	}
}

// encodeJob lays out a job as start in the supervisor expects it.
func encodeJob(l *launch) (request, []byte, error) {
	words := firstArg + len(l.args) + 1 + len(l.env) + 1
	size := words*8 + len(l.path) + 1 + len(l.dir) + 1
	for _, s := range l.args {
		size += len(s) + 1
	}
	for _, s := range l.env {
		size += len(s) + 1
	}
	if size > blobSize {
		return request{}, nil, unix.E2BIG
	}
	blob := make([]byte, words*8, size)
	word := 0
	add := func(s string) {
		binary.NativeEndian.PutUint64(blob[word*8:], uint64(len(blob)))
		blob = append(append(blob, s...), 0)
		word++
	}
	add(l.path)
	add(l.dir)
	for _, s := range l.args {
		add(s)
	}
	word++
	r := request{op: opRun, words: uint64(words), env: uint64(word)}
	for _, s := range l.env {
		add(s)
	}
	if l.tty {
		r.flags = flagTTY
	}
	return r, blob, nil
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
		r, err := readReport(t.supervisor.control)
		if err != nil {
			t.lose()
			return
		}
		if r.kind != reportState {
			continue
		}
		t.mu.Lock()
		if r.flags&stateEnded != 0 {
			t.res = decodeStatus(r)
			t.hasEnded = true
			close(t.endedC)
		}
		if r.flags&stateDrained != 0 {
			t.isDrained = true
			t.owner.pool.put(t.supervisor)
			close(t.drainedC)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}

func decodeStatus(r report) leaderResult {
	status := unix.WaitStatus(r.value)
	res := leaderResult{
		at:     time.Now(),
		user:   time.Duration(r.user) * time.Microsecond,
		system: time.Duration(r.system) * time.Microsecond,
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
	t.owner.killStrays(t.supervisor.nursery)
}

// lose handles the death of the supervisor. What was below it is killed where
// it can still be found.
func (t *supervisedTree) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner.pool.drop(t.supervisor)
	proven := t.owner.killStrays(t.supervisor.nursery)
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
	t.isDrained = true
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

func (t *supervisedTree) terminate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDrained {
		return
	}
	signalDescendants(t.supervisor.pid, unix.SIGTERM)
	// One that is stopped would not know of it.
	signalDescendants(t.supervisor.pid, unix.SIGCONT)
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
		_ = sendRequest(t.supervisor.control, request{op: opKill}, nil, nil)
	}
	if wide {
		// Somebody may have stopped the supervisor.
		_ = unix.Kill(t.supervisor.pid, unix.SIGCONT)
		signalDescendants(t.supervisor.pid, unix.SIGKILL)
	}
	return true
}

func (t *supervisedTree) leftovers() []execution.ProcessInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDrained {
		return nil
	}
	return describe(descendants(t.supervisor.pid))
}

// oomKills is 0 where this is not the first process of a container: then the
// control group is not ours, and its counter says nothing.
func (s *supervisors) oomKills() (int64, bool) {
	if s.init == nil {
		return 0, false
	}
	return s.init.oomKills()
}
