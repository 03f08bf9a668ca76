package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// A Result is a command's ending together with the output that was captured.
type Result struct {
	ExitStatus

	// Stdout and Stderr are what the command wrote, where it had no writer
	// of its own: its start and its end when it was more than CaptureLimit.
	Stdout, Stderr []byte

	// StdoutDropped and StderrDropped count the bytes that were left out
	// between start and end.
	StdoutDropped, StderrDropped int64
}

// CaptureLimit is how much of each stream Exec keeps, in bytes.
const CaptureLimit = 1 << 20

// killDeadline bounds how long Exec waits for a kill to be proven after its
// context has ended.
const killDeadline = 30 * time.Second

// Exec runs a command to its end and captures what it writes on the streams
// that have no writer. When ctx ends first, the command and its descendants
// are killed and the status says EndingCancelled; the error is then nil, since
// the outcome is known.
func Exec(ctx context.Context, h Handle, cmd Command) (Result, error) {
	var stdout, stderr Capture
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil && cmd.TTY == nil {
		cmd.Stderr = &stderr
	}
	proc, err := h.Start(ctx, cmd)
	if err != nil {
		return Result{ExitStatus: ExitStatus{Code: -1}}, err
	}
	status, err := waitOrKill(ctx, proc)
	result := Result{ExitStatus: status}
	result.Stdout, result.StdoutDropped = stdout.Take()
	result.Stderr, result.StderrDropped = stderr.Take()
	return result, err
}

// waitOrKill waits for the end of proc, and makes it come when ctx ends.
func waitOrKill(ctx context.Context, proc Process) (ExitStatus, error) {
	status, err := proc.Wait(ctx)
	if ctx.Err() == nil || status.Ending != "" {
		return status, err
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
	defer cancel()
	killErr := proc.Kill(cleanup)
	status, err = proc.Wait(cleanup)
	return status, errors.Join(err, killErr)
}

// ReadFile reads a whole file of at most limit bytes; a larger one fails with
// ErrInvalid, after no more than that was read. A limit of 0 means
// CaptureLimit.
func ReadFile(ctx context.Context, h Handle, path string, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = CaptureLimit
	}
	limit = min(limit, math.MaxInt64-1)
	r, err := h.OpenFile(ctx, path, ReadOptions{Length: limit + 1})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &Error{
			Op: "read file", Handle: h.ID(), Path: path,
			Err: fmt.Errorf("%w: larger than %d bytes; read it in parts with OpenFile", ErrInvalid, limit),
		}
	}
	return data, nil
}

// WriteFile writes data to a file; see [Handle.WriteFile].
func WriteFile(ctx context.Context, h Handle, path string, data []byte) error {
	return h.WriteFile(ctx, path, bytes.NewReader(data), WriteOptions{})
}

// quotePath makes a path fit to be shown: quoted, and without bytes that a
// terminal would act on.
func quotePath(path string) string {
	const limit = 512
	if len(path) > limit {
		path = path[:limit] + "…"
	}
	return strconv.Quote(path)
}
