//go:build linux && (amd64 || arm64)

package warden

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// beforeFork blocks all signals and makes growing the stack fatal; afterFork
// undoes it in the parent. They are what syscall.forkExec itself calls, and the
// linker lets other packages have them: the runtime lists them as a promise
// (see go.dev/issue/67401).
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// sys makes a system call, without telling the scheduler.
//
//go:noescape
func sys(number, a1, a2, a3, a4, a5, a6 uintptr) (result, errno uintptr)

// clone makes a process that starts with the function at entry, on the given
// stack, whose end is given since it grows down. With flags of SIGCHLD alone it
// has a copy of all memory, as after fork. The function must not return.
//
// It is entered by its address and not by its name, since for a name the
// compiler would put a piece between assembler and Go that tells the race
// detector of the call.
//
//go:noescape
func clone(flags, stack, entry uintptr, w *workspace) (pid, errno uintptr)

// controlFD is the one descriptor that a forked process keeps: its end of the
// socket to the host. 0, 1 and 2 are /dev/null.
const controlFD = 3

// A workspace is all the memory that a forked process uses besides its code. It
// is mapped for the purpose and holds integers only: where they are addresses,
// they lie within it.
type workspace struct {
	// The strings of a job; between jobs, and for the nursery, a buffer. It
	// comes first so that it starts with a page.
	blob [blobSize]byte

	stack       [stackSize]byte // of the nursery or supervisor
	leaderStack [stackSize]byte

	// Set by the host before the fork.
	entry         struct{ nursery, supervisor, leader uintptr } // where the roles' functions are
	control, null int32
	page          uintptr   // the size of one
	code          [256]span // mapped from files and to be kept
	setLimits     uint64    // not 0 when limits is to be RLIMIT_NOFILE
	limits        [2]uint64
	oomLength     uint64
	oomScore      [8]byte  // as it is written to oomPath
	oomPath       [32]byte // paths and names end with a NUL
	mapsPath      [32]byte
	filesPath     [32]byte
	childrenPath  [32]byte
	name          [16]byte

	// Of the process itself.
	orphans int32 // 1 where those below fall to this process, 0 where that cannot be
	signals int32 // a signalfd for SIGCHLD, or -1 where there is none
	leader  int32 // the child to report, 0 when it has ended
	busy    int32 // the host does not know yet that nothing is left
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

const (
	// blobSize bounds a job's arguments and environment. The kernel's own bound
	// is 6 MiB. Pages that nothing is written to take no memory.
	blobSize = 7 << 20

	stackSize     = 64 << 10
	workspaceSize = int(unsafe.Sizeof(workspace{}))
)

type span struct{ start, end uintptr }

type pollfd struct {
	fd             int32
	events, result int16
}

type msghdr struct {
	name, nameLength, iov, iovLength, control, controlLength uint64
	flags                                                    int64
}

// A report as it is sent; see Report.
type report struct {
	kind         uint32
	value        int32
	flags        uint32
	_            uint32
	user, system int64 // in microseconds
}

// workspaceOf is the workspace in memory that was mapped for it.
func workspaceOf(mapping []byte) *workspace {
	return (*workspace)(unsafe.Pointer(unsafe.SliceData(mapping)))
}

// fork makes the nursery.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func fork(w *workspace) (pid uintptr, errno syscall.Errno) {
	stack := uintptr(unsafe.Pointer(&w.stack)) + stackSize
	beforeFork()
	pid, failed := clone(uintptr(unix.SIGCHLD), stack, w.entry.nursery, w)
	afterFork()
	return pid, syscall.Errno(failed)
}

// sys3 is sys for calls of up to three arguments.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sys3(number, a1, a2, a3 uintptr) (result, errno uintptr) {
	return sys(number, a1, a2, a3, 0, 0, 0)
}

// open opens a file by a path in the workspace.
//
//go:nosplit
//go:norace
//go:nocheckptr
func open(path *[32]byte, flags uintptr) (fd, errno uintptr) {
	const currentDir = ^uintptr(0) - 99 // AT_FDCWD
	return sys(unix.SYS_OPENAT, currentDir, uintptr(unsafe.Pointer(path)), flags|unix.O_CLOEXEC, 0, 0, 0)
}

// exit ends the process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func exit(code uintptr) {
	for {
		sys3(unix.SYS_EXIT_GROUP, code, 0, 0)
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

// await waits until the host says something, a child ends, or the time is over;
// -1 milliseconds are for ever.
//
//go:nosplit
//go:norace
//go:nocheckptr
func await(w *workspace, milliseconds int64) {
	w.polls[0] = pollfd{fd: controlFD, events: unix.POLLIN}
	w.polls[1] = pollfd{fd: w.signals, events: unix.POLLIN}
	limit := uintptr(0)
	if milliseconds >= 0 {
		w.timeout = [2]int64{0, milliseconds * 1e6}
		limit = uintptr(unsafe.Pointer(&w.timeout))
	}
	_, errno := sys(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.polls)), 2, limit, 0, 8, 0)
	if errno != 0 {
		w.polls[0].result, w.polls[1].result = 0, 0
	}
	if w.polls[1].result != 0 {
		sys3(unix.SYS_READ, uintptr(w.signals), uintptr(unsafe.Pointer(&w.info)), 128)
	}
}

// receive takes a request and its descriptors from the control socket. It is
// false when the other end is closed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func receive(w *workspace) bool {
	w.files = [3]int32{-1, -1, -1}
	w.iov = [2]uint64{uint64(uintptr(unsafe.Pointer(&w.request))), requestSize}
	for {
		w.message = msghdr{
			iov: uint64(uintptr(unsafe.Pointer(&w.iov))), iovLength: 1,
			control: uint64(uintptr(unsafe.Pointer(&w.oob))), controlLength: uint64(unsafe.Sizeof(w.oob)),
		}
		n, errno := sys3(unix.SYS_RECVMSG, controlFD, uintptr(unsafe.Pointer(&w.message)),
			unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
		if errno == uintptr(unix.EINTR) {
			continue
		}
		if errno != 0 || n != requestSize {
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
func tell(w *workspace, kind Kind, value int32, flags uint32) {
	w.report.kind, w.report.value, w.report.flags = uint32(kind), value, flags
	sys(unix.SYS_SENDTO, controlFD, uintptr(unsafe.Pointer(&w.report)), reportSize, unix.MSG_NOSIGNAL, 0, 0)
}
