package docker

import (
	"context"
	"io"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// A semaphore is a mutex that can be waited for with a context. The zero value
// is unlocked.
type semaphore struct {
	once sync.Once
	held chan struct{}
}

func (s *semaphore) lock(ctx context.Context) error {
	s.once.Do(func() { s.held = make(chan struct{}, 1) })
	select {
	case s.held <- struct{}{}: // Also when ctx has ended.
		return nil
	default:
	}
	select {
	case s.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *semaphore) unlock() { <-s.held }

// readSmall reads a small file of the sandbox.
func readSmall(ctx context.Context, client *guest.Client, path string) (string, error) {
	const limit = 64 << 10
	r, err := client.OpenFile(ctx, path, execution.ReadOptions{Length: limit})
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(r, limit))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return string(data), err
}
