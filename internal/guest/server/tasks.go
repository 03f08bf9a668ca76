package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// An eventer is a handle that numbers its events: NextEvent waits for the first
// one after told, and forgets those up to it.
type eventer interface {
	NextEvent(ctx context.Context, told uint64) (event execution.Event, number uint64, err error)
}

// serveTask carries out an operation on tasks.
func (s *server) serveTask(ctx context.Context, st *wire.Stream, call *proto.Call) []byte {
	switch call.Method {
	case proto.MethodStartTask:
		t, err := s.handle.StartTask(ctx, call.Command.Command, execution.TaskOptions{Keep: call.Keep})
		if err != nil {
			return proto.EncodeFailed(err)
		}
		return told(t.Info(ctx))
	case proto.MethodTasks:
		return done(s.tasks(ctx, st))
	case proto.MethodNextEvent, proto.MethodTold:
		return s.event(ctx, call)
	default:
	}
	t, err := s.handle.Task(ctx, call.Task)
	if err != nil {
		return proto.EncodeFailed(err)
	}
	switch call.Method {
	case proto.MethodWaitTask:
		return told(t.Wait(ctx))
	case proto.MethodSignalTask:
		return done(t.Signal(ctx, call.Signal))
	case proto.MethodKillTask:
		// The host may stop waiting; the kill goes on.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
		defer cancel()
		return done(t.Kill(cleanup))
	case proto.MethodOutput:
		return done(sendOutput(ctx, st, t, call))
	default:
		return told(t.Info(ctx))
	}
}

// told is the RESULT that is a TaskInfo.
func told(info execution.TaskInfo, err error) []byte {
	if err != nil {
		return proto.EncodeFailed(err)
	}
	return proto.EncodeTask(info)
}

func (s *server) event(ctx context.Context, call *proto.Call) []byte {
	events, ok := s.handle.(eventer)
	if !ok {
		return proto.EncodeFailed(fmt.Errorf("%w: events", execution.ErrUnsupported))
	}
	if call.Method == proto.MethodTold {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, _, err := events.NextEvent(over, call.Told) // does not wait
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return done(err)
	}
	event, number, err := events.NextEvent(ctx, call.Told)
	if err != nil {
		return proto.EncodeFailed(err)
	}
	if event.Kind != execution.EventTaskEnded {
		return proto.EncodeFailed(event.Err) // the end of this guest: its host learns of that otherwise
	}
	return proto.EncodeEvent(number, event.Task)
}

// tasks sends the list of tasks.
func (s *server) tasks(ctx context.Context, st *wire.Stream) error {
	return list(st, s.handle.Tasks(ctx), proto.AppendTask)
}

// sendOutput sends what a task wrote.
func sendOutput(ctx context.Context, st *wire.Stream, t execution.Task, call *proto.Call) (err error) {
	r, err := t.OpenOutput(ctx, call.Output, execution.OutputOptions{
		Offset: call.Offset, Length: call.Length, Follow: call.Follow,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := st.Begin(nil); err != nil {
		return err
	}
	sender := st.Sender(contentChannel)
	defer sender.Close()
	buf := make([]byte, len(proto.ChunkHeader{})+proto.MaxChunk)
	body := buf[len(proto.ChunkHeader{}):]
	for {
		n, err := r.Read(body)
		if n > 0 {
			proto.AppendChunk(buf[:0], r.Offset()-int64(n), n)
			if _, err := sender.Write(buf[:len(proto.ChunkHeader{})+n]); err != nil {
				return err
			}
		}
		if err == io.EOF { //nolint:errorlint // as readers return it
			return nil
		}
		if err != nil {
			return err
		}
	}
}
