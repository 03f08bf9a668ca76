package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// A procStat is the part of /proc/PID/stat that is needed here.
type procStat struct {
	parent, group   int
	zombie, stopped bool
}

// readStat looks at one process. It is false when there is none.
func readStat(pid int) (procStat, bool) {
	var buffer [512]byte
	n := readProc(pid, "/stat", buffer[:])
	// "pid (name) state parent group …", where the name may hold anything.
	at := bytes.LastIndexByte(buffer[:n], ')')
	if at < 0 || at+4 >= n {
		return procStat{}, false
	}
	state := buffer[at+2]
	s := procStat{zombie: state == 'Z' || state == 'X', stopped: state == 'T'}
	rest := buffer[at+4 : n]
	s.parent, rest = cutNumber(rest)
	s.group, _ = cutNumber(rest)
	return s, true
}

func cutNumber(b []byte) (number int, rest []byte) {
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		number = number*10 + int(b[i]-'0')
	}
	if i < len(b) {
		i++
	}
	return number, b[i:]
}

// readProc reads the start of a file of a process, 0 bytes where it cannot.
func readProc(pid int, name string, buffer []byte) int {
	path := append(strconv.AppendInt(append(make([]byte, 0, 32), "/proc/"...), int64(pid), 10), name...)
	fd, err := unix.Open(string(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return max(n, 0)
	}
}

// processes lists all processes that there are to see, with their parents.
func processes() map[int]procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	all := map[int]procStat{}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			pid, notNumber := strconv.Atoi(name)
			if notNumber != nil {
				continue
			}
			if stat, ok := readStat(pid); ok {
				all[pid] = stat
			}
		}
		if err != nil {
			return all
		}
	}
}

// descendants lists the living processes below root, not root itself. What is
// forked while it looks may be missing.
func descendants(root int) []int {
	all := processes()
	children := make(map[int][]int, len(all))
	for pid, stat := range all {
		children[stat.parent] = append(children[stat.parent], pid)
	}
	var found []int
	queue := []int{root}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent] {
			if pid == root {
				continue
			}
			queue = append(queue, pid)
			if !all[pid].zombie {
				found = append(found, pid)
			}
		}
		delete(children, parent)
	}
	return found
}

// signalMember sends signals to a process if it still belongs to a family. A
// process id says little: by the time of the signal it may be another's. A
// descriptor of the process holds fast to it, so that one look afterwards is
// enough.
func signalMember(f family, pid int, signals ...unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if errors.Is(err, unix.ESRCH) || !f.has(pid) {
		return
	}
	for _, sig := range signals {
		if err == nil {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		} else {
			// No such call before Linux 5.3, or no descriptor to be had.
			_ = unix.Kill(pid, sig)
		}
	}
}

// isBelow reports whether root is an ancestor of pid.
func isBelow(root, pid int) bool {
	const deepest = 1 << 16
	for range deepest {
		stat, ok := readStat(pid)
		if !ok || stat.parent == 0 {
			return false
		}
		if stat.parent == root {
			return true
		}
		pid = stat.parent
	}
	return false
}

// groupMembers lists the living processes of a group.
func groupMembers(pgid int) []execution.ProcessInfo {
	var pids []int
	for pid, stat := range processes() {
		if stat.group == pgid && !stat.zombie {
			pids = append(pids, pid)
		}
	}
	return describe(pids)
}

// describe tells what processes are, at most execution.MaxLeftovers of them.
func describe(pids []int) []execution.ProcessInfo {
	var infos []execution.ProcessInfo
	for _, pid := range pids {
		if len(infos) == execution.MaxLeftovers {
			break
		}
		var buffer [commandLimit + 1]byte
		n := readProc(pid, "/cmdline", buffer[:])
		command := buffer[:n]
		if n == 0 {
			// It has become a zombie, or has no arguments at all.
			if n = readProc(pid, "/comm", buffer[:]); n == 0 {
				continue
			}
			command = bytes.TrimSuffix(buffer[:n], []byte("\n"))
		}
		infos = append(infos, execution.ProcessInfo{PID: pid, Command: commandLine(command)})
	}
	return infos
}
