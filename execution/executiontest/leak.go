package executiontest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A stock is what there was before a case began.
type stock struct {
	goroutines goleak.Option
	files      map[string]int
	inventory  []string
}

func takeStock(tb testing.TB, h Harness) stock {
	tb.Helper()
	return stock{
		goroutines: goleak.IgnoreCurrent(),
		files:      openFiles(),
		inventory:  inventory(tb, h),
	}
}

// settle is how long things that end by themselves, such as a goroutine that
// sees its connection closed, may take to be gone.
const settle = 10 * time.Second

// compare fails the test for everything that is there now and was not before.
func (s stock) compare(tb testing.TB, h Harness) {
	tb.Helper()
	deadline := time.Now().Add(settle)
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		leaks := s.leaks(tb, h)
		if len(leaks) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Errorf("left behind:\n%s", strings.Join(leaks, "\n"))
			return
		}
		time.Sleep(pause)
	}
}

func (s stock) leaks(tb testing.TB, h Harness) (leaks []string) {
	tb.Helper()
	for name, n := range openFiles() {
		if n > s.files[name] {
			leaks = append(leaks, "open file "+name)
		}
	}
	for _, item := range inventory(tb, h) {
		if !slices.Contains(s.inventory, item) {
			leaks = append(leaks, "in the harness's inventory: "+item)
		}
	}
	// The long wait is in compare, so that files and goroutines share it.
	if err := goleak.Find(s.goroutines, goleak.IgnoreTopFunction("testing.(*T).Run")); err != nil {
		leaks = append(leaks, err.Error())
	}
	return leaks
}

func inventory(tb testing.TB, h Harness) []string {
	tb.Helper()
	if h.Inventory == nil {
		return nil
	}
	return h.Inventory(tb)
}

// openFiles counts the file descriptors of this process by kind, where the
// system tells them. Numbers that tell one pipe or socket from the next are
// removed, and what the Go runtime opens once and keeps is left out.
func openFiles() map[string]int {
	const dir = "/proc/self/fd"
	files := map[string]int{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return files
	}
	for _, entry := range entries {
		name, err := os.Readlink(dir + "/" + entry.Name())
		if err != nil {
			continue // the descriptor that was used to read the directory
		}
		if strings.HasPrefix(name, "anon_inode:[event") {
			continue // the runtime's poller
		}
		kind, _, _ := strings.Cut(name, ":[")
		files[kind]++
	}
	return files
}
