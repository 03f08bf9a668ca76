package server

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// contentChannel carries files and lists.
const contentChannel = 0

// open sends a file.
func (s *session) open(ctx context.Context, st *wire.Stream, call *proto.Call) (err error) {
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

// list sends the entries of a list.
func list(st *wire.Stream, entries iter.Seq2[execution.FileInfo, error]) error {
	if err := st.Begin(nil); err != nil {
		return err
	}
	sender := st.Sender(contentChannel)
	defer sender.Close()
	var batch []byte
	for info, err := range entries {
		if err != nil {
			_, sendErr := sender.Write(batch)
			return errors.Join(err, sendErr)
		}
		batch = proto.AppendInfo(batch, info)
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
