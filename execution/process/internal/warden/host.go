//go:build linux && (amd64 || arm64)

package warden

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leaderOOMScore is the least oom_score_adj of a command: when memory runs out,
// the kernel is to end what runs here and not the program that watches it. The
// processes of this package have it too, and are so small that they come last.
const leaderOOMScore = 500

// Fork makes a nursery, which takes requests at its end of a Socket, control,
// and has null, an open /dev/null, as its standard streams. Its first report is
// Ready. It ends, and kills whatever is below it, when the other end of control
// is closed or shut down.
func Fork(control, null int) (pid int, err error) {
	mapping, err := unix.Mmap(-1, 0, workspaceSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(mapping) }()
	w := workspaceOf(mapping)
	w.entry.nursery = reflect.ValueOf(nursery).Pointer()
	w.entry.supervisor = reflect.ValueOf(supervisor).Pointer()
	w.entry.leader = reflect.ValueOf(leader).Pointer()
	w.control, w.null = int32(control), int32(null) //nolint:gosec // file descriptors
	w.page = uintptr(os.Getpagesize())
	copy(w.name[:], "pinfold-watch")
	copy(w.oomPath[:], "/proc/self/oom_score_adj")
	copy(w.mapsPath[:], "/proc/self/maps")
	copy(w.filesPath[:], "/proc/self/fd")
	copy(w.childrenPath[:], "/proc/thread-self/children")
	if err := findCode(w); err != nil {
		return 0, err
	}
	setInheritance(w)
	child, errno := fork(w)
	if errno != 0 {
		return 0, os.NewSyscallError("fork", errno)
	}
	return int(child), nil
}

// setInheritance decides what the commands inherit. It undoes for them what the
// Go runtime does for its own program: to raise the limit on open files as far
// as it goes, less one to tell by. What it was before is not to be had any more;
// 1024 is what the kernel starts with, and what programs that use select can
// take.
func setInheritance(w *workspace) {
	const usual = 1024
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Max > 0 && limit.Cur == limit.Max-1 {
		w.limits = [2]uint64{min(usual, limit.Max), limit.Max}
		w.setLimits = 1
	}
	score := leaderOOMScore
	if data, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		if own, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			score = max(score, own)
		}
	}
	w.oomLength = uint64(copy(w.oomScore[:], strconv.Itoa(score))) //nolint:gosec // at most 8
}

// findCode notes where the program's files, its own and its libraries', are
// mapped: they stay. That they are code shows by their being executable.
func findCode(w *workspace) error {
	maps, err := readMaps()
	if err != nil {
		return err
	}
	pc := reflect.ValueOf(fork).Pointer()
	code := map[string]bool{}
	own := ""
	for _, m := range maps {
		if m.executable {
			code[m.file] = true
		}
		if m.start <= pc && pc < m.end {
			own = m.file
		}
	}
	if own == "" {
		return errors.New("the program is not in its own memory map")
	}
	n := 0
	for _, first := range []bool{true, false} { // the program itself must find room
		for _, m := range maps {
			if (m.file == own) == first && code[m.file] && n < len(w.code) {
				w.code[n] = m.span
				n++
			}
		}
	}
	return nil
}

type fileMapping struct {
	span
	file       string // device, inode and name
	executable bool
}

// readMaps lists what is mapped from files.
func readMaps() ([]fileMapping, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var maps []fileMapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// start-end perms offset device inode name
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[4] == "0" {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(low, 16, 64)
		end, err2 := strconv.ParseUint(high, 16, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("unexpected line in /proc/self/maps: %q", lines.Text())
		}
		maps = append(maps, fileMapping{
			span:       span{uintptr(start), uintptr(end)},
			file:       strings.Join(fields[3:], " "),
			executable: strings.Contains(fields[1], "x"),
		})
	}
	return maps, lines.Err()
}
