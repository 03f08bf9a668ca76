//go:build linux && (amd64 || arm64)

package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// TestForkedProcessesHoldNothingOfTheHost plants a text in the memory of this
// program in many places and looks for it, as root can, in those of the nursery
// and the supervisors. It also looks at their open files.
func TestForkedProcessesHoldNothingOfTheHost(t *testing.T) {
	needRoot(t)
	canary := strings.Repeat("canary "+mark(t)+" ", 3)
	t.Setenv("PINFOLD_TEST_CANARY", canary)
	heap := make([][]byte, 0, 10_000)
	for range cap(heap) {
		heap = append(heap, bytes.Repeat([]byte(canary), 10))
	}
	global = canary + "!"
	file, err := os.CreateTemp(t.TempDir(), "canary")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()

	c, h := newTestHandle(t)
	// A job's own strings do not stay either.
	secret := "PINFOLD_TEST_SECRET=" + canary
	p, err := h.Start(t.Context(), execution.Command{Args: []string{"sleep", "1000"}, Env: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h, "true")
	if found := findInMemory(t, os.Getpid(), canary); found == 0 {
		t.Error("the canary is not even found where it was planted")
	}
	seen := 0
	for _, pid := range append(below(nurseryOf(c)), nurseryOf(c)) {
		if pid == p.(*proc).tree.leader() {
			continue
		}
		seen++
		if n := findInMemory(t, pid, canary); n > 0 {
			t.Errorf("forked process %d has the canary %d times", pid, n)
		}
		wantFiles(t, pid)
		if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); bytes.Contains(env, []byte("canary")) {
			t.Errorf("the environment of forked process %d is the host's", pid)
		}
	}
	if seen < 3 {
		t.Errorf("looked at %d forked processes, want a nursery and two supervisors", seen)
	}
	r := run(t, h, "env; ls /proc/self/fd")
	if bytes.Contains(r.Stdout, []byte("canary")) {
		t.Errorf("a command sees the host's environment: %s", r.Stdout)
	}
	if fds := strings.Fields(string(r.Stdout[bytes.LastIndexByte(bytes.TrimSuffix(r.Stdout, []byte("0\n1\n2\n3\n")), '\n')+1:])); len(fds) != 4 {
		t.Errorf("a command has the open files %q, want 0 to 2, and 3 for the directory", fds)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	_ = heap[0]
}

var global string //nolint:gochecknoglobals // to be looked for

// wantFiles fails the test unless a process has but /dev/null, its control
// socket and a signalfd.
func wantFiles(t *testing.T, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, _ := os.Readlink(dir + "/" + e.Name())
		switch {
		case target == os.DevNull, target == "anon_inode:[signalfd]", strings.HasPrefix(target, "socket:") && e.Name() == "3":
		default:
			t.Errorf("process %d has %s open as %s", pid, target, e.Name())
		}
	}
	if len(entries) > 5 {
		t.Errorf("process %d has %d open files, want at most 5", pid, len(entries))
	}
}

// findInMemory counts a text in a process's memory.
func findInMemory(t *testing.T, pid int, text string) (n int) {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mem.Close() }()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = maps.Close() }()
	resident := residentPages(t, pid)
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var start, end int64
		var perms string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &start, &end, &perms); err != nil || perms[0] != 'r' || start < 0 {
			continue
		}
		n += resident.count(mem, start, end, text)
	}
	return n
}

// A pagemap tells which pages are there at all, so that the huge reserves of
// the race detector need not be read.
type pagemap struct{ *os.File }

func residentPages(t *testing.T, pid int) pagemap {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return pagemap{f}
}

func (p pagemap) count(mem io.ReaderAt, start, end int64, text string) (n int) {
	const word = 8
	page := int64(os.Getpagesize())
	if end-start > 8<<30 {
		return 0 // a reserve
	}
	entries := make([]byte, (end-start)/page*word)
	_, _ = p.ReadAt(entries, start/page*word)
	buffer := make([]byte, 0, 1<<20)
	for at := int64(0); at < int64(len(entries))/word; at++ {
		const present, swapped = 1 << 7, 1 << 6
		if entries[at*word+7]&(present|swapped) != 0 && len(buffer) < 64<<20 {
			piece := make([]byte, page)
			if _, err := mem.ReadAt(piece, start+at*page); err == nil {
				buffer = append(buffer, piece...)
			}
		}
	}
	return bytes.Count(buffer, []byte(text))
}
