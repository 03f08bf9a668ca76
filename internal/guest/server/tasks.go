package server

import (
	"context"
	"errors"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

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
