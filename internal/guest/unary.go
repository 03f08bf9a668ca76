package guest

import (
	"context"
	"path"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// call runs an operation that is a question and an answer.
func (c *Client) call(ctx context.Context, call *proto.Call) ([]byte, error) {
	s, err := c.mux.Open(ctx, call.Encode(), wire.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Bind(ctx)()
	return s.Result()
}

// do runs an operation whose answer is only whether it went well.
func (c *Client) do(ctx context.Context, op string, call *proto.Call) error {
	result, err := c.call(ctx, call)
	if err != nil {
		return c.wrap(op, call.Path, err)
	}
	failure, err := proto.DecodeDone(result)
	return c.outcome(op, call.Path, failure, err)
}

// outcome makes the error of an operation from what was decoded of its
// RESULT: why the guest could not do it, or that the RESULT makes no sense.
func (c *Client) outcome(op, path string, failure *proto.Failure, err error) error {
	switch {
	case err != nil:
		return c.wrap(op, path, c.broken(err))
	case failure != nil:
		failure.Op, failure.Path = op, path // as the caller named them
		return failure.Err(c.backend, c.handle)
	}
	return nil
}

// Stat describes a file, following links; see [execution.Handle].
func (c *Client) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	return c.stat(ctx, "stat", &proto.Call{Method: proto.MethodStat, Path: path})
}

// Lstat describes a file or link; see [execution.Handle].
func (c *Client) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	return c.stat(ctx, "lstat", &proto.Call{Method: proto.MethodLstat, Path: path})
}

func (c *Client) stat(ctx context.Context, op string, call *proto.Call) (execution.FileInfo, error) {
	result, err := c.call(ctx, call)
	if err != nil {
		return execution.FileInfo{}, c.wrap(op, call.Path, err)
	}
	info, failure, err := proto.DecodeInfo(result)
	if err == nil && failure == nil && info.Name != path.Base(call.Path) {
		err = wire.Violation("file name %q", info.Name)
	}
	if err := c.outcome(op, call.Path, failure, err); err != nil {
		return execution.FileInfo{}, err
	}
	return info, nil
}
