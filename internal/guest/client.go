package guest

import (
	"context"
	"io"
	"iter"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Client runs operations in one guest. All methods may be called from many
// goroutines at once; their contract is [execution.Handle]'s.
type Client struct {
	done chan struct{}
}

// Dial greets the guest at the other end of conn. It owns conn from then on,
// and closes it when it fails. Close must make a pending Read or Write return,
// as a net.Conn's does. ctx bounds the greeting.
//
// It fails with what Explain says, when the guest does not answer as a guest
// does; with ErrDirNotFound when Config.Dir does not exist; with ErrInvalid
// when the guest finds the Config senseless; with ctx's error when ctx ends
// first.
func Dial(ctx context.Context, conn io.ReadWriteCloser, opts Options) (*Client, error) {
	return nil, execution.ErrUnsupported
}

// Facts is what the guest reported when it was greeted.
func (c *Client) Facts() Facts { return Facts{} }

// Dir is the absolute working directory in the sandbox.
func (c *Client) Dir() string { return "" }

// Pause tells the client that the sandbox is frozen (true) or runs again
// (false). While it is frozen, calls that the guest has not acknowledged yet
// and new ones fail with ErrPaused, and the guest drops them when it wakes up.
// Processes that run and files that are open just wait, and silence is not
// counted.
func (c *Client) Pause(paused bool) {}

// Done is closed when the client has ended: closed, or its sandbox lost.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the client lives. After Close it matches ErrClosed, after
// a loss ErrLost, and then says why.
func (c *Client) Err() error { return nil }

// Close ends the stream, upon which the guest kills all that it runs and
// exits, and waits until the client's own goroutines have ended. Pending and
// later calls fail with ErrClosed. Closing again does nothing.
func (c *Client) Close() error { return nil }

// Start starts a command; see [execution.Handle]. The process is also an
// [execution.Resizer].
func (c *Client) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	return nil, execution.ErrUnsupported
}

// OpenFile opens a file for reading; see [execution.Handle].
func (c *Client) OpenFile(ctx context.Context, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
	return nil, execution.ErrUnsupported
}

// WriteFile writes a file; see [execution.Handle].
func (c *Client) WriteFile(ctx context.Context, path string, r io.Reader, opts execution.WriteOptions) error {
	return execution.ErrUnsupported
}

// Stat describes a file, following links; see [execution.Handle].
func (c *Client) Stat(ctx context.Context, path string) (execution.FileInfo, error) {
	return execution.FileInfo{}, execution.ErrUnsupported
}

// Lstat describes a file or link; see [execution.Handle].
func (c *Client) Lstat(ctx context.Context, path string) (execution.FileInfo, error) {
	return execution.FileInfo{}, execution.ErrUnsupported
}

// List yields a directory's entries; see [execution.Handle].
func (c *Client) List(ctx context.Context, dir string) iter.Seq2[execution.FileInfo, error] {
	return nil
}

// Glob yields what matches a pattern; see [execution.Handle].
func (c *Client) Glob(ctx context.Context, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
	return nil
}
