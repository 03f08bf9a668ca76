package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// This file is a handle used plainly: the code is the same for our containers
// and for the host.

func handleExec(ctx context.Context, h execution.Handle, stdout io.Writer, args ...string) error {
	result, err := execution.Exec(ctx, h, execution.Command{Args: args, Stdout: stdout})
	if err != nil {
		return err
	}
	if !result.Success() {
		return fmt.Errorf("%q: %v: %s", args, result.ExitStatus, bytes.TrimSpace(result.Stderr))
	}
	return nil
}

func handleRead(ctx context.Context, h execution.Handle, file string, size int64) error {
	r, err := h.OpenFile(ctx, file, execution.ReadOptions{})
	if err != nil {
		return err
	}
	err = expect(size)(io.Copy(io.Discard, r))
	return errors.Join(err, r.Close())
}

func handleWrite(ctx context.Context, h execution.Handle, file string, size int64) error {
	return h.WriteFile(ctx, file, zeros(size), execution.WriteOptions{})
}

// treeSize is how many processes the tree to be killed has at least.
const treeSize = 20

// treeLine makes a tree of processes that do not want to die: each in its own
// session, without environment, deaf to SIGTERM. Each says "up" once it is so.
const treeLine = `trap "" TERM
for i in 1 2 3 4 5 6 7 8 9 10; do
	setsid env -i sh -c 'trap "" TERM; sleep 1000 & echo up; wait' &
done
wait`

// handleKill starts that tree and times how long its end takes: from SIGKILL,
// since no grace is given, to the proof that nothing of it is alive.
func handleKill(ctx context.Context, h execution.Handle) (reading, error) {
	up := newLineCount(treeSize / 2)
	proc, err := h.Start(ctx, execution.Command{Shell: treeLine, Stdout: up, Grace: -1})
	if err != nil {
		return reading{}, err
	}
	if err := up.wait(ctx); err != nil {
		return reading{}, errors.Join(err, proc.Kill(context.WithoutCancel(ctx)))
	}
	got, err := timed(func() error { return proc.Kill(ctx) })
	_, waitErr := proc.Wait(ctx)
	return got, errors.Join(err, waitErr)
}

// spawnAndRun makes a sandbox and runs its first command. The caller destroys
// what it returns, also after an error.
func spawnAndRun(ctx context.Context, c execution.Context, spec execution.Spec) (execution.Handle, error) {
	h, err := c.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	return h, handleExec(ctx, h, io.Discard, "true")
}

// destroy removes what a sample made for itself, if it was made.
func destroy(ctx context.Context, h execution.Handle) error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return h.Destroy(ctx)
}

// A lineCount is a writer that waits for a number of lines.
type lineCount struct {
	missing atomic.Int64
	all     chan struct{}
}

func newLineCount(n int64) *lineCount {
	c := &lineCount{all: make(chan struct{})}
	c.missing.Store(n)
	return c
}

func (c *lineCount) Write(p []byte) (int, error) {
	lines := int64(strings.Count(string(p), "\n"))
	if left := c.missing.Add(-lines); left <= 0 && left+lines > 0 {
		close(c.all)
	}
	return len(p), nil
}

func (c *lineCount) wait(ctx context.Context) error {
	select {
	case <-c.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
