package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// How long a step may stay silent before it is given up. None of them bounds
// how long a slow but living download may take.
const (
	askDeadline  = 30 * time.Second // a question that the engine answers by itself
	pullStall    = 90 * time.Second
	buildStall   = 10 * time.Minute // a compiler in a RUN step says nothing for long
	loadStall    = 10 * time.Minute // an engine says nothing while it unpacks
	offlineStall = 20 * time.Minute // apt downloads without a word
)

// watched runs do with a context that ends once do has made no progress for
// the time stall. The error then says so and matches ErrTimeout. progress is
// called from one goroutine at a time and never after watched has returned,
// whatever do does with it.
func watched(ctx context.Context, stall time.Duration, progress Progress, do func(context.Context, Progress) error) error {
	silent := fmt.Errorf("%w: no progress for %v", execution.ErrTimeout, stall)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stall, func() { cancel(silent) })
	defer timer.Stop()

	var mu sync.Mutex
	over := false
	err := do(ctx, func(event Event) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		timer.Reset(stall)
		if progress != nil {
			progress(event)
		}
	})
	mu.Lock()
	over = true
	mu.Unlock()
	if err != nil && errors.Is(context.Cause(ctx), silent) {
		return silent
	}
	return err
}

// either is the caller's own limit where there is one.
func either(limit, fallback time.Duration) time.Duration {
	if limit > 0 {
		return limit
	}
	return fallback
}

// counted is a reader that reports how much was read, once for every step
// bytes, so that a consumer that says nothing still shows progress.
type counted struct {
	io.Reader
	event    Event // Current grows
	progress Progress
	told     int64
}

const countedStep = 1 << 20

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.event.Current += int64(n)
	if c.event.Current-c.told >= countedStep || err != nil && c.event.Current > c.told {
		c.told = c.event.Current
		c.progress(c.event)
	}
	return n, err
}
