//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution/process/internal/warden"
)

// forkDeadline bounds how long the nursery may take to answer. It is there so
// that nothing hangs when somebody stops the nursery with a signal.
const forkDeadline = 10 * time.Second

// A nursery is this program's side of the process that forks supervisors.
type nursery struct {
	pid     int
	control *os.File
	replies chan warden.Report
	gone    chan struct{} // closed when the process has ended
	reaps   bool          // orphans below it fall to it: not so under gVisor and qemu-user

	mu sync.Mutex // one request at a time
}

// newNursery forks a nursery. It returns once that has nothing any more of this
// program.
func newNursery(null int) (*nursery, error) {
	ours, theirs, err := warden.Socket()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(theirs) }()
	pid, err := warden.Fork(theirs, null)
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	n := &nursery{pid: pid, control: ours, replies: make(chan warden.Report, 1), gone: make(chan struct{})}
	go n.read()
	ready, err := n.expect(warden.Ready)
	if err != nil {
		n.close()
		return nil, fmt.Errorf("the forked process did not come up: %w", err)
	}
	n.reaps = ready.Value == 1
	return n, nil
}

// read hands on what the process says, until it has ended. Who asks meanwhile
// finds the connection broken rather than closed, and waits for that.
func (n *nursery) read() {
	defer func() { _ = n.control.Close() }()
	defer close(n.gone)
	for {
		r, err := warden.Read(n.control)
		if err != nil {
			break
		}
		n.replies <- r
	}
	reapChild(n.pid)
}

// fork makes a supervisor and has it registered before anybody can take it for
// a stray.
func (n *nursery) fork(register func(*supervisor)) (*supervisor, error) {
	ours, theirs, err := warden.Socket()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(theirs) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	r := warden.Report{}
	if err = warden.AskFork(n.control, theirs); err == nil {
		r, err = n.expect(warden.Forked)
	}
	if err != nil {
		_ = ours.Close()
		if warden.IsGone(err) {
			<-n.gone // it is on its way; then alive tells
		}
		return nil, err
	}
	s := &supervisor{pid: r.Value, control: ours, nursery: n}
	register(s)
	return s, nil
}

// expect takes the nursery's answer. One that does not answer is ended, so that
// no late answer is ever taken for that of another request.
func (n *nursery) expect(kind warden.Kind) (warden.Report, error) {
	late := time.NewTimer(forkDeadline)
	defer late.Stop()
	select {
	case r := <-n.replies:
		if r.Kind == warden.Failed {
			return r, unix.Errno(r.Value)
		}
		if r.Kind != kind {
			return r, fmt.Errorf("unexpected report %d", r.Kind)
		}
		return r, nil
	case <-n.gone:
		return warden.Report{}, io.EOF
	case <-late.C:
		_ = unix.Kill(n.pid, unix.SIGKILL)
		return warden.Report{}, os.ErrDeadlineExceeded
	}
}

// alive reports whether the nursery is there to adopt what a killed supervisor
// leaves.
func (n *nursery) alive() bool {
	select {
	case <-n.gone:
		return false
	default:
		return true
	}
}

// close makes the nursery kill whatever is left below it and exit, and waits
// until it has.
func (n *nursery) close() {
	if conn, err := n.control.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	late := time.NewTimer(forkDeadline)
	defer late.Stop()
	select {
	case <-n.gone:
	case <-late.C:
		_ = unix.Kill(n.pid, unix.SIGKILL)
		<-n.gone
	}
}

// reapChild waits for a child that is about to end. Somebody else may have
// reaped it: the first process of a container does that.
func reapChild(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// A supervisor is this program's side of a process that runs one command after
// the other.
type supervisor struct {
	pid     int
	control *os.File
	nursery *nursery
}

// close makes the supervisor kill whatever is left below it and exit.
func (s *supervisor) close() { _ = s.control.Close() }

// A pool keeps supervisors for later commands.
type pool struct {
	null int

	mu      sync.Mutex
	idle    []*supervisor
	live    map[int]*supervisor // by pid, also the idle ones
	nursery *nursery
	closed  bool
}

// maxIdle is how many supervisors wait for commands. Each takes a process id
// and some 100 KiB of the kernel's memory.
const maxIdle = 4

func newPool(null int) (*pool, error) {
	n, err := newNursery(null)
	if err != nil {
		return nil, err
	}
	p := &pool{null: null, nursery: n, live: map[int]*supervisor{}}
	s, err := p.fork()
	if err != nil {
		n.close()
		return nil, err
	}
	p.put(s)
	return p, nil
}

// get takes a supervisor that nothing runs on.
func (p *pool) get() (*supervisor, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, os.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return p.fork()
}

// fork makes a new supervisor, with a new nursery where somebody has killed the
// one there was.
func (p *pool) fork() (*supervisor, error) {
	p.mu.Lock()
	n := p.nursery
	p.mu.Unlock()
	s, err := n.fork(p.register)
	if err != nil && !n.alive() {
		if n, err = p.renew(n); err == nil {
			s, err = n.fork(p.register)
		}
	}
	return s, err
}

func (p *pool) register(s *supervisor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[s.pid] = s
}

// renew replaces a nursery that has died.
func (p *pool) renew(dead *nursery) (*nursery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, os.ErrClosed
	}
	if p.nursery != dead {
		return p.nursery, nil
	}
	n, err := newNursery(p.null)
	if err != nil {
		return nil, err
	}
	dead.close()
	p.nursery = n
	return n, nil
}

// put takes back a supervisor that nothing runs on any more.
func (p *pool) put(s *supervisor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		delete(p.live, s.pid)
		s.close()
		return
	}
	p.idle = append(p.idle, s)
}

// drop forgets a supervisor that has died or is not to be used again.
func (p *pool) drop(s *supervisor) {
	s.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, s.pid)
}

// members are the pids of the nursery and of the living supervisors.
func (p *pool) members() map[int]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := map[int]bool{p.nursery.pid: true}
	for pid := range p.live {
		pids[pid] = true
	}
	return pids
}

// close ends all supervisors, with whatever still runs below them.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.idle {
		s.close()
	}
	p.idle = nil
	n := p.nursery
	p.mu.Unlock()
	n.close()
}
