package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// contentChannel carries files and lists.
const contentChannel = 0

// open sends a file.
func (s *server) openFile(ctx context.Context, st *wire.Stream, call *proto.Call) (err error) {
	f, err := s.handle.OpenFile(ctx, call.Path, execution.ReadOptions{Offset: call.Offset, Length: call.Length})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := st.Begin(nil); err != nil {
		return err
	}
	sender := st.Sender(contentChannel)
	defer sender.Close()
	_, err = io.Copy(sender, f) // the handle may know how to hand over the file itself
	return err
}

// listBatch is how much of a list is collected before it is sent, in bytes.
const listBatch = 16 << 10

// list sends the entries of a list, each put into bytes by add.
func list[T any](st *wire.Stream, entries iter.Seq2[T, error], add func([]byte, T) []byte) error {
	if err := st.Begin(nil); err != nil {
		return err
	}
	sender := st.Sender(contentChannel)
	defer sender.Close()
	var batch []byte
	for entry, err := range entries {
		if err != nil {
			_, sendErr := sender.Write(batch)
			return errors.Join(err, sendErr)
		}
		batch = add(batch, entry)
		if len(batch) >= listBatch {
			if _, err := sender.Write(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	_, err := sender.Write(batch)
	return err
}

// serveFile carries out an operation on files.
func (s *server) serveFile(ctx context.Context, st *wire.Stream, call *proto.Call) []byte {
	switch call.Method {
	case proto.MethodOpen:
		return done(s.openFile(ctx, st, call))
	case proto.MethodWrite:
		return done(s.handle.WriteFile(ctx, call.Path, &input{st}, execution.WriteOptions{Mode: call.Mode}))
	case proto.MethodStat:
		return described(s.handle.Stat(ctx, call.Path))
	case proto.MethodLstat:
		return described(s.handle.Lstat(ctx, call.Path))
	case proto.MethodList:
		return done(list(st, s.handle.List(ctx, call.Path), proto.AppendInfo))
	case proto.MethodGlob:
		return done(list(st, s.handle.Glob(ctx, call.Path, call.Pattern), proto.AppendInfo))
	default:
		return proto.EncodeFailed(fmt.Errorf("%w: method %d", execution.ErrUnsupported, call.Method))
	}
}

func described(info execution.FileInfo, err error) []byte {
	if err != nil {
		return proto.EncodeFailed(err)
	}
	return proto.EncodeInfo(info)
}
