package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Program is what a command does. It returns its exit code.
//
// ctx ends when the process is killed: by SIGKILL, by a signal that the
// program has neither ignored nor asked to be notified of, or by the end of
// its sandbox. A program must then return soon, since a kill waits for it.
// Reads and writes fail by themselves from then on.
type Program func(ctx context.Context, p *Proc) int

// A Proc is a running program. Its fields are for reading.
type Proc struct {
	Args   []string // the program and its arguments, or the shell line
	Env    []string // "NAME=value", each name once
	Dir    string   // absolute
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	job   *job
	pid   int
	group int
	stop  context.CancelFunc
	dead  <-chan struct{} // closed when it was killed
	ended chan struct{}   // closed when the program has returned

	mu       sync.Mutex
	code     int
	signal   execution.Signal // what killed it
	memory   int64
	ignored  map[execution.Signal]bool
	notified map[execution.Signal]chan execution.Signal
	outputs  []*pipe // that it holds open
}

var errKilled = errors.New("the process was killed")

// A Fork says what a child process is to be.
type Fork struct {
	Program  Program
	Args     []string // what a list of processes shows
	Detached bool     // in a session, and so a process group, of its own
}

// PID is the process's ID in its sandbox.
func (p *Proc) PID() int { return p.pid }

// Handle is the sandbox.
func (p *Proc) Handle() *Handle { return p.job.handle }

// User is who the process runs as.
func (p *Proc) User() (uid, gid uint32) { return p.job.handle.uid, p.job.handle.gid }

// Path is name, if relative below the process's working directory.
func (p *Proc) Path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return p.Dir + "/" + name
}

// Getenv is the value of an environment variable.
func (p *Proc) Getenv(name string) (value string, ok bool) {
	for _, entry := range p.Env {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// Terminal is the size of the terminal that the process runs on, if it does.
func (p *Proc) Terminal() (size execution.TerminalSize, ok bool) { return p.job.terminal() }

// Ignore makes signals do nothing, to this process and the children that it
// forks from now on.
func (p *Proc) Ignore(signals ...execution.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sig := range signals {
		p.ignored[sig] = true
	}
}

// Notify returns a channel that gets the signals instead of their doing what
// they do otherwise. SIGKILL cannot be caught. The channel holds one signal of
// each kind.
func (p *Proc) Notify(signals ...execution.Signal) <-chan execution.Signal {
	c := make(chan execution.Signal, len(signals))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sig := range signals {
		p.notified[sig] = c
	}
	return c
}

// Raise sends the process a signal.
func (p *Proc) Raise(sig execution.Signal) { p.deliver(sig) }

// Fork starts a child process, which inherits everything, and returns its ID.
// The child is on its own: it goes on when its parent ends, and ctx bounds only
// its start. Fork fails when the parent was killed and at the sandbox's limit
// of processes.
func (p *Proc) Fork(ctx context.Context, f Fork) (pid int, err error) {
	child := &Proc{Args: f.Args, Env: p.Env, Dir: p.Dir, group: p.group}
	if f.Detached {
		child.group = 0
	}
	p.mu.Lock()
	child.ignored = map[execution.Signal]bool{}
	for sig := range p.ignored {
		child.ignored[sig] = true
	}
	child.outputs = slices.Clone(p.outputs)
	p.mu.Unlock()
	if err := p.job.begin(ctx, child, f.Program, true); err != nil {
		return 0, err
	}
	return child.pid, nil
}

// Allocate says that the process uses so many bytes more. At the sandbox's
// memory limit the process is killed, as the kernel does.
func (p *Proc) Allocate(bytes int64) error {
	h := p.job.handle
	h.mu.Lock()
	limit := h.spec.Limits.Memory
	over := limit > 0 && h.memory+bytes > limit
	if !over {
		h.memory += bytes
	}
	h.mu.Unlock()
	if over {
		p.job.outOfMemory(p)
		return fmt.Errorf("%w: out of memory", errKilled)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory += bytes
	return nil
}

// Compute uses so much processor time, which takes longer where the sandbox
// has less than one processor. It returns early when ctx ends.
func (p *Proc) Compute(ctx context.Context, d time.Duration) {
	wall := d
	if limit := p.job.handle.spec.Limits.CPUs; limit > 0 && limit < 1 {
		wall = time.Duration(float64(d) / limit)
	}
	start := time.Now()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		d = min(d, time.Duration(float64(d)*float64(time.Since(start))/float64(wall)))
	}
	p.job.used(d)
}

// CloseOutput closes stdout and stderr.
func (p *Proc) CloseOutput() {
	p.mu.Lock()
	outputs := p.outputs
	p.outputs = nil
	p.mu.Unlock()
	for _, out := range outputs {
		out.close()
	}
}

// fatal reports whether a signal ends a process that does nothing about it.
// Stopping and going on are not imitated.
func fatal(sig execution.Signal) bool {
	switch int(sig) {
	case 17, 18, 19, 20, 21, 22, 23, 28:
		return false
	}
	return true
}

// deliver does what sig does.
func (p *Proc) deliver(sig execution.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig != execution.SIGKILL {
		if c, ok := p.notified[sig]; ok {
			select {
			case c <- sig:
			default:
			}
			return
		}
		if p.ignored[sig] || !fatal(sig) {
			return
		}
	}
	if p.signal == 0 {
		p.signal = sig
		p.stop()
	}
}

// run is the life of a process.
func (p *Proc) run(ctx context.Context, program Program) {
	code := program(ctx, p)
	p.mu.Lock()
	p.code = code
	p.mu.Unlock()
	p.stop()
	p.CloseOutput()
	p.job.finish(p)
}

// A procReader and a procWriter are a process's ends of its pipes. They fail
// once it was killed, and rest while the sandbox is paused.
type procReader struct {
	proc *Proc
	pipe *pipe
}

func (r procReader) Read(b []byte) (int, error) {
	r.proc.job.handle.waitResumed(r.proc.dead)
	return r.pipe.read(b, r.proc.dead)
}

type procWriter struct {
	proc *Proc
	pipe *pipe
}

func (w procWriter) Write(b []byte) (int, error) {
	w.proc.job.handle.waitResumed(w.proc.dead)
	w.proc.mu.Lock()
	open := slices.Contains(w.proc.outputs, w.pipe)
	killed := w.proc.signal != 0
	w.proc.mu.Unlock()
	switch {
	case killed:
		return 0, errKilled
	case !open:
		return 0, io.ErrClosedPipe
	}
	return w.pipe.write(b, w.proc.dead)
}
