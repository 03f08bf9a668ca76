package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A StartFunc starts a command as execution.Handle.Start does. The Wait of what
// it starts must keep its promise: all output has then been handed on.
type StartFunc func(ctx context.Context, cmd execution.Command) (execution.Process, error)

// Options say how a registry works. The zero value is good for tests.
type Options struct {
	// Backend and Handle are what the registry's errors name.
	Backend, Handle string

	// InMemory keeps output in the heap instead of in a file. It is for
	// backends that are no more than memory, such as those for tests.
	InMemory bool

	// Limit is how many bytes all tasks together may keep. Where they would
	// keep more, the output of ended ones goes first, then some of what those
	// keep that have more than their share. A task that finds no room at all is
	// killed, and its status says so. 0 means no limit but those of package
	// execution.
	Limit int64
}

// A Registry keeps track of a handle's tasks. Its methods may be called from
// many goroutines at once.
type Registry struct {
	start StartFunc
	opts  Options
	spool *spool
	gone  chan struct{}  // closed by End
	crew  sync.WaitGroup // a goroutine for each task that runs

	// What is kept of ended tasks, which tests make smaller.
	maxEnded  int
	maxOutput int64

	mu     sync.Mutex
	err    error // why the handle has ended
	number int64 // of the task that was started last
	tasks  []*task

	// The tasks that have ended, in the order of their endings, which are
	// numbered from 1. The first ones have been forgotten: ended[0] has the
	// number forgotten+1. Those up to emptied have lost their output, those up
	// to told have been told of.
	ended                    []*task
	forgotten, emptied, told uint64
	endedOutput              int64 // bytes that the others keep

	following bool
	changed   chan struct{} // closed at the next ending, where somebody waits
}

// New makes the registry of a handle whose commands start with start. It must
// be ended.
func New(start StartFunc, opts Options) *Registry {
	r := &Registry{
		start: start, opts: opts, gone: make(chan struct{}),
		maxEnded: execution.MaxEndedTasks, maxOutput: execution.MaxEndedOutput,
	}
	open := openFile
	if opts.InMemory {
		open = openMemory
	}
	r.spool = newSpool(open, blockSize, opts.Limit)
	r.spool.reclaim = r.reclaim
	return r
}

// End ends the registry with its handle, for a reason that matches
// execution.ErrClosed or execution.ErrLost. What waits returns with that error,
// and so do later calls. When End returns, no goroutine and no file is left,
// though processes may be. Ending again does nothing.
func (r *Registry) End(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
		close(r.gone)
		for _, t := range r.tasks {
			if t.cancel != nil {
				t.cancel()
			}
		}
	}
	r.mu.Unlock()
	r.crew.Wait()
	r.spool.close()
}

// StartTask is execution.Handle's.
func (r *Registry) StartTask(ctx context.Context, cmd execution.Command, opts execution.TaskOptions) (execution.Task, error) {
	const op = "start task"
	if err := cmp.Or(r.failure(), ctx.Err(), cmd.ValidateTask(opts)); err != nil {
		return nil, r.fail(op, err)
	}
	t := newTask(r, cmd, cmp.Or(opts.Keep, execution.DefaultTaskOutput))
	cmd.Stdout = &t.out[0]
	if cmd.TTY == nil {
		cmd.Stderr = &t.out[1]
	}
	proc, err := r.start(ctx, cmd)
	if err != nil {
		t.empty()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := r.add(t, proc, cancel); err != nil {
		cancel()
		return nil, r.fail(op, err)
	}
	go t.follow(ctx, proc)
	return t, nil
}

// add gives a task that was started its number. Where the handle has ended
// meanwhile, the process ends with it like any other.
func (r *Registry) add(t *task, proc execution.Process, cancel func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.number++
	t.number, t.proc, t.cancel, t.started = r.number, proc, cancel, time.Now()
	r.tasks = append(r.tasks, t)
	r.crew.Add(1)
	return nil
}

// finish takes a task among those that have ended.
func (r *Registry) finish(t *task, status execution.ExitStatus) {
	kept := t.kept()
	r.mu.Lock()
	defer r.mu.Unlock()
	t.status, t.ended, t.cancel = status, time.Now(), nil
	if len(status.Leftovers) == 0 {
		t.proc = nil
	}
	r.ended = append(r.ended, t)
	r.endedOutput += kept
	for r.endedOutput > r.maxOutput {
		if !r.emptyOldest() {
			break
		}
	}
	for len(r.ended) > r.maxEnded {
		r.forgetOldest()
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// emptyOldest drops the output of the task that ended first among those that
// have any. The lock is held.
func (r *Registry) emptyOldest() (found bool) {
	i := r.emptied - r.forgotten
	if i == uint64(len(r.ended)) {
		return false
	}
	r.endedOutput -= r.ended[i].kept()
	r.ended[i].empty()
	r.emptied++
	return true
}

// reclaim makes room for a stream that takes so many blocks: of what ended tasks
// keep, or where it has less than its share, of the one that takes most. The
// stream is locked, so that others are only tried.
func (r *Registry) reclaim(own int) bool {
	for range busyTries {
		done, again := r.tryReclaim(own)
		if done || !again {
			return done
		}
		time.Sleep(busyPause)
	}
	return false
}

// A stream is busy for as long as a write takes.
const (
	busyTries = 100
	busyPause = time.Millisecond
)

func (r *Registry) tryReclaim(own int) (done, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.emptyOldest() {
		return true, false
	}
	running := len(r.tasks) - len(r.ended)
	if streams := int64(2 * max(1, running)); int64(own)*streams >= r.spool.limit {
		return false, false
	}
	var largest *stream
	most := 0
	for _, t := range r.tasks {
		if t.cancel == nil {
			continue // it has ended, and keeps nothing any more
		}
		for i := range t.out {
			if n := t.out[i].blocks(); n > most {
				largest, most = &t.out[i], n
			}
		}
	}
	return largest != nil && largest.shed(), true
}

// forgetOldest forgets the task that ended first. The lock is held.
func (r *Registry) forgetOldest() {
	t := r.ended[0]
	if r.emptied == r.forgotten {
		r.emptyOldest()
	}
	if i, found := r.find(t.number); found {
		r.tasks = slices.Delete(r.tasks, i, i+1)
	}
	r.ended[0] = nil
	r.ended = r.ended[1:]
	r.forgotten++
}

// find looks up a number. The lock is held.
func (r *Registry) find(number int64) (int, bool) {
	return slices.BinarySearchFunc(r.tasks, number, func(t *task, n int64) int { return cmp.Compare(t.number, n) })
}

// Task is execution.Handle's.
func (r *Registry) Task(ctx context.Context, id string) (execution.Task, error) {
	t, err := r.task(ctx, id)
	if err != nil {
		return nil, r.fail("find task", err)
	}
	return t, nil
}

func (r *Registry) task(ctx context.Context, id string) (*task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(r.err, ctx.Err()); err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(id, idPrefix)
	if number, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && taskID(number) == id {
		if i, found := r.find(number); found {
			return r.tasks[i], nil
		}
	}
	return nil, fmt.Errorf("%w: no task %.40q; %s", execution.ErrNotFound, id, r.known(id))
}

// known says which tasks there are, those first that id may have meant. The
// lock is held.
func (r *Registry) known(id string) string {
	const most = 5
	if len(r.tasks) == 0 {
		return "there are none"
	}
	digits := strings.TrimFunc(id, func(c rune) bool { return c < '0' || c > '9' })
	near := max(0, len(r.tasks)-most)
	if number, err := strconv.ParseInt(digits, 10, 64); err == nil {
		i, _ := r.find(number)
		near = max(0, min(i-most/2, near))
	}
	var names []string
	for _, t := range r.tasks[near:min(near+most, len(r.tasks))] {
		names = append(names, t.ID())
	}
	text := "there are " + strings.Join(names, ", ")
	if more := len(r.tasks) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d others from %s to %s", more, r.tasks[0].ID(), r.tasks[len(r.tasks)-1].ID())
	}
	return text
}

// Tasks is execution.Handle's.
func (r *Registry) Tasks(ctx context.Context) iter.Seq2[execution.TaskInfo, error] {
	return func(yield func(execution.TaskInfo, error) bool) {
		r.mu.Lock()
		tasks := slices.Clone(r.tasks)
		r.mu.Unlock()
		for _, t := range tasks {
			if cmp.Or(r.failure(), ctx.Err()) != nil {
				break
			}
			if !yield(t.info(), nil) {
				return
			}
		}
		if err := cmp.Or(r.failure(), ctx.Err()); err != nil {
			yield(execution.TaskInfo{}, r.fail("list tasks", err))
		}
	}
}

// RunningTasks is how many tasks have not ended.
func (r *Registry) RunningTasks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks) - len(r.ended)
}

// failure is why the handle has ended, if it has.
func (r *Registry) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// fail makes the error of a call.
func (r *Registry) fail(op string, err error) error {
	if own, ok := errors.AsType[*execution.Error](err); ok && own.Handle == r.opts.Handle && own.Path == "" {
		err = own.Err // the end of the handle, which names it already
	}
	return &execution.Error{Op: op, Backend: r.opts.Backend, Handle: r.opts.Handle, Err: err}
}
