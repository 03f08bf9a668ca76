package guest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// A Client runs operations in one guest. All methods may be called from many
// goroutines at once; their contract is [execution.Handle]'s.
type Client struct {
	backend, handle string
	explain         func(ctx context.Context, cause error) error
	facts           Facts
	mux             *wire.Mux
	paused          atomic.Bool
	following       atomic.Bool   // a loop over Events runs
	processes       atomic.Uint64 // numbers given to processes so far
	cancel          context.CancelFunc
	watching        sync.WaitGroup

	// What it takes to find the guest again.
	redial  func(ctx context.Context) (io.ReadWriteCloser, error)
	key     []byte
	session [wire.SessionSize]byte
	lease   time.Duration
	breaks  chan error  // why the connection broke
	away    atomic.Bool // there is no connection

	replaced atomic.Bool
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
	// Explaining and watching go on for as long as the client lives.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{
		backend: opts.Backend, handle: opts.Handle, explain: opts.Explain, cancel: cancel,
		redial: opts.Redial, key: opts.Config.Key,
		breaks: make(chan error, 1),
	}
	if _, err := rand.Read(c.session[:]); err != nil {
		cancel()
		return nil, errors.Join(c.wrap("greet guest", "", err), conn.Close())
	}
	opts.Config.Session = c.session
	c.mux = wire.New(life, conn, wire.Config{Explain: func(cause error) error { return c.verdict(life, cause) }})
	if err := c.greet(ctx, opts.Config); err != nil {
		_ = c.Close()
		return nil, err
	}
	if c.redial != nil && len(c.key) > 0 {
		c.mux.Survive(c.broke)
		c.watching.Go(func() { c.reconnectAll(life) })
	}
	c.watching.Go(func() {
		// The lease is what the guest says it is.
		renew := max(min(DefaultHeartbeat, c.lease/3), minHeartbeat)
		c.watch(life, withDefault(opts.Heartbeat, renew), withDefault(opts.Silence, DefaultSilence))
	})
	return c, nil
}

func withDefault(d, standard time.Duration) time.Duration {
	if d <= 0 {
		return standard
	}
	return d
}

func (c *Client) greet(ctx context.Context, cfg Config) error {
	if cfg.Lease <= 0 {
		cfg.Lease = DefaultLease
	}
	reply, err := c.mux.Greet(ctx, cfg.Encode())
	if err != nil {
		return c.wrap("greet guest", "", err)
	}
	facts, failure, err := proto.DecodeFacts(reply)
	switch {
	case err != nil:
		return c.wrap("greet guest", "", c.broken(err))
	case failure != nil:
		return failure.Err(c.backend, c.handle)
	}
	c.facts = *facts
	c.lease = withDefault(facts.Lease, DefaultLease)
	return nil
}

// Facts is what the guest reported when it was greeted.
func (c *Client) Facts() Facts { return c.facts }

// Dir is the absolute working directory in the sandbox.
func (c *Client) Dir() string { return c.facts.Dir }

// Pause tells the client that the sandbox is frozen (true) or runs again
// (false). While it is frozen, calls that the guest has not acknowledged yet
// and new ones fail with ErrPaused, and the guest drops them when it wakes up.
// Processes that run and files that are open just wait, and silence is not
// counted.
func (c *Client) Pause(paused bool) {
	c.paused.Store(paused)
	if paused {
		c.mux.Hold(execution.ErrPaused)
	} else {
		c.mux.Hold(nil)
	}
}

// Done is closed when the client has ended: closed, or its sandbox lost.
func (c *Client) Done() <-chan struct{} { return c.mux.Done() }

// Err is nil while the client lives. After Close it matches ErrClosed, after
// a loss ErrLost, and then says why.
func (c *Client) Err() error {
	if err := c.mux.Err(); err != nil {
		return c.wrap("", "", err)
	}
	return nil
}

// Replaced reports whether the client has ended because another host has taken
// over, whose sandbox it is now.
func (c *Client) Replaced() bool { return c.replaced.Load() }

// Close ends the stream, upon which the guest kills all that it runs and
// exits, and waits until the client's own goroutines have ended. Pending and
// later calls fail with ErrClosed. Closing again does nothing. A writer of a
// command's output that blocks is not waited for.
func (c *Client) Close() error {
	c.cancel()
	c.mux.Close(execution.ErrClosed)
	c.watching.Wait()
	return nil
}

// leaveTime bounds how long the guest is waited for when its host leaves.
const leaveTime = 5 * time.Second

// Detach is Close, and tells the guest of it: what was started in the foreground
// ends at once, and not with the lease.
func (c *Client) Detach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	_ = c.do(ctx, "detach", &proto.Call{Method: proto.MethodLeave}) // else its lease ends it
	return c.Close()
}

// wrap makes the error of an operation.
func (c *Client) wrap(op, path string, err error) error {
	if e, ok := err.(*execution.Error); ok && e.Op == "" && e.Path == "" { //nolint:errorlint // only its outermost layer
		err = e.Err
	}
	if errors.Is(err, wire.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", execution.ErrInvalid, err)
	}
	return &execution.Error{Op: op, Backend: c.backend, Handle: c.handle, Path: path, Err: err}
}

// broken ends the client because the guest sent something senseless.
func (c *Client) broken(err error) error {
	if !errors.Is(err, wire.ErrViolation) {
		err = fmt.Errorf("%w: %w", wire.ErrViolation, err)
	}
	c.mux.Fail(err)
	return lost(err)
}

// lost makes an error match ErrLost.
func lost(err error) error {
	if errors.Is(err, execution.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", execution.ErrLost, err)
}

// An explained error is Explain's answer, which is not to be asked again.
type explained struct{ error }

func (e explained) Unwrap() error { return e.error }

// verdict turns the reason why the stream ended into the client's error.
func (c *Client) verdict(life context.Context, cause error) error {
	if known, ok := errors.AsType[explained](cause); ok {
		return known.error
	}
	if f, ok := errors.AsType[*wire.FarewellError](cause); ok {
		if f.Text == proto.Replaced {
			c.replaced.Store(true)
		}
		return lost(errors.New(proto.Printable(f.Text)))
	}
	if err := c.ask(life, cause); errors.Is(err, execution.ErrLost) {
		return err
	}
	return lost(cause) // it lives, or nobody knows, and cannot be spoken to
}

// ask calls Explain. A nil answer says that the sandbox lives, one that does
// not match ErrLost that nobody knows.
func (c *Client) ask(life context.Context, cause error) error {
	if c.explain == nil {
		return lost(cause)
	}
	ctx, cancel := context.WithTimeout(life, explainDeadline)
	defer cancel()
	err := c.explain(ctx, cause)
	if err == nil {
		return nil
	}
	if e, ok := err.(*execution.Error); ok { //nolint:errorlint // only its outermost layer
		err = e.Err // the operation that it hits names the sandbox
	}
	if errors.Is(err, execution.ErrUnavailable) || errors.Is(err, execution.ErrTimeout) {
		return err
	}
	return lost(err)
}

// watch keeps the heartbeat: it lets the guest know that its host lives, and
// notices when the guest says nothing any more. It counts beats instead of
// looking at the clock, so that a host that was suspended does not take its
// guests for dead.
func (c *Client) watch(life context.Context, heartbeat, silence time.Duration) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	var quiet time.Duration
	silences := 0
	last := c.mux.Beats()
	for {
		select {
		case <-ticker.C:
		case <-life.Done():
			return
		case <-c.mux.Done():
			return
		}
		if now := c.mux.Beats(); now != last || c.paused.Load() || c.away.Load() {
			last, quiet, silences = now, 0, 0
		} else if quiet += heartbeat; quiet >= silence {
			silences++
			quiet = 0
			if err := c.judge(life, silence, silences); err != nil {
				c.mux.Fail(explained{err})
				return
			}
		}
		if !c.paused.Load() && !c.away.Load() {
			c.mux.Ping()
		}
	}
}

// judge decides what becomes of a guest that was silent several times in a
// row; nil lets it live.
func (c *Client) judge(life context.Context, silence time.Duration, silences int) error {
	cause := fmt.Errorf("guest has not answered for %v", time.Duration(silences)*silence)
	err := c.ask(life, cause)
	if errors.Is(err, execution.ErrLost) {
		return err
	}
	if silences >= maxSilences {
		return lost(cause)
	}
	return nil
}
