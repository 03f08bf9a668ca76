//go:build linux && (amd64 || arm64)

package process

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// leaderOOMScore is the least oom_score_adj of a command: when memory runs out,
// the kernel is to end what runs here and not the program that watches it.
const leaderOOMScore = 500

// forkNursery forks a process that gives up all that it has of this one and
// then takes requests at its end of a socket pair, control. null is /dev/null.
func forkNursery(control, null int) (pid int, err error) {
	mapping, err := unix.Mmap(-1, 0, workspaceSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, fmt.Errorf("map memory: %w", err)
	}
	defer func() { _ = unix.Munmap(mapping) }()
	w := workspaceOf(mapping)
	w.page = uintptr(os.Getpagesize())
	copy(w.oomPath[:], "/proc/self/oom_score_adj")
	copy(w.mapsPath[:], "/proc/self/maps")
	copy(w.filesPath[:], "/proc/self/fd")
	copy(w.childrenPath[:], "/proc/thread-self/children")
	copy(w.name[:], "pinfold-watch")
	if err := findCode(w); err != nil {
		return 0, err
	}
	setLeaderLimits(w)

	w.control, w.null = int32(control), int32(null)
	child, errno := fork(w)
	if errno != 0 {
		return 0, fmt.Errorf("fork: %w", errno)
	}
	return int(child), nil
}

// findCode notes which mappings hold the code that a forked process runs: all
// of the program's own files, or of the library that this is part of.
func findCode(w *workspace) error {
	maps, err := readMaps()
	if err != nil {
		return err
	}
	files := map[string]bool{}
	for _, function := range []any{fork, lead, syscall.RawSyscall6} {
		pc := reflect.ValueOf(function).Pointer()
		for _, m := range maps {
			if m.start <= pc && pc < m.end {
				files[m.file] = true
			}
		}
	}
	n := 0
	for _, m := range maps {
		if !files[m.file] {
			continue
		}
		if n > 0 && w.code[n-1].end == m.start {
			w.code[n-1].end = m.end
			continue
		}
		if n == len(w.code) {
			return fmt.Errorf("the program is mapped in more than %d places", n)
		}
		w.code[n] = m.span
		n++
	}
	if n == 0 {
		return fmt.Errorf("the program is not in its own memory map")
	}
	return nil
}

type fileMapping struct {
	span
	file string // device, inode and name
}

// readMaps lists what is mapped from files.
func readMaps() ([]fileMapping, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var maps []fileMapping
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
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
		maps = append(maps, fileMapping{span{uintptr(start), uintptr(end)}, strings.Join(fields[3:], " ")})
	}
	return maps, lines.Err()
}

// setLeaderLimits undoes for the commands what the Go runtime does for its own
// program, which is to raise the limit on open files as far as it goes, less
// one to tell by. What it was before is not to be had any more; 1024 is what
// the kernel starts with, and what programs that use select can take.
func setLeaderLimits(w *workspace) {
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
	w.oomLength = uint64(copy(w.oomScore[:], strconv.Itoa(score)))
}
