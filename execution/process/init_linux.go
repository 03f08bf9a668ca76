//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// initDuties are what the first process of a container owes: to reap whatever
// loses its parent and falls to it.
type initDuties struct {
	children chan os.Signal
	stop     chan struct{}
	done     sync.WaitGroup
	oom      *os.File // the memory control group's counters, nil where there are none
}

func newInitDuties() *initDuties {
	reserveThreads()
	i := &initDuties{children: make(chan os.Signal, 1), stop: make(chan struct{})}
	i.oom = openOOMCounter()
	signal.Notify(i.children, unix.SIGCHLD)
	i.done.Go(i.run)
	return i
}

// reserveThreads has the Go runtime start threads and keep them. A container has
// a limit on processes, and a command that reaches it must not be able to keep
// the runtime from starting a thread when it needs one: it would give up the
// whole program.
func reserveThreads() {
	const spare = 8
	n := runtime.GOMAXPROCS(0) + spare
	var up, down sync.WaitGroup
	release := make(chan struct{})
	up.Add(n)
	for range n {
		down.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			<-release
		})
	}
	up.Wait()
	close(release)
	down.Wait()
}

func (i *initDuties) run() {
	for {
		reapAll()
		select {
		case <-i.children:
		case <-i.stop:
			return
		}
	}
}

// close stops reaping. The nursery must have ended by then.
func (i *initDuties) close() {
	signal.Stop(i.children)
	close(i.stop)
	i.done.Wait()
	reapAll()
	if i.oom != nil {
		_ = i.oom.Close()
	}
}

// openOOMCounter finds the counter of the container's own control group, which
// is at the root of what the container sees: of version 2, else of version 1.
func openOOMCounter() *os.File {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if f, err := os.Open(path); err == nil {
			return f
		}
	}
	return nil
}

// oomKills reads the counter. It is called for every command.
func (i *initDuties) oomKills() (int64, bool) {
	if i.oom == nil {
		return 0, false
	}
	var buffer [512]byte
	n, err := i.oom.ReadAt(buffer[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	for line := range bytes.Lines(buffer[:n]) {
		if value, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			return count, err == nil
		}
	}
	return 0, false
}

func reapAll() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// strayDeadline bounds how long strays are hunted. What does not die within
// seconds of SIGKILL hangs in the kernel.
const strayDeadline = 10 * time.Second

// killStrays kills what a command has left whose supervisor was killed. It falls
// to the nursery, or to the first process of a container, and is every process
// below them that belongs to no living supervisor; or it carries a mark. It is
// false when it cannot vouch for that.
func (s *supervisors) killStrays(t *supervisedTree) bool {
	n := t.supervisor.nursery
	var roots []int
	if n.alive() {
		roots = append(roots, n.pid)
	}
	if s.init != nil {
		roots = append(roots, os.Getpid())
	}
	if len(roots) == 0 && s.tags == nil {
		return false
	}
	deadline := time.Now().Add(strayDeadline)
	// What forks just while one looks is found by looking again.
	const looks = 3
	for clean := 0; clean < looks; {
		if time.Now().After(deadline) {
			return false
		}
		clean++
		if s.killStraysOnce(t, roots) > 0 {
			clean = 0
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func (s *supervisors) killStraysOnce(t *supervisedTree, roots []int) (killed int) {
	if s.tags != nil {
		for _, pid := range t.family.members() {
			signalMember(t.family, pid, unix.SIGKILL)
			killed++
		}
		return killed
	}
	// A supervisor that was just forked and that nobody knows yet is none.
	t.supervisor.nursery.mu.Lock()
	defer t.supervisor.nursery.mu.Unlock()
	for root, pids := range s.strays(roots) {
		for _, pid := range pids {
			signalMember(subtree{root}, pid, unix.SIGKILL)
			killed++
		}
	}
	return killed
}

// strays lists what is alive below each root but not below a living supervisor.
func (s *supervisors) strays(roots []int) map[int][]int {
	all := processes()
	ours := s.pool.members()
	strays := map[int][]int{}
	for pid, stat := range all {
		if ours[pid] || stat.zombie {
			continue
		}
		root := 0
		for at := pid; at > 1 && root == 0; at = all[at].parent {
			parent := all[at].parent
			for _, candidate := range roots {
				if parent == candidate {
					root = candidate
				}
			}
			if ours[parent] && root == 0 {
				break
			}
		}
		if root != 0 {
			strays[root] = append(strays[root], pid)
		}
	}
	return strays
}
