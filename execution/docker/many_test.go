package docker

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestFiftyAtOnce(t *testing.T) {
	c := newBackend(t)
	handles := make([]execution.Handle, 50)
	errs := make([]error, len(handles))
	var all sync.WaitGroup
	for i := range handles {
		all.Go(func() { handles[i], errs[i] = c.Spawn(t.Context(), execution.Spec{}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i, h := range handles {
		ids[h.ID()] = true
		all.Go(func() {
			result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"echo", strconv.Itoa(i)}})
			if err != nil || string(result.Stdout) != strconv.Itoa(i)+"\n" {
				t.Errorf("sandbox %d: %q, %v", i, result.Stdout, err)
			}
		})
	}
	all.Wait()
	if len(ids) != len(handles) {
		t.Errorf("%d different IDs", len(ids))
	}
	// Half of them by hand, the other half by Close at the end of the test.
	for _, h := range handles[:25] {
		all.Go(func() {
			if err := h.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Whenever a Spawn is given up, nothing of it is left.
func TestSpawnGivenUpAtAnyMoment(t *testing.T) {
	c := newBackend(t)
	spawn(t, c, execution.Spec{}) // The derived image is there from here on.
	const tries = 30
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for range tries {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(400))*time.Millisecond)
			defer cancel()
			h, err := c.Spawn(ctx, execution.Spec{})
			switch {
			case err == nil:
				if err := h.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
	all.Wait()
	left, err := ours(t.Context())
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v; want only the one that lives", left, err)
	}
}

// A thousand commands leave the host's descriptors and goroutines where they
// were, and lose no output.
func TestThousandCommandsLeaveNothing(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	commands := 1000
	if testing.Short() {
		commands = 100
	}
	one := func() {
		result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"sh", "-c", "printf x; printf y >&2; exit 127"}})
		if err != nil || result.Code != 127 || string(result.Stdout) != "x" || string(result.Stderr) != "y" {
			t.Fatalf("got %v, %q, %q, %v", result.ExitStatus, result.Stdout, result.Stderr, err)
		}
	}
	one()
	descriptors, goroutines := openFiles(t), runtime.NumGoroutine()
	for range commands {
		one()
	}
	eventually(t, "descriptors and goroutines are back", func() bool {
		return openFiles(t) <= descriptors && runtime.NumGoroutine() <= goroutines
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

func TestClosedContextsRefuse(t *testing.T) {
	needEngine(t)
	c, err := New(t.Context(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	late := make(chan error, 1)
	go func() {
		_, err := c.Spawn(t.Context(), execution.Spec{})
		late <- err
	}()
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-late; err != nil && !errors.Is(err, execution.ErrClosed) {
		t.Errorf("a Spawn that Close met: got %v, want ErrClosed", err)
	}
	if _, err := c.Spawn(t.Context(), execution.Spec{}); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("Spawn: got %v, want ErrClosed", err)
	}
	if err := h.Err(); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("the handle: got %v, want ErrClosed", err)
	}
	if left, err := ours(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
