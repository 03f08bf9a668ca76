//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// plainLauncher is the launcher for systems without subreapers. It knows a
// command's process group and no more: what leaves that is out of its sight.
type plainLauncher struct{}

func (plainLauncher) provenKill() bool        { return false }
func (plainLauncher) oomKills() (int64, bool) { return 0, false }
func (plainLauncher) close()                  {}

func (plainLauncher) launch(_ context.Context, l *launch) (tree, error) {
	files := make([]*os.File, len(l.files))
	for i, fd := range l.files {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, &launchError{launchSetup, err}
		}
		files[i] = os.NewFile(uintptr(own), "")
		defer func() { _ = files[i].Close() }()
	}
	child, err := os.StartProcess(l.path, l.args, &os.ProcAttr{
		Dir: l.dir, Env: l.env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: l.tty},
	})
	if err != nil {
		return nil, &launchError{launchExec, err}
	}
	t := &group{pid: child.Pid, endedC: make(chan struct{}), drainedC: make(chan struct{})}
	go t.follow(child)
	return t, nil
}

// A group is a command as its process group.
type group struct {
	pid              int
	endedC, drainedC chan struct{}

	mu  sync.Mutex // keeps the leader from being reaped while it is signalled
	res leaderResult
}

func (g *group) leader() int              { return g.pid }
func (g *group) ended() <-chan struct{}   { return g.endedC }
func (g *group) drained() <-chan struct{} { return g.drainedC }

func (g *group) result() leaderResult {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.res
}

// follow waits for the leader, and then for the rest of its group, of which
// nobody tells when it ends.
func (g *group) follow(child *os.Process) {
	state, err := child.Wait()
	res := leaderResult{at: time.Now()}
	switch {
	case err != nil:
		res.lost, res.untraced, res.reason = true, true, err.Error()
	default:
		status, _ := state.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			res.signal = fromHost(status.Signal())
		} else {
			res.code = status.ExitStatus()
		}
		res.user, res.system = state.UserTime(), state.SystemTime()
	}
	g.mu.Lock()
	g.res = res
	close(g.endedC)
	g.mu.Unlock()
	const first, most = 5 * time.Millisecond, 500 * time.Millisecond
	for pause := first; g.lives(); pause = min(2*pause, most) {
		time.Sleep(pause)
	}
	close(g.drainedC)
}

// lives reports whether anything of the group is left. Orphans of it fall to
// this process where that is the first of a container; they are reaped here,
// as they would count as living for ever.
func (g *group) lives() bool {
	for {
		pid, err := unix.Wait4(-g.pid, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return !errors.Is(unix.Kill(-g.pid, 0), unix.ESRCH)
		}
	}
}

func (g *group) signal(sig execution.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.endedC:
		return execution.ErrFinished
	default:
	}
	own, ok := toHost(sig)
	if !ok {
		return unix.EINVAL
	}
	err := unix.Kill(-g.pid, own)
	if errors.Is(err, unix.ESRCH) {
		return execution.ErrFinished
	}
	return err
}

func (g *group) terminate(asked map[int]bool) {
	if asked[g.pid] {
		return
	}
	asked[g.pid] = true
	_ = unix.Kill(-g.pid, unix.SIGTERM)
	_ = unix.Kill(-g.pid, unix.SIGCONT)
}

func (g *group) kill(giveUp <-chan struct{}) {
	const first, most = time.Millisecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		_ = unix.Kill(-g.pid, unix.SIGKILL)
		timer := time.NewTimer(pause)
		select {
		case <-g.drainedC:
			timer.Stop()
			return
		case <-giveUp:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (g *group) leftovers() []execution.ProcessInfo { return groupMembers(g.pid) }

// toHost is this system's number of a signal, which goes by its name.
func toHost(sig execution.Signal) (syscall.Signal, bool) {
	own := unix.SignalNum(sig.String())
	return own, own != 0
}

// fromHost is toHost the other way round; 0 is none that Linux has.
func fromHost(sig syscall.Signal) execution.Signal {
	known, err := execution.ParseSignal(unix.SignalName(sig))
	if err != nil {
		return 0
	}
	return known
}
