package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

const (
	// cleanupDeadline bounds the removal of a sandbox, whatever the engine does.
	cleanupDeadline = 30 * time.Second

	// killDeadline bounds a kill, which is proven within milliseconds.
	killDeadline = 30 * time.Second

	// controlDeadline bounds the delivery of one signal or window size.
	controlDeadline = 5 * time.Second

	// hangupGrace is how long a command may go on after its terminal has
	// gone: nobody is left to press Ctrl-C again.
	hangupGrace = 10 * time.Second

	// drainAfterKill is how long the output of a killed command is waited
	// for: a reader that has stopped reading must not keep pinfold. It is
	// also how long Wait may then take to notice.
	drainAfterKill = 2 * time.Second
)

// A session is one sandbox and one command in it, from opening the backend to
// the removal of the sandbox, or to leaving it where it was there before. One goroutine runs it; the others that it starts
// are listed where they start.
type session struct {
	app     *app
	plan    *plan
	signals *listener

	stdout, stderr io.Writer // what the command gets
	outlets
	captured [2]execution.Capture

	backend  execution.Context
	handle   execution.Handle
	proc     execution.Process
	terminal *terminal // raw since the command's start; nil without -it

	began                     time.Time
	spawned, destroyed, total time.Duration
}

// openStreams decides where the command's output goes.
func (s *session) openStreams() {
	switch {
	case s.plan.json:
		s.stdout, s.stderr = &s.captured[0], &s.captured[1]
	case s.plan.tty:
		s.stdout = s.outputTo(s.app.stdout) // all of a terminal's output, raw; stderr stays nil
	default:
		s.stdout, s.stderr = s.shownOn(s.app.stdout), s.shownOn(s.app.stderr.w)
	}
}

// run does the whole of it. Whatever happens, the terminal is back in order
// and the sandbox removed when it returns.
func (s *session) run(ctx context.Context) (o outcome) {
	s.began = time.Now()
	s.app.announce(s.plan)
	defer func() {
		s.total = time.Since(s.began)
	}()
	defer func() { o.undone = s.cleanUp(ctx, len(o.status.Leftovers) > 0) }()
	defer s.close()
	defer s.restoreTerminal()

	early, err := s.start(ctx)
	if err != nil {
		return s.notStarted(early, err)
	}
	o.status, o.err = s.attend(ctx, early)
	o.code = endingCode(o.status, o.err)
	return o
}

// notStarted is the outcome when there was no command.
func (s *session) notStarted(early []execution.Signal, err error) outcome {
	if len(early) > 0 {
		err = interruption(early[0])
	}
	return outcome{code: exitCode(err), err: err}
}

// start brings the command up in a goroutine of its own, which it always waits
// for, and ends that by its context when a signal comes. It returns the signals
// that came: the command may have started in spite of them.
func (s *session) start(ctx context.Context) (early []execution.Signal, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := make(chan error, 1)
	go func() { begun <- s.begin(ctx) }()
	for {
		select {
		case err := <-begun:
			return early, err
		case host := <-s.signals.c:
			if sig, ends := endingSignal(host); ends {
				early = append(early, sig)
				cancel()
			}
		}
	}
}

func (s *session) begin(ctx context.Context) (err error) {
	progress := newProgress(s.app.stderr)
	s.backend, err = s.app.backends.open(ctx, s.plan.backend, openOptions{progress: progress.event, keep: s.plan.keep})
	if err != nil {
		return err
	}
	spawning := time.Now()
	if s.plan.attach != nil {
		s.handle, err = s.plan.attach.enter(ctx, s.backend)
	} else {
		s.handle, err = s.backend.Spawn(ctx, s.plan.spec)
	}
	s.spawned = time.Since(spawning)
	if err != nil {
		return err
	}
	command := s.plan.command
	command.Stdout, command.Stderr = s.stdout, s.stderr
	if s.plan.interactive {
		command.Stdin = s.app.stdin
	}
	if s.plan.tty {
		if command.TTY, err = s.openTerminal(ctx); err != nil {
			return err
		}
	}
	s.proc, err = s.handle.Start(ctx, command)
	return err
}

// openTerminal finds the terminal's size and, when its keys go to the command,
// makes it raw.
func (s *session) openTerminal(ctx context.Context) (*execution.TerminalSize, error) {
	t := newTerminal(s.app.stdin, s.app.stdout)
	size := t.size()
	if s.plan.interactive {
		if err := t.makeRaw(ctx); err != nil {
			return nil, err
		}
	}
	s.terminal = t
	return &size, nil
}

func (s *session) restoreTerminal() {
	if s.terminal != nil {
		s.terminal.restore()
	}
}

// attend waits for the command's end and passes signals and window sizes on.
// early are those that came while the command was starting. Its goroutines
// (one waits, one controls, one may kill) have ended when it returns.
func (s *session) attend(ctx context.Context, early []execution.Signal) (execution.ExitStatus, error) {
	started := time.Now()
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan ended, 1)
	go func() {
		status, err := s.proc.Wait(waiting)
		done <- ended{status, err}
	}()
	w := &watch{session: s, controls: newControls(waiting)}
	defer w.stop()
	defer cancel()
	s.resize(w.controls) // the window may have changed since the size was read
	for _, sig := range early {
		w.signal(ctx, sig)
	}
	for {
		select {
		case end := <-done:
			if errors.Is(end.err, errGivenUp) {
				end.err = nil // it was given up because the command is dead
			}
			return end.status, end.err
		case host := <-s.signals.c:
			w.hostSignal(ctx, host)
		case <-w.hangup:
			w.kill(ctx)
		case w.killErr = <-w.killed:
			w.drain = time.After(drainAfterKill)
		case <-w.drain:
			s.giveUp()
			w.last = time.After(drainAfterKill)
		case <-w.last:
			cancel()
			if end := <-done; end.status.Ending != "" {
				return end.status, end.err
			}
			return execution.ExitStatus{Ending: execution.EndingCancelled, Code: -1, Duration: time.Since(started)}, w.killErr
		}
	}
}

type ended struct {
	status execution.ExitStatus
	err    error
}

// A watch counts the signals that are to end the command.
type watch struct {
	session  *session
	controls *controls
	signals  int
	killing  sync.WaitGroup
	killed   chan error
	killErr  error
	hangup   <-chan time.Time
	drain    <-chan time.Time // when what is left of the output is given up
	last     <-chan time.Time // when the command's end is not waited for any more
}

// stop waits for what the watch has started.
func (w *watch) stop() {
	w.controls.stop()
	w.killing.Wait()
}

func (w *watch) hostSignal(ctx context.Context, host os.Signal) {
	if isResize(host) {
		w.session.resize(w.controls)
		return
	}
	switch sig, ends := endingSignal(host); {
	case ends:
		w.signal(ctx, sig)
	case sig != 0:
		w.session.forward(w.controls, sig)
	}
}

// signal passes the first one on and answers the second with a kill.
func (w *watch) signal(ctx context.Context, sig execution.Signal) {
	w.signals++
	if w.signals > 1 {
		w.kill(ctx)
		return
	}
	if sig == execution.SIGHUP {
		w.hangup = time.After(hangupGrace)
	}
	w.session.forward(w.controls, sig)
}

// kill ends the command once, however often it is called.
func (w *watch) kill(ctx context.Context) {
	if w.killed != nil {
		return
	}
	killed := make(chan error, 1)
	w.killed = killed
	w.killing.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killDeadline)
		defer cancel()
		killed <- w.session.proc.Kill(ctx)
	})
}

// forward sends sig to the command. One that has just ended needs none.
func (s *session) forward(c *controls, sig execution.Signal) {
	c.do(func(ctx context.Context) {
		if err := s.proc.Signal(ctx, sig); err != nil && !errors.Is(err, execution.ErrFinished) && ctx.Err() == nil {
			s.app.stderr.say("passing %s on: %v", sig, err)
		}
	})
}

// resize tells the command's terminal the size of ours.
func (s *session) resize(c *controls) {
	resizer, ok := s.proc.(execution.Resizer)
	if !ok || s.terminal == nil {
		return
	}
	c.do(func(ctx context.Context) {
		// The size is read when its turn has come, so the last one counts. A
		// terminal that keeps a stale size is no reason to end a command.
		_ = resizer.Resize(ctx, s.terminal.size())
	})
}

// cleanUp removes what the session made, on a deadline of its own. With --keep
// the sandbox stays, and one that was attached to goes on without what the
// command has left running.
func (s *session) cleanUp(ctx context.Context, leftovers bool) error {
	destroying := time.Now()
	defer func() { s.destroyed = time.Since(destroying) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupDeadline)
	defer cancel()
	var err error
	switch {
	case s.handle == nil:
	case s.plan.attach != nil:
		if leftovers && s.proc != nil {
			err = s.proc.Kill(ctx) // They would stay with the sandbox, and belong to nobody.
		}
		err = errors.Join(err, leave(ctx, s.handle))
	default:
		err = s.handle.Destroy(ctx)
	}
	if s.backend != nil {
		err = errors.Join(err, s.backend.Close())
	}
	return err
}

// controls carries out signals and resizes one after the other, away from the
// loop that must not wait.
type controls struct {
	todo chan func(context.Context)
	done sync.WaitGroup
}

// newControls starts the goroutine, whose operations end with ctx.
func newControls(ctx context.Context) *controls {
	c := &controls{todo: make(chan func(context.Context), 16)}
	c.done.Go(func() {
		for op := range c.todo {
			ctx, cancel := context.WithTimeout(ctx, controlDeadline)
			op(ctx)
			cancel()
		}
	})
	return c
}

// do queues op, or drops it when a backend has been stuck for a whole queue.
func (c *controls) do(op func(context.Context)) {
	select {
	case c.todo <- op:
	default:
	}
}

// stop waits for the operations that are under way.
func (c *controls) stop() {
	close(c.todo)
	c.done.Wait()
}
