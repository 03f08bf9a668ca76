package guest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// List yields a directory's entries; see [execution.Handle].
func (c *Client) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	return listOf(ctx, c, "list", &proto.Call{Method: proto.MethodList, Path: dir}, cutInfo(isName))
}

// Glob yields what matches a pattern; see [execution.Handle].
func (c *Client) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	return listOf(ctx, c, "glob", &proto.Call{Method: proto.MethodGlob, Path: dir, Pattern: pattern}, cutInfo(isRelative))
}

// isName reports whether name can be that of a directory's entry. A guest
// could otherwise lead a host that joins it to a path out of its directory.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// isRelative reports whether path leads to something below a directory.
func isRelative(path string) bool {
	return path != "" && path[0] != '/' && !strings.Contains(path, "\x00") &&
		!slices.Contains(strings.Split(path, "/"), "..")
}

// cutInfo takes a description with a valid name off the start of a list.
func cutInfo(valid func(string) bool) func([]byte) (execution.FileInfo, int, error) {
	return func(b []byte) (execution.FileInfo, int, error) {
		info, n, err := proto.CutInfo(b)
		if err == nil && n > 0 && !valid(info.Name) {
			err = wire.Violation("listed name %q", info.Name)
		}
		return info, n, err
	}
}

// listOf yields what the guest lists. Each iteration asks anew.
func listOf[T any](
	ctx context.Context, c *Client, op string, call *proto.Call, cut func([]byte) (T, int, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		s, err := c.mux.Open(ctx, call.Encode(), wire.OpenOptions{Peeks: true})
		if err != nil {
			yield(none, c.wrap(op, call.Path, err))
			return
		}
		defer s.Bind(ctx)()
		defer s.Abandon(execution.ErrClosed) // when the loop is left early
		l := lister[T]{stream: s, cutOff: cut}
		for {
			info, err := l.next()
			if errors.Is(err, io.EOF) {
				if err := c.listed(op, call.Path, s); err != nil {
					yield(none, err)
				}
				return
			}
			if err != nil {
				if errors.Is(err, wire.ErrViolation) || errors.Is(err, proto.ErrMalformed) {
					err = c.broken(err)
				}
				yield(none, c.wrap(op, call.Path, err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// listed is how a list ended.
func (c *Client) listed(op, path string, s *wire.Stream) error {
	result, err := s.Result()
	if err != nil {
		return c.wrap(op, path, err)
	}
	failure, err := proto.DecodeDone(result)
	return c.outcome(op, path, failure, err)
}

// A lister takes entries from a stream, which may cut them anywhere.
type lister[T any] struct {
	stream *wire.Stream
	cutOff func([]byte) (entry T, n int, err error)
	cut    []byte // the start of an entry
}

// next returns an entry. After the last one the error is io.EOF.
func (l *lister[T]) next() (entry T, err error) {
	for {
		p, err := l.stream.Peek(0)
		if err != nil {
			if errors.Is(err, io.EOF) && len(l.cut) > 0 {
				err = l.end()
			}
			return entry, err
		}
		have := p
		if len(l.cut) > 0 {
			have = append(l.cut, p...)
		}
		entry, n, err := l.cutOff(have)
		switch {
		case err != nil:
			return entry, err
		case n == 0:
			l.cut = append(l.cut, p...)
			l.stream.Advance(0, len(p))
			continue
		}
		l.stream.Advance(0, n-len(l.cut))
		l.cut = nil
		return entry, nil
	}
}

// end is the error when the list ends within an entry: that is fine only when
// the guest says that it failed.
func (l *lister[T]) end() error {
	result, err := l.stream.Result()
	if err != nil {
		return err
	}
	if failure, err := proto.DecodeDone(result); err == nil && failure != nil {
		return io.EOF
	}
	return wire.Violation("list ends within an entry")
}
