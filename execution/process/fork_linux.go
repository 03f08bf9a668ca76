//go:build linux && (amd64 || arm64)

package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is the package's only unsafe one, and the only one whose code runs
// in a forked copy of the host. Everything that can be decided in ordinary Go
// is decided elsewhere, before the fork.
//
// # Why a bare fork
//
// Each command needs a small process of its own above it, the supervisor. To
// run a Go binary for that would cost five threads and megabytes per command,
// and there would have to be such a binary beside every program that imports
// this package. A fork of the running program needs neither: one thread, a few
// pages, and the code is already there.
//
// # What makes it safe
//
// After a fork without exec only the forking thread exists in the child, so the
// Go runtime is dead there: no scheduler, no garbage collector, no stack
// growth, maybe a lock that nobody will ever release. The code below therefore
// keeps to what package syscall keeps to between fork and exec:
//
//   - go:nosplit: no stack is ever grown. The linker proves that all calls
//     together fit into what a goroutine always has left.
//   - go:norace, go:nocheckptr: no calls into the race detector or checkptr.
//   - nothing but raw system calls, integers and one workspace: no allocation,
//     no maps, no interfaces, no strings, no Go pointers stored anywhere (that
//     would be a write barrier).
//   - all signals stay blocked, so that no handler of the runtime ever runs.
//
// # Roles
//
// The first fork is the nursery. It gives up everything it has of the host (see
// dropFiles and dropMemory) and then forks supervisors when asked, which is
// cheap because it is tiny, however large the host is. A supervisor starts
// leaders, one at a time, and reports how they end. A leader is a supervisor's
// child on its way to execve.

// beforeFork blocks all signals and makes growing the stack fatal; afterFork
// undoes it in the parent. They are what syscall.forkExec itself calls, and the
// linker lets other packages have them: the runtime lists them as a promise
// (see go.dev/issue/67401).
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// What a forked process is.
const (
	roleNursery = iota
	roleSupervisor
	roleLeader
)

// controlFD is the one descriptor that a forked process keeps: its end of the
// socket to the host. 0, 1 and 2 are /dev/null.
const controlFD = 3

// A workspace is all the memory that a forked process uses besides its code and
// a page of stack. It is mapped for the purpose and holds integers only: where
// it holds addresses, they are of itself.
type workspace struct {
	// The job's strings; between jobs, and for the nursery, a buffer. It comes
	// first so that it starts with a page.
	blob [blobSize]byte

	// Set by the host before the fork.
	control, null int32
	page          uintptr   // the size of one
	code          [16]span  // mapped from files and needed: the program's own code
	top           uintptr   // set by the fork: above this the stack is the host's
	limits        [2]uint64 // RLIMIT_NOFILE for leaders, when setLimits is not 0
	setLimits     uint64
	oomScore      [8]byte // for leaders, as it is written to oomPath
	oomLength     uint64
	oomPath       [32]byte // paths and names end with a NUL
	mapsPath      [32]byte
	filesPath     [32]byte
	childrenPath  [32]byte
	name          [16]byte

	// Of the process itself.
	signals int32 // a signalfd for SIGCHLD, or -1 where there is none
	leader  int32 // the child to report, 0 when it has ended
	busy    int32 // there are or were children that the host does not know to be gone
	killing int32
	request request
	files   [3]int32 // received with the request
	failure [2]int32 // the pipe on which a leader tells why it could not exec

	// Arguments of system calls.
	polls   [2]pollfd
	timeout [2]int64
	iov     [2]uint64
	message msghdr
	oob     [64]byte
	status  int32
	usage   [18]int64
	report  report
	word    uint64
	action  [4]uint64
	info    [128]byte
}

// blobSize bounds a job's arguments and environment. The kernel's own bound is
// 6 MiB. Pages that nothing is written to take no memory.
const blobSize = 7 << 20

type span struct{ start, end uintptr }

type pollfd struct {
	fd             int32
	events, result int16
}

type msghdr struct {
	name, nameLength, iov, iovLength, control, controlLength uint64
	flags                                                    int64
}

// A request is what the host sends, with descriptors beside it.
type request struct {
	op    uint32
	flags uint32
	size  uint64 // bytes of the blob that follows
	words uint64 // how many offsets the blob starts with
	env   uint64 // which of them is the environment's first
}

// The blob of a job starts with offsets into itself: the program, the
// directory, the arguments, 0, the environment, 0. The strings follow, each
// ending with a NUL.
const firstArg = 2

// The operations and flags of a request.
const (
	opFork = iota + 1 // to the nursery: a supervisor for the socket beside it
	opRun             // to a supervisor: a job, its blob, and fds 0 to 2
	opKill            // to a supervisor: SIGKILL until nothing is left

	flagTTY = 1 // fd 0 becomes the controlling terminal
)

// A report is what a forked process sends.
type report struct {
	kind         uint32
	value        int32  // a pid, an errno or a wait status
	flags        uint32 // for reportState: what holds; for reportFailed: the stage
	_            uint32
	user, system int64 // processor time of the leader in microseconds
}

// The kinds of report, and the flags of reportState and reportFailed.
const (
	reportReady   = iota + 1 // the nursery has given up what was the host's
	reportForked             // a pid
	reportStarted            // the leader's pid, once it has become the program
	reportFailed             // an errno and a stage
	reportState              // what has become of the leader and its tree

	stateEnded   = 1 // value and times are the leader's
	stateDrained = 2 // nothing is left: the kernel said ECHILD

	stageFork  = 1
	stageSetup = 2
	stageDir   = 3
	stageExec  = 4
)

// fork makes the nursery. In the host it returns; in the child never.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func fork(w *workspace) (pid uintptr, errno syscall.Errno) {
	w.top = uintptr(unsafe.Pointer(&pid))
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	settle(w)
	role := roleNursery
	for {
		switch role {
		case roleNursery:
			role = nurse(w)
		case roleSupervisor:
			role = supervise(w)
		default:
			lead(w)
		}
	}
}

// settle turns a copy of the host into a process that has nothing of it.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func settle(w *workspace) {
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	w.word = ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&w.word)), 0, 8, 0, 0)
	// Ignored signals would stay ignored across execve.
	w.action = [4]uint64{}
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&w.action)), 0, 8, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&w.name)), 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	// No process of the same user may read its memory or trace it.
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
	dropFiles(w)
	dropMemory(w)
	w.word = 1 << (uint(unix.SIGCHLD) - 1)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&w.word)), 8,
		unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	w.signals = int32(fd)
	if errno != 0 {
		w.signals = -1
	}
	tell(w, reportReady, 0, 0)
}

// dropFiles closes every descriptor but the control socket.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func dropFiles(w *workspace) {
	// Out of the way first: both may lie among the numbers that they go to.
	control, _, _ := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(w.control), unix.F_DUPFD_CLOEXEC, 10)
	null, _, _ := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(w.null), unix.F_DUPFD_CLOEXEC, 10)
	for fd := uintptr(0); fd < controlFD; fd++ {
		syscall.RawSyscall(unix.SYS_DUP3, null, fd, 0)
	}
	syscall.RawSyscall(unix.SYS_DUP3, control, controlFD, unix.O_CLOEXEC)
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, controlFD+1, uintptr(^uint32(0)), 0); errno == 0 {
		return
	}
	// Kernels before 5.9, and some that only look like Linux.
	dir, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(&w.filesPath)),
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		fail(w)
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_GETDENTS64, dir, uintptr(unsafe.Pointer(&w.blob)), blobSize)
		if errno != 0 || n == 0 {
			break
		}
		for at := uintptr(0); at < n; {
			const sizeAt, nameAt = 16, 19
			fd := uintptr(0)
			for i := at + nameAt; byteAt(w, i) >= '0' && byteAt(w, i) <= '9'; i++ {
				fd = fd*10 + uintptr(byteAt(w, i)-'0')
			}
			if fd > controlFD && fd != dir {
				syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			}
			at += uintptr(byteAt(w, at+sizeAt)) | uintptr(byteAt(w, at+sizeAt+1))<<8
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, dir, 0, 0)
}

// dropMemory gives back every page that was the host's. What is mapped from
// files or shared goes, other than the program itself, whose variables go back
// to what they are in the file. Memory of one's own becomes zero but stays
// mapped: the kernel may know addresses in it that Go does not (a C library
// registers one for restartable sequences), and faults on those are fatal.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func dropMemory(w *workspace) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(&w.mapsPath)),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		fail(w)
	}
	// All of it is read before anything changes.
	size := uintptr(0)
	for size < blobSize {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.blob))+size, blobSize-size)
		if errno != 0 {
			fail(w)
		}
		if n == 0 {
			break
		}
		size += n
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	for at := uintptr(0); at < size; {
		at = dropMapping(w, at)
	}
	scrubStack(w)
	syscall.RawSyscall(unix.SYS_MADVISE, uintptr(unsafe.Pointer(&w.blob)), blobSize, unix.MADV_DONTNEED)
}

// dropMapping handles the line of /proc/self/maps that starts at the given
// place of the blob, and returns where the next one starts. A line is
// "start-end perms offset device inode name".
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func dropMapping(w *workspace, at uintptr) uintptr {
	var start, end, inode uintptr
	var writable, shared, special bool
	field := 0
	for ; byteAt(w, at) != '\n' && byteAt(w, at) != 0; at++ {
		c := uintptr(byteAt(w, at))
		digit := c - '0'
		if c >= 'a' {
			digit = c - 'a' + 10
		}
		switch {
		case c == ' ' || (c == '-' && field == 0):
			// The name is set off by more than one space.
			if byteAt(w, at-1) != ' ' {
				field++
			}
		case field == 0:
			start = start<<4 | digit
		case field == 1:
			end = end<<4 | digit
		case field == 2:
			writable = writable || c == 'w'
			shared = shared || c == 's'
		case field == 5:
			inode |= digit
		case field == 6:
			// "[vdso]" and its like belong to the kernel.
			special = c == '[' && byteAt(w, at+1) == 'v'
			field++
		}
	}
	next := at + 1
	if special || start <= uintptr(unsafe.Pointer(w)) && uintptr(unsafe.Pointer(w)) < end {
		return next
	}
	for i := range w.code {
		if start < w.code[i].end && w.code[i].start < end {
			if writable {
				syscall.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
			}
			return next
		}
	}
	if shared || inode != 0 {
		syscall.RawSyscall(unix.SYS_MUNMAP, start, end-start, 0)
		return next
	}
	// What is in use of the stack, and a little below it, stays.
	low := (uintptr(unsafe.Pointer(&field)) - stackSlack) &^ (w.page - 1)
	high := (w.top + stackSlack + w.page - 1) &^ (w.page - 1)
	if start < high && low < end {
		if start < low {
			syscall.RawSyscall(unix.SYS_MADVISE, start, low-start, unix.MADV_DONTNEED)
		}
		start = high
	}
	if start < end {
		syscall.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
	}
	return next
}

// stackSlack is more than the frames of this file need below or above.
const stackSlack = 2048

// scrubStack zeroes what dropMapping left of the pages round the stack in use.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func scrubStack(w *workspace) {
	anchor := uint64(0)
	here := uintptr(unsafe.Pointer(&anchor))
	low := (here - stackSlack) &^ (w.page - 1)
	high := (w.top + stackSlack + w.page - 1) &^ (w.page - 1)
	for p := low; p < here-stackSlack/2; p += 8 {
		*(*uint64)(unsafe.Add(unsafe.Pointer(&anchor), p-here)) = 0
	}
	for p := (w.top + stackSlack/2) &^ 7; p < high; p += 8 {
		*(*uint64)(unsafe.Add(unsafe.Pointer(&anchor), p-here)) = 0
	}
}

// nurse waits for one thing to do in the nursery and does it.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func nurse(w *workspace) int {
	const endless, poll = -1, 100
	timeout := int64(endless)
	if w.signals < 0 {
		timeout = poll
	}
	await(w, timeout)
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
		if errno != 0 || pid == 0 {
			break
		}
	}
	if w.polls[0].result == 0 {
		return roleNursery
	}
	if !receive(w) {
		perish(w)
	}
	socket := uintptr(w.files[0])
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
		syscall.RawSyscall(unix.SYS_DUP3, socket, controlFD, unix.O_CLOEXEC)
		syscall.RawSyscall(unix.SYS_CLOSE, socket, 0, 0)
		return roleSupervisor
	}
	syscall.RawSyscall(unix.SYS_CLOSE, socket, 0, 0)
	if errno != 0 {
		tell(w, reportFailed, int32(errno), stageFork)
	} else {
		tell(w, reportForked, int32(pid), 0)
	}
	return roleNursery
}

// supervise waits for one thing to do in a supervisor and does it.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func supervise(w *workspace) int {
	const endless, poll, hurry = -1, 2, 1
	timeout := int64(endless)
	switch {
	case w.killing != 0:
		timeout = hurry
	case w.busy != 0 && w.signals < 0:
		timeout = poll
	}
	await(w, timeout)
	if w.busy != 0 {
		reap(w)
	}
	if w.polls[0].result != 0 {
		if !receive(w) {
			perish(w)
		}
		switch {
		case w.request.op == opRun:
			return start(w)
		case w.request.op == opKill && w.busy != 0:
			w.killing = 1
		}
	}
	if w.killing != 0 {
		killChildren(w)
	}
	return roleSupervisor
}

// reap collects what has ended, and reports when the leader has, and when
// there is nothing left: no process can leave the subtree of a subreaper, so
// that to have no children is to have no descendants.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func reap(w *workspace) {
	state := uint32(0)
	value := int32(0)
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&w.status)),
			unix.WNOHANG, uintptr(unsafe.Pointer(&w.usage)), 0, 0)
		if errno == unix.ECHILD {
			state |= stateDrained
			w.busy, w.killing = 0, 0
			break
		}
		if errno != 0 || pid == 0 {
			break
		}
		if int32(pid) == w.leader {
			state |= stateEnded
			value = w.status
			w.leader = 0
			w.report.user = w.usage[0]*1e6 + w.usage[1]
			w.report.system = w.usage[2]*1e6 + w.usage[3]
		}
	}
	if state != 0 {
		tell(w, reportState, value, state)
	}
}

// start starts the leader that a request asks for.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func start(w *workspace) int {
	blob := uintptr(unsafe.Pointer(&w.blob))
	for got := uint64(0); got < w.request.size; {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, controlFD, blob+uintptr(got), uintptr(w.request.size-got))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			perish(w)
		}
		got += uint64(n)
	}
	for i := uint64(0); i < w.request.words; i++ {
		if word := wordAt(w, uintptr(i)); *word != 0 {
			*word += uint64(blob)
		}
	}
	syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&w.failure)), unix.O_CLOEXEC, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		return roleLeader
	}
	// A word whose lower half is an errno and whose upper half a stage; none
	// when the pipe was closed by execve.
	w.word = uint64(errno) | stageFork<<32
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(w.failure[1]), 0, 0)
	for i := range w.files {
		syscall.RawSyscall(unix.SYS_CLOSE, uintptr(w.files[i]), 0, 0)
	}
	for errno == 0 {
		_, _, again := syscall.RawSyscall(unix.SYS_READ, uintptr(w.failure[0]), uintptr(unsafe.Pointer(&w.word)), 8)
		if again != unix.EINTR {
			break
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(w.failure[0]), 0, 0)
	// The strings may hold secrets, which are not kept longer than needed.
	syscall.RawSyscall(unix.SYS_MADVISE, blob, (uintptr(w.request.size)+w.page-1)&^(w.page-1), unix.MADV_DONTNEED)
	if int32(w.word) != 0 {
		if errno == 0 {
			syscall.RawSyscall6(unix.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
		}
		tell(w, reportFailed, int32(w.word), uint32(w.word>>32))
		return roleSupervisor
	}
	w.leader, w.busy = int32(pid), 1
	tell(w, reportStarted, int32(pid), 0)
	return roleSupervisor
}

// lead makes a supervisor's child the program that was asked for. It does not
// return.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func lead(w *workspace) {
	stage := uint64(stageSetup)
	blob := uintptr(unsafe.Pointer(&w.blob))
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	errno := syscall.Errno(0)
	for i := uintptr(0); i < 3 && errno == 0; i++ {
		_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(w.files[i]), i, 0)
	}
	if errno == 0 && w.request.flags&flagTTY != 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	// The score's file belongs to the user only while the process is dumpable.
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	if w.oomLength != 0 {
		fd, _, failed := syscall.RawSyscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(&w.oomPath)),
			unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
		if failed == 0 {
			syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&w.oomScore)), uintptr(w.oomLength))
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
	if w.setLimits != 0 {
		syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&w.limits)), 0, 0, 0)
	}
	if errno == 0 {
		stage = stageDir
		_, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(*wordAt(w, 1)), 0, 0)
	}
	if errno == 0 {
		stage = stageExec
		w.word = 0
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&w.word)), 0, 8, 0, 0)
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(*wordAt(w, 0)), blob+firstArg*8, blob+uintptr(w.request.env)*8)
	}
	w.word = uint64(errno) | stage<<32
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.failure[1]), uintptr(unsafe.Pointer(&w.word)), 8)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// perish ends a forked process whose host is gone or does not want it any
// more, once it has killed all that descends from it. It does not return.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func perish(w *workspace) {
	for {
		killChildren(w)
		for {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
			if errno == unix.ECHILD {
				syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			if errno != 0 || pid == 0 {
				break
			}
		}
		w.polls[0].fd = -1
		w.timeout = [2]int64{0, 1e6}
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.polls)), 1, uintptr(unsafe.Pointer(&w.timeout)), 0, 8, 0)
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
//go:noinline
func killChildren(w *workspace) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(&w.childrenPath)),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		// A kernel without such a file: at least the leader's own group.
		if w.leader != 0 {
			syscall.RawSyscall(unix.SYS_KILL, uintptr(-w.leader), uintptr(unix.SIGKILL), 0)
		}
		return
	}
	pid := uintptr(0)
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.blob)), blobSize)
		if errno != 0 || n == 0 {
			break
		}
		for at := uintptr(0); at < n; at++ {
			c := byteAt(w, at)
			if c >= '0' && c <= '9' {
				pid = pid*10 + uintptr(c-'0')
				continue
			}
			if pid == 0 {
				continue
			}
			group, _, errno := syscall.RawSyscall(unix.SYS_GETPGID, pid, 0, 0)
			if errno == 0 && group > 1 {
				syscall.RawSyscall(unix.SYS_KILL, -group, uintptr(unix.SIGKILL), 0)
			}
			syscall.RawSyscall(unix.SYS_KILL, pid, uintptr(unix.SIGKILL), 0)
			pid = 0
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// await waits until the host says something, a child ends, or the time is over;
// -1 milliseconds are for ever.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func await(w *workspace, milliseconds int64) {
	w.polls[0] = pollfd{fd: controlFD, events: unix.POLLIN}
	w.polls[1] = pollfd{fd: w.signals, events: unix.POLLIN}
	limit := uintptr(0)
	if milliseconds >= 0 {
		w.timeout = [2]int64{0, milliseconds * 1e6}
		limit = uintptr(unsafe.Pointer(&w.timeout))
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.polls)), 2, limit, 0, 8, 0)
	if errno != 0 {
		w.polls[0].result, w.polls[1].result = 0, 0
		return
	}
	if w.polls[1].result != 0 {
		syscall.RawSyscall(unix.SYS_READ, uintptr(w.signals), uintptr(unsafe.Pointer(&w.info)), 128)
	}
}

// receive takes a request and its descriptors from the control socket. It is
// false when the other end is closed.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func receive(w *workspace) bool {
	w.files = [3]int32{-1, -1, -1}
	w.iov = [2]uint64{uint64(uintptr(unsafe.Pointer(&w.request))), uint64(unsafe.Sizeof(w.request))}
	for {
		w.message = msghdr{
			iov: uint64(uintptr(unsafe.Pointer(&w.iov))), iovLength: 1,
			control: uint64(uintptr(unsafe.Pointer(&w.oob))), controlLength: uint64(unsafe.Sizeof(w.oob)),
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, controlFD, uintptr(unsafe.Pointer(&w.message)),
			unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n != unsafe.Sizeof(w.request) {
			return false
		}
		break
	}
	// The header is its length in 8 bytes, a level and a type in 4 each.
	const header = 16
	if w.message.controlLength < header {
		return true
	}
	length := uintptr(*(*uint64)(unsafe.Pointer(&w.oob)))
	for i := uintptr(0); i < 3 && header+(i+1)*4 <= length; i++ {
		w.files[i] = *(*int32)(unsafe.Add(unsafe.Pointer(&w.oob), header+i*4))
	}
	return true
}

// tell sends a report. That nobody listens any more shows at the next receive.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func tell(w *workspace, kind uint32, value int32, flags uint32) {
	w.report.kind, w.report.value, w.report.flags = kind, value, flags
	syscall.RawSyscall6(unix.SYS_SENDTO, controlFD, uintptr(unsafe.Pointer(&w.report)), unsafe.Sizeof(w.report),
		unix.MSG_NOSIGNAL, 0, 0)
}

// fail ends a nursery that could not give up what was the host's: then there
// is none.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func fail(*workspace) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
}

// byteAt is one byte of the blob.
//
//go:nosplit
//go:norace
//go:nocheckptr
func byteAt(w *workspace, at uintptr) byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(&w.blob), at))
}

// wordAt is one of the offsets at the start of the blob.
//
//go:nosplit
//go:norace
//go:nocheckptr
func wordAt(w *workspace, i uintptr) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(&w.blob), i*8))
}

// atCWD is AT_FDCWD as an argument of a raw system call.
const atCWD = ^uintptr(0) - 99

// workspaceSize is the size of a workspace in bytes.
const workspaceSize = int(unsafe.Sizeof(workspace{}))

// workspaceOf is the workspace in memory that was mapped for it. It is page
// aligned, and so is no problem for any field.
func workspaceOf(mapping []byte) *workspace {
	return (*workspace)(unsafe.Pointer(unsafe.SliceData(mapping)))
}
