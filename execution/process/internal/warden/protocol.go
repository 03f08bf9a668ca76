//go:build linux && (amd64 || arm64)

package warden

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// What a request asks for.
const (
	opFork = iota + 1 // of the nursery: a supervisor for the socket beside it
	opRun             // of a supervisor: a job, whose blob follows, with fds 0 to 2 beside it
	opKill            // of a supervisor: SIGKILL until nothing is left

	flagTTY = 1 // fd 0 becomes the controlling terminal
)

// A request is what the host sends, with descriptors beside it.
type request struct {
	op    uint32
	flags uint32
	size  uint64 // bytes of the blob that follows
	words uint64 // how many offsets the blob starts with
	env   uint64 // which of them is the environment's first
	mark  uint64 // RLIMIT_RSS of the leader, where not 0
}

// The blob of a job starts with offsets into itself: the program, the
// directory, the arguments, 0, the environment, 0. The strings follow, each
// ending with a NUL.
const firstArg = 2

const (
	requestSize = 40
	reportSize  = 32
)

// A Kind is a kind of report.
type Kind uint32

// The kinds of report.
const (
	Ready   Kind = iota + 1 // the nursery has given up what was the host's; Value is 1 where it is a subreaper
	Forked                  // Value is the pid of a supervisor
	Started                 // Value is the pid of the leader, which has become its program
	Failed                  // Value is an errno, Flags a Stage
	State                   // Flags say what has become of the command
)

// Flags of a State.
const (
	Ended   = 1 << iota // the leader has: Value is its wait status, and the times hold
	Drained             // nothing is left: the kernel said that there is no child
)

// A Stage says which step of a start failed.
type Stage uint32

// The stages of a start.
const (
	StageFork  Stage = iota + 1 // no process could be made
	StageSetup                  // its streams could not be connected
	StageDir                    // its directory could not be entered
	StageExec                   // its program could not be executed
)

// A Report is what a nursery or a supervisor says.
type Report struct {
	Kind         Kind
	Value        int
	Flags        uint32
	User, System time.Duration // of processor, for Ended
}

// A Job is what a supervisor is to run.
type Job struct {
	Path  string // absolute, or relative to Dir
	Dir   string
	Args  []string
	Env   []string
	Files [3]int // descriptors for stdin, stdout and stderr
	TTY   bool   // they are a terminal, to be the controlling one
	Mark  uint64 // the limit RLIMIT_RSS, to tell the command's processes by; 0 for none
}

// AskFork asks a nursery for a supervisor at the other end of a socket. The
// answer is Forked or Failed.
func AskFork(control *os.File, socket int) error {
	return send(control, request{op: opFork}, nil, []int{socket})
}

// AskKill asks a supervisor to kill all that is below it, again and again
// until it is drained. It is ignored when nothing runs.
func AskKill(control *os.File) error {
	return send(control, request{op: opKill}, nil, nil)
}

// AskRun asks a supervisor on which nothing runs for a job. The answer is
// Started or Failed; after Started come reports of its state. It fails with
// E2BIG when the job is larger than the kernel allows.
func AskRun(control *os.File, j *Job) error {
	r, blob, err := encode(j)
	if err != nil {
		return err
	}
	return send(control, r, blob, j.Files[:])
}

// encode lays a job out as a supervisor expects it.
func encode(j *Job) (request, []byte, error) {
	words := firstArg + len(j.Args) + 1 + len(j.Env) + 1
	size := words*8 + len(j.Path) + 1 + len(j.Dir) + 1
	for _, list := range [][]string{j.Args, j.Env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	if size > blobSize {
		return request{}, nil, unix.E2BIG
	}
	blob := make([]byte, words*8, size)
	word := 0
	add := func(list ...string) {
		for _, s := range list {
			binary.NativeEndian.PutUint64(blob[word*8:], uint64(len(blob)))
			blob = append(append(blob, s...), 0)
			word++
		}
	}
	add(j.Path, j.Dir)
	add(j.Args...)
	word++
	r := request{op: opRun, size: uint64(size), words: uint64(words), env: uint64(word), mark: j.Mark}
	add(j.Env...)
	if j.TTY {
		r.flags = flagTTY
	}
	return r, blob, nil
}

// send sends a request, a blob and descriptors. The blob may be longer than a
// socket's buffer; the descriptors go with its first part.
func send(control *os.File, r request, blob []byte, fds []int) error {
	message := make([]byte, requestSize, requestSize+len(blob))
	binary.NativeEndian.PutUint32(message[0:], r.op)
	binary.NativeEndian.PutUint32(message[4:], r.flags)
	binary.NativeEndian.PutUint64(message[8:], r.size)
	binary.NativeEndian.PutUint64(message[16:], r.words)
	binary.NativeEndian.PutUint64(message[24:], r.env)
	binary.NativeEndian.PutUint64(message[32:], r.mark)
	message = append(message, blob...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	conn, err := control.SyscallConn()
	if err != nil {
		return err
	}
	var sent int
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		for {
			sent, sendErr = unix.SendmsgN(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(sendErr, unix.EINTR) {
				return !errors.Is(sendErr, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, sendErr); err != nil || sent == len(message) {
		return err
	}
	_, err = control.Write(message[sent:])
	return err
}

// Read reads one report. io.EOF says that the process has gone.
func Read(control io.Reader) (Report, error) {
	var b [reportSize]byte
	if _, err := io.ReadFull(control, b[:]); err != nil {
		return Report{}, err
	}
	word := binary.NativeEndian.Uint32
	microseconds := func(b []byte) time.Duration {
		return time.Duration(binary.NativeEndian.Uint64(b)) * time.Microsecond //nolint:gosec // from the kernel, far below the limit
	}
	return Report{
		Kind:   Kind(word(b[0:])),
		Value:  int(int32(word(b[4:]))), //nolint:gosec // a signed number is what was sent
		Flags:  word(b[8:]),
		User:   microseconds(b[16:]),
		System: microseconds(b[24:]),
	}, nil
}

// IsGone reports whether an error of this package means that the process at the
// other end has gone.
func IsGone(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Socket makes a connection for a process that is about to be forked. Ours does
// not block.
func Socket() (ours *os.File, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), fds[1], nil
}
