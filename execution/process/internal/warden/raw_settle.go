//go:build linux && (amd64 || arm64)

package warden

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// detach takes a copy of the host out of the host's session and away from its
// signals, makes it the one that orphans below it fall to, and keeps others of
// the same user from reading its memory and tracing it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func detach(w *workspace) {
	sys3(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0)
	sys3(unix.SYS_SETSID, 0, 0, 0)
	// Signals are blocked already; those that the host ignores would stay
	// ignored across execve.
	w.action = [4]uint64{}
	for sig := uintptr(1); sig <= 64; sig++ {
		sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&w.action)), 0, 8, 0, 0)
	}
	sys3(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&w.name)), 0)
	_, errno := sys3(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	w.orphans = 0
	if errno == 0 {
		w.orphans = 1
	}
}

// watchChildren gets a descriptor that tells when a child ends. Each process
// needs its own: under gVisor it tells of the children of who made it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func watchChildren(w *workspace) {
	w.word = 1 << (uint(unix.SIGCHLD) - 1)
	fd, errno := sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&w.word)), 8,
		unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	w.signals = int32(fd)
	if errno != 0 {
		w.signals = -1
	}
}

// setInherited sets what the commands are to inherit. The score's file belongs
// to the user only while the process is dumpable, which it may be for a moment,
// with nothing left in it to see.
//
//go:nosplit
//go:norace
//go:nocheckptr
func setInherited(w *workspace) {
	sys3(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0)
	if fd, errno := open(&w.oomPath, unix.O_WRONLY); errno == 0 {
		sys3(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&w.oomScore)), uintptr(w.oomLength))
		sys3(unix.SYS_CLOSE, fd, 0, 0)
	}
	if w.setLimits != 0 {
		sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&w.limits)), 0, 0, 0)
	}
	sys3(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0)
}

// dropFiles closes every descriptor but the control socket.
//
//go:nosplit
//go:norace
//go:nocheckptr
func dropFiles(w *workspace) {
	// Out of the way first: both may lie among the numbers that they go to.
	const away = 10
	control, _ := sys3(unix.SYS_FCNTL, uintptr(w.control), unix.F_DUPFD_CLOEXEC, away)
	null, _ := sys3(unix.SYS_FCNTL, uintptr(w.null), unix.F_DUPFD_CLOEXEC, away)
	for fd := uintptr(0); fd < controlFD; fd++ {
		sys3(unix.SYS_DUP3, null, fd, 0)
	}
	sys3(unix.SYS_DUP3, control, controlFD, unix.O_CLOEXEC)
	if _, errno := sys3(unix.SYS_CLOSE_RANGE, controlFD+1, uintptr(^uint32(0)), 0); errno == 0 {
		return
	}
	// Kernels before 5.9, and some that only look like Linux.
	dir, errno := open(&w.filesPath, unix.O_RDONLY|unix.O_DIRECTORY)
	if errno != 0 {
		exit(1)
	}
	for {
		n, errno := sys3(unix.SYS_GETDENTS64, dir, uintptr(unsafe.Pointer(&w.blob)), blobSize)
		if errno != 0 || n == 0 {
			break
		}
		closeListed(w, n, dir)
	}
	sys3(unix.SYS_CLOSE, dir, 0, 0)
}

// closeListed closes the descriptors that are listed in the blob as entries of
// a directory.
//
//go:nosplit
//go:norace
//go:nocheckptr
func closeListed(w *workspace, size, dir uintptr) {
	const sizeAt, nameAt = 16, 19
	for at := uintptr(0); at < size; {
		fd := uintptr(0)
		for i := at + nameAt; byteAt(w, i) >= '0' && byteAt(w, i) <= '9'; i++ {
			fd = fd*10 + uintptr(byteAt(w, i)-'0')
		}
		if fd > controlFD && fd != dir {
			sys3(unix.SYS_CLOSE, fd, 0, 0)
		}
		at += uintptr(byteAt(w, at+sizeAt)) | uintptr(byteAt(w, at+sizeAt+1))<<8
	}
}

// dropMemory gives back every page that was the host's. What is shared with
// others, or mapped from files that are not code, goes altogether. The rest
// stays mapped but loses its content, and the program's variables go back to
// what they are in its file: the kernel and the C library may have an eye on
// places there that Go does not know of, and would miss the pages.
//
//go:nosplit
//go:norace
//go:nocheckptr
func dropMemory(w *workspace) {
	fd, errno := open(&w.mapsPath, unix.O_RDONLY)
	if errno != 0 {
		exit(1)
	}
	// All of it is read before anything changes.
	size := uintptr(0)
	for size < blobSize {
		n, errno := sys3(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.blob))+size, blobSize-size)
		if errno != 0 {
			exit(1)
		}
		if n == 0 {
			break
		}
		size += n
	}
	sys3(unix.SYS_CLOSE, fd, 0, 0)
	for at := uintptr(0); at < size; {
		at = dropMapping(w, at)
	}
	sys3(unix.SYS_MADVISE, uintptr(unsafe.Pointer(&w.blob)), blobSize, unix.MADV_DONTNEED)
}

// dropMapping handles the line of /proc/self/maps that starts at the given
// place of the blob, and returns where the next one starts. A line is
// "start-end perms offset device inode name".
//
//go:nosplit
//go:norace
//go:nocheckptr
func dropMapping(w *workspace, at uintptr) uintptr {
	var start, end, inode uintptr
	var shared, special bool
	field := 0
	for ; byteAt(w, at) != '\n' && byteAt(w, at) != 0; at++ {
		c := uintptr(byteAt(w, at))
		digit := c - '0'
		if c >= 'a' {
			digit = c - 'a' + 10
		}
		switch {
		case c == ' ' || (c == '-' && field == 0):
			if byteAt(w, at-1) != ' ' { // the name is set off by many
				field++
			}
		case field == 0:
			start = start<<4 | digit
		case field == 1:
			end = end<<4 | digit
		case field == 2:
			shared = shared || c == 's'
		case field == 5:
			inode |= digit
		case field == 6:
			// "[vdso]" and its like are the kernel's.
			special = c == '[' && byteAt(w, at+1) == 'v'
			field++
		}
	}
	own := uintptr(unsafe.Pointer(w))
	switch {
	case special:
	case start <= own && own < end:
		// The kernel makes one mapping of two neighbours that are alike.
		dropRange(start, own)
		dropRange(own+(uintptr(workspaceSize)+w.page-1)&^(w.page-1), end)
	case shared || inode != 0 && !isCode(w, start):
		sys3(unix.SYS_MUNMAP, start, end-start, 0)
	default:
		dropRange(start, end)
	}
	return at + 1
}

// dropRange gives back the content of memory of one's own, or where the kernel
// does not take that, as for huge pages before Linux 5.18, the memory itself.
//
//go:nosplit
//go:norace
//go:nocheckptr
func dropRange(start, end uintptr) {
	if start >= end {
		return
	}
	if _, errno := sys(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED, 0, 0, 0); errno != 0 {
		sys(unix.SYS_MUNMAP, start, end-start, 0, 0, 0, 0)
	}
}

// isCode reports whether an address lies in code that is to be kept.
//
//go:nosplit
//go:norace
//go:nocheckptr
func isCode(w *workspace, at uintptr) bool {
	for i := range w.code {
		if w.code[i].start <= at && at < w.code[i].end {
			return true
		}
	}
	return false
}
