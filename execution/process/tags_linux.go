//go:build linux && (amd64 || arm64)

package process

import (
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"
)

// A family is how the processes of one command are told from others.
type family interface {
	// members lists those that are alive. What is forked while it looks may be
	// missing.
	members() []int

	// has reports whether a process is one of them.
	has(pid int) bool
}

// subtree is the family of all descendants of a supervisor. It holds where the
// kernel knows subreapers.
type subtree struct{ root int }

func (b subtree) members() []int   { return descendants(b.root) }
func (b subtree) has(pid int) bool { return isBelow(b.root, pid) }

// Where the kernel lets orphans fall to the first process of all, as gVisor's
// of 2022 and qemu-user do, a command's processes carry a mark instead: their
// hard limit on resident memory, RLIMIT_RSS, which has had no effect since
// Linux 2.4.30. Every child inherits it, execve keeps it, and nobody can raise
// it again who is not privileged. One can lower it, though; so the first process
// of a container also takes for a command's what has a mark that no living
// command has.
type tags struct {
	hunt bool // what has an unknown mark is fair game

	mu   sync.Mutex
	next uint64
	live map[uint64]struct{}
}

// newTags returns nil where there is a limit already.
func newTags(firstProcess bool) *tags {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RSS, &limit); err != nil || limit.Max != unix.RLIM_INFINITY {
		return nil
	}
	// Far above what any memory has, and apart from other programs' marks.
	const least, room = 1 << 60, 1 << 40
	return &tags{
		hunt: firstProcess,
		next: least + rand.Uint64N(room)*(1<<16), //nolint:gosec // it need not be a secret
		live: map[uint64]struct{}{},
	}
}

// take makes a mark for a command.
func (g *tags) take() tagged {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	g.live[g.next] = struct{}{}
	return tagged{g, g.next}
}

// drop is called when nothing has the mark any more.
func (g *tags) drop(tag uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, tag)
}

func (g *tags) isLive(tag uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.live[tag]
	return ok
}

// tagged is the family of all processes that carry a mark.
type tagged struct {
	tags *tags
	tag  uint64
}

func (f tagged) members() []int {
	var pids []int
	for pid, stat := range processes() {
		// The dead that the first process has yet to reap can still be seen by
		// others. What another program has to reap is no concern of ours.
		if (f.tags.hunt || !stat.zombie) && f.has(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (f tagged) has(pid int) bool {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RSS, nil, &limit); err != nil {
		return false
	}
	switch limit.Max {
	case f.tag:
		return true
	case unix.RLIM_INFINITY:
		return false
	}
	return f.tags.hunt && !f.tags.isLive(limit.Max)
}
