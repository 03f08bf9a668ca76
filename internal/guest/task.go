package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// A task is one of the guest's, by its name.
type task struct {
	client *Client
	id     string
}

// StartTask starts a task; see [execution.Handle].
func (c *Client) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	const op = "start task"
	if err := cmd.ValidateTask(opts); err != nil {
		return nil, c.wrap(op, "", err)
	}
	info, err := c.taskInfo(ctx, op, &proto.Call{
		Method: proto.MethodStartTask, Command: proto.Command{Command: cmd}, Keep: opts.Keep,
	})
	if err != nil {
		return nil, err
	}
	return &task{c, info.ID}, nil
}

// Task finds a task; see [execution.Handle].
func (c *Client) Task(ctx context.Context, id string) (execution.Task, error) {
	if _, err := c.taskInfo(ctx, "find task", &proto.Call{Method: proto.MethodTask, Task: id}); err != nil {
		return nil, err
	}
	return &task{c, id}, nil
}

// maxTasks is how many tasks a guest may list: those that have ended, and more
// than can run.
const maxTasks = execution.MaxEndedTasks + 1<<16

// Tasks yields all tasks; see [execution.Handle].
func (c *Client) Tasks(ctx context.Context) iter.Seq2[execution.TaskInfo, error] {
	return func(yield func(execution.TaskInfo, error) bool) {
		listed := 0
		cut := func(b []byte) (execution.TaskInfo, int, error) {
			info, n, err := proto.CutTask(b)
			if n > 0 {
				listed++
			}
			if listed > maxTasks {
				err = wire.Violation("more than %d tasks", maxTasks)
			}
			return info, n, err
		}
		listOf(ctx, c, "list tasks", &proto.Call{Method: proto.MethodTasks}, cut)(yield)
	}
}

// taskInfo runs an operation whose answer is a task.
func (c *Client) taskInfo(ctx context.Context, op string, call *proto.Call) (execution.TaskInfo, error) {
	result, err := c.call(ctx, call)
	if err != nil {
		return execution.TaskInfo{}, c.wrap(op, "", err)
	}
	info, failure, err := proto.DecodeTask(result)
	if err == nil && failure == nil && call.Task != "" && info.ID != call.Task {
		err = wire.Violation("task %q instead of %q", info.ID, call.Task)
	}
	if err := c.outcome(op, "", failure, err); err != nil {
		return execution.TaskInfo{}, err
	}
	return info, nil
}

func (t *task) ID() string { return t.id }

func (t *task) Info(ctx context.Context) (execution.TaskInfo, error) {
	return t.client.taskInfo(ctx, "describe task", &proto.Call{Method: proto.MethodTask, Task: t.id})
}

func (t *task) Wait(ctx context.Context) (execution.TaskInfo, error) {
	const op = "wait for task"
	info, err := t.client.taskInfo(ctx, op, &proto.Call{Method: proto.MethodWaitTask, Task: t.id})
	if err == nil && info.Running() {
		err = t.client.wrap(op, "", t.client.broken(wire.Violation("a task that runs has ended")))
	}
	return info, err
}

func (t *task) Signal(ctx context.Context, sig execution.Signal) error {
	const op = "signal task"
	if !sig.Valid() {
		return t.client.wrap(op, "", fmt.Errorf("%w: %v", execution.ErrInvalid, sig))
	}
	return t.client.do(ctx, op, &proto.Call{Method: proto.MethodSignalTask, Task: t.id, Signal: sig})
}

func (t *task) Kill(ctx context.Context) error {
	return t.client.do(ctx, "kill task", &proto.Call{Method: proto.MethodKillTask, Task: t.id})
}

func (t *task) OpenOutput(ctx context.Context, stream execution.OutputStream, opts execution.OutputOptions) (execution.OutputReader, error) {
	const op = "read output"
	c := t.client
	if err := opts.Validate(stream); err != nil {
		return nil, c.wrap(op, "", err)
	}
	s, err := c.mux.Open(ctx, (&proto.Call{
		Method: proto.MethodOutput, Task: t.id, Output: stream,
		Offset: opts.Offset, Length: opts.Length, Follow: opts.Follow,
	}).Encode(), wire.OpenOptions{Peeks: true})
	if err != nil {
		return nil, c.wrap(op, "", err)
	}
	_, ok, err := s.Acked(ctx)
	if err != nil {
		return nil, c.wrap(op, "", err)
	}
	if !ok {
		result, err := s.Result()
		if err != nil {
			return nil, c.wrap(op, "", err)
		}
		failure, err := proto.DecodeDone(result)
		if failure == nil && err == nil {
			err = wire.Violation("output ends before it was opened")
		}
		return nil, c.outcome(op, "", failure, err)
	}
	r := &outputReader{client: c, stream: s, at: max(opts.Offset, 0), length: opts.Length}
	r.release = context.AfterFunc(ctx, func() { r.leave(context.Cause(ctx)) })
	return r, nil
}

// An outputReader reads what a task wrote, in chunks that say where they are.
type outputReader struct {
	client  *Client
	stream  *wire.Stream
	release func() bool           // of the context
	why     atomic.Pointer[error] // nobody wants the rest; nil while somebody does

	mu     sync.Mutex // one reader at a time
	at     int64
	length int64 // that was asked for; 0 for no bound
	total  int64 // that has come
	header proto.ChunkHeader
	have   int // bytes of header that are there
	left   int // bytes of the chunk still to come
}

// Offset is the position after what Read returned last.
func (r *outputReader) Offset() int64 { return r.at }

func (r *outputReader) Read(b []byte) (int, error) {
	const op = "read output"
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	for {
		p, err := r.stream.Peek(0)
		if why := r.why.Load(); why != nil {
			return 0, r.client.wrap(op, "", *why) // and not what is missing because of it
		}
		if errors.Is(err, io.EOF) {
			return 0, r.end()
		}
		if err != nil {
			return 0, r.client.wrap(op, "", err)
		}
		if r.left > 0 {
			n := copy(b, p[:min(len(p), r.left)])
			r.stream.Advance(0, n)
			r.left -= n
			r.at += int64(n)
			return n, nil
		}
		n := copy(r.header[r.have:], p)
		r.stream.Advance(0, n)
		if r.have += n; r.have < len(r.header) {
			continue
		}
		r.have = 0
		if err := r.begin(); err != nil {
			return 0, r.client.wrap(op, "", r.client.broken(err))
		}
	}
}

// begin checks the start of a chunk.
func (r *outputReader) begin() error {
	offset, length, err := r.header.Decode()
	if err != nil {
		return err
	}
	r.total += int64(length)
	switch {
	case offset < r.at:
		return wire.Violation("output at %d after %d", offset, r.at)
	case r.length > 0 && r.total > r.length:
		return wire.Violation("more output than was asked for")
	}
	r.at, r.left = offset, length
	return nil
}

// end is io.EOF when the guest said that this was all.
func (r *outputReader) end() error {
	const op = "read output"
	result, err := r.stream.Result()
	if err != nil {
		return r.client.wrap(op, "", err)
	}
	failure, err := proto.DecodeDone(result)
	if failure == nil && err == nil && (r.left > 0 || r.have > 0) {
		err = wire.Violation("output ends within a chunk")
	}
	if err := r.client.outcome(op, "", failure, err); err != nil {
		return err
	}
	return io.EOF
}

// Close stops the transfer, also under a Read.
func (r *outputReader) Close() error {
	r.release()
	r.leave(execution.ErrClosed)
	return nil
}

// leave makes Read fail because of err, unless it already does.
func (r *outputReader) leave(err error) {
	if r.why.CompareAndSwap(nil, &err) {
		r.stream.Abandon(err)
	}
}

// Events yields what happens in the sandbox; see [execution.Handle].
func (c *Client) Events(ctx context.Context) iter.Seq2[execution.Event, error] {
	const op = "events"
	return func(yield func(execution.Event, error) bool) {
		if c.following.Swap(true) {
			yield(execution.Event{}, c.wrap(op, "", fmt.Errorf("%w: somebody else follows the events", execution.ErrConflict)))
			return
		}
		defer c.following.Store(false)
		told := uint64(0)
		for {
			number, info, err := c.nextEvent(ctx, told)
			if err != nil {
				if told > 0 {
					c.tell(ctx, told) // of which the guest may not have heard
				}
				if c.mux.Err() != nil && ctx.Err() == nil {
					yield(execution.Event{Kind: execution.EventSandboxEnded, Err: c.Err()}, nil)
				} else {
					yield(execution.Event{}, err)
				}
				return
			}
			more := yield(execution.Event{Kind: execution.EventTaskEnded, Task: info}, nil)
			told = number
			if !more {
				c.tell(ctx, told)
				return
			}
		}
	}
}

func (c *Client) nextEvent(ctx context.Context, told uint64) (uint64, execution.TaskInfo, error) {
	const op = "events"
	result, err := c.call(ctx, &proto.Call{Method: proto.MethodNextEvent, Told: told})
	if err != nil {
		return 0, execution.TaskInfo{}, c.wrap(op, "", err)
	}
	number, info, failure, err := proto.DecodeEvent(result)
	if err == nil && failure == nil && number <= told {
		err = wire.Violation("event %d after %d", number, told)
	}
	return number, info, c.outcome(op, "", failure, err)
}

// tellTime bounds how long the guest is waited for when a loop over events is
// left.
const tellTime = 5 * time.Second

// tell says that an event was handled, after which no other follows.
func (c *Client) tell(ctx context.Context, told uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	_ = c.do(ctx, "events", &proto.Call{Method: proto.MethodTold, Told: told}) // else it is told again
}

// Shutdown ends the guest with all that runs in it.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.do(ctx, "shut down", &proto.Call{Method: proto.MethodShutdown})
}
