//go:build linux && (amd64 || arm64)

package warden

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where there is no signalfd, a process that has children looks after them this
// often, in milliseconds.
const lookOften = 2

// nursery gives up what was the host's, and then forks supervisors until the
// host is gone.
//
//go:nosplit
//go:norace
//go:nocheckptr
func nursery(w *workspace) {
	detach(w)
	dropFiles(w)
	dropMemory(w)
	setInherited(w)
	watchChildren(w)
	tell(w, Ready, w.orphans, 0)
	for {
		timeout := int64(-1)
		if w.signals < 0 {
			timeout = lookOften
		}
		await(w, timeout)
		for {
			pid, errno := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
			if errno != 0 || pid == 0 {
				break
			}
		}
		if w.polls[0].result == 0 {
			continue
		}
		if !receive(w) {
			perish(w)
		}
		// The copy starts at the top of its own copy of this stack.
		stack := uintptr(unsafe.Pointer(&w.stack)) + stackSize
		pid, errno := clone(uintptr(unix.SIGCHLD), stack, w.entry.supervisor, w)
		sys3(unix.SYS_CLOSE, uintptr(w.files[0]), 0, 0)
		if errno != 0 {
			tell(w, Failed, int32(errno), uint32(StageFork))
		} else {
			tell(w, Forked, int32(pid), 0)
		}
	}
}

// supervisor runs jobs until the host does not want it any more or is gone.
//
//go:nosplit
//go:norace
//go:nocheckptr
func supervisor(w *workspace) {
	sys3(unix.SYS_SETSID, 0, 0, 0)
	sys3(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	sys3(unix.SYS_DUP3, uintptr(w.files[0]), controlFD, unix.O_CLOEXEC)
	sys3(unix.SYS_CLOSE, uintptr(w.files[0]), 0, 0)
	if w.signals >= 0 {
		sys3(unix.SYS_CLOSE, uintptr(w.signals), 0, 0)
	}
	watchChildren(w)
	for {
		timeout := int64(-1)
		switch {
		case w.killing != 0:
			timeout = 1
		case w.busy != 0 && w.signals < 0:
			timeout = lookOften
		}
		await(w, timeout)
		if w.busy != 0 {
			reap(w)
		}
		if w.polls[0].result != 0 {
			switch {
			case !receive(w), w.request.op == opRun && !start(w):
				perish(w)
			case w.request.op == opKill && w.busy != 0:
				w.killing = 1
			}
		}
		if w.killing != 0 {
			killChildren(w)
		}
	}
}

// reap collects what has ended, and reports when the leader has, and when there
// is nothing left: no process can leave the subtree of a subreaper, so that to
// have no children is to have no descendants.
//
//go:nosplit
//go:norace
//go:nocheckptr
func reap(w *workspace) {
	flags := uint32(0)
	value := int32(0)
	for {
		pid, errno := sys(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&w.status)), unix.WNOHANG,
			uintptr(unsafe.Pointer(&w.usage)), 0, 0)
		if errno == uintptr(unix.ECHILD) {
			flags |= Drained
			w.busy, w.killing = 0, 0
			break
		}
		if errno != 0 || pid == 0 {
			break
		}
		if int32(pid) == w.leader {
			flags |= Ended
			value = w.status
			w.leader = 0
			w.report.user = w.usage[0]*1e6 + w.usage[1]
			w.report.system = w.usage[2]*1e6 + w.usage[3]
		}
	}
	if flags != 0 {
		tell(w, State, value, flags)
	}
}

// start starts the leader that a request asks for. It is false when the host
// goes away in the middle.
//
//go:nosplit
//go:norace
//go:nocheckptr
func start(w *workspace) bool {
	if !takeBlob(w) {
		return false
	}
	sys3(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&w.failure)), unix.O_CLOEXEC, 0)
	// The leader shares the memory until it has become its program, and this
	// process stands still meanwhile: that is vfork, which saves copying what
	// is thrown away at once. With a stack of its own it disturbs nothing.
	stack := uintptr(unsafe.Pointer(&w.leaderStack)) + stackSize
	pid, errno := clone(unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD), stack, w.entry.leader, w)
	// The word is an errno with a stage above it. The pipe brings none when it
	// is closed by execve; reading it also waits where vfork does not.
	w.word = uint64(errno) | uint64(StageFork)<<32
	sys3(unix.SYS_CLOSE, uintptr(w.failure[1]), 0, 0)
	for i := range w.files {
		sys3(unix.SYS_CLOSE, uintptr(w.files[i]), 0, 0)
	}
	for errno == 0 {
		_, interrupted := sys3(unix.SYS_READ, uintptr(w.failure[0]), uintptr(unsafe.Pointer(&w.word)), 8)
		if interrupted != uintptr(unix.EINTR) {
			break
		}
	}
	sys3(unix.SYS_CLOSE, uintptr(w.failure[0]), 0, 0)
	// The strings may hold secrets, which are not kept longer than needed.
	size := (uintptr(w.request.size) + w.page - 1) &^ (w.page - 1)
	sys3(unix.SYS_MADVISE, uintptr(unsafe.Pointer(&w.blob)), size, unix.MADV_DONTNEED)
	if int32(w.word) != 0 {
		if errno == 0 {
			sys(unix.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
		}
		tell(w, Failed, int32(w.word), uint32(w.word>>32))
		return true
	}
	w.leader, w.busy = int32(pid), 1
	tell(w, Started, int32(pid), 0)
	return true
}

// takeBlob reads a job's strings and turns its offsets into addresses.
//
//go:nosplit
//go:norace
//go:nocheckptr
func takeBlob(w *workspace) bool {
	blob := uintptr(unsafe.Pointer(&w.blob))
	for got := uint64(0); got < w.request.size; {
		n, errno := sys3(unix.SYS_READ, controlFD, blob+uintptr(got), uintptr(w.request.size-got))
		if errno == uintptr(unix.EINTR) {
			continue
		}
		if errno != 0 || n == 0 {
			return false
		}
		got += uint64(n)
	}
	for i := uintptr(0); i < uintptr(w.request.words); i++ {
		if word := wordAt(w, i); *word != 0 {
			*word += uint64(blob)
		}
	}
	return true
}

// leader makes a supervisor's child the program that was asked for.
//
//go:nosplit
//go:norace
//go:nocheckptr
func leader(w *workspace) {
	stage := StageSetup
	errno := uintptr(0)
	sys3(unix.SYS_SETSID, 0, 0, 0)
	for i := uintptr(0); i < 3 && errno == 0; i++ {
		_, errno = sys3(unix.SYS_DUP3, uintptr(w.files[i]), i, 0)
	}
	if errno == 0 && w.request.flags&flagTTY != 0 {
		_, errno = sys3(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	if errno == 0 && w.request.mark != 0 {
		w.limits = [2]uint64{w.request.mark, w.request.mark}
		_, errno = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RSS, uintptr(unsafe.Pointer(&w.limits)), 0, 0, 0)
	}
	if errno == 0 {
		stage = StageDir
		_, errno = sys3(unix.SYS_CHDIR, uintptr(*wordAt(w, 1)), 0, 0)
	}
	if errno == 0 {
		stage = StageExec
		w.word = 0
		sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&w.word)), 0, 8, 0, 0)
		blob := uintptr(unsafe.Pointer(&w.blob))
		_, errno = sys3(unix.SYS_EXECVE, uintptr(*wordAt(w, 0)), blob+firstArg*8, blob+uintptr(w.request.env)*8)
	}
	w.word = uint64(errno) | uint64(stage)<<32
	sys3(unix.SYS_WRITE, uintptr(w.failure[1]), uintptr(unsafe.Pointer(&w.word)), 8)
	exit(127)
}

// perish ends a process whose host is gone or does not want it any more, once
// it has killed all that descends from it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func perish(w *workspace) {
	for {
		killChildren(w)
		for {
			pid, errno := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
			if errno == uintptr(unix.ECHILD) {
				exit(0)
			}
			if errno != 0 || pid == 0 {
				break
			}
		}
		w.timeout = [2]int64{0, 1e6}
		sys(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&w.timeout)), 0, 8, 0)
	}
}

// killChildren sends SIGKILL to each child and its process group. The children
// of what dies become children in turn, so that calling it again and again gets
// all. A child cannot have been replaced by a stranger of the same pid, since
// nobody but this process reaps it; and its group has no strangers in it, since
// a group never reaches beyond the session in which it was made, and each
// leader starts a session of its own.
//
//go:nosplit
//go:norace
//go:nocheckptr
func killChildren(w *workspace) {
	fd, errno := open(&w.childrenPath, unix.O_RDONLY)
	if errno != 0 {
		// A kernel without such a file: at least the leader's own group.
		if w.leader != 0 {
			sys3(unix.SYS_KILL, uintptr(-w.leader), uintptr(unix.SIGKILL), 0)
		}
		return
	}
	pid := uintptr(0)
	for {
		n, errno := sys3(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.blob)), blobSize)
		if errno != 0 || n == 0 {
			break
		}
		for at := uintptr(0); at < n; at++ {
			c := byteAt(w, at)
			if c >= '0' && c <= '9' {
				pid = pid*10 + uintptr(c-'0')
				continue
			}
			if pid != 0 {
				killGroup(pid)
			}
			pid = 0
		}
	}
	sys3(unix.SYS_CLOSE, fd, 0, 0)
}

// killGroup kills a child and its process group.
//
//go:nosplit
//go:norace
//go:nocheckptr
func killGroup(pid uintptr) {
	group, errno := sys(unix.SYS_GETPGID, pid, 0, 0, 0, 0, 0)
	if errno == 0 && group > 1 {
		sys(unix.SYS_KILL, -group, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	}
	sys(unix.SYS_KILL, pid, uintptr(unix.SIGKILL), 0, 0, 0, 0)
}
