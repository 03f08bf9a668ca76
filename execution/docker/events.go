package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A watcher follows what the engine tells of Pinfold's containers, with one
// subscription for all that a Context has made or is attached to. It starts with the first container
// and ends with stop.
type watcher struct {
	engine  engine
	label   string
	created func(id string) // told of each container that is made; may be nil

	mu       sync.Mutex
	cancel   context.CancelFunc // nil before the start
	ready    chan struct{}      // closed once the first subscription is in place
	finished chan struct{}      // closed when the goroutine has ended
	last     time.Time          // of the last event, by the engine's clock
	away     error              // why the engine does not answer; nil while it does
	fates    map[string]*fate   // by container ID
}

// sigterm is how the engine tells SIGTERM, which comes first when it stops a
// container.
const sigterm = "15"

// A fate is what has become of one container, as far as events tell.
type fate struct {
	changed chan struct{} // closed and replaced at each change

	died      bool
	exitCode  int
	signal    string // of the last kill from outside; "" for none
	stopped   bool   // asked to end from outside, if maybe not only asked
	oom       bool   // the kernel killed something in it for memory
	destroyed bool
	paused    bool
	onPause   func(paused bool)
}

func newWatcher(e engine, label string) *watcher {
	return &watcher{
		engine: e, label: label, fates: map[string]*fate{},
		ready: make(chan struct{}), finished: make(chan struct{}),
	}
}

// start makes sure that the subscription is in place, so that nothing is
// missed of a container that is made afterwards.
func (w *watcher) start(ctx context.Context) error {
	w.mu.Lock()
	if w.cancel == nil {
		var follow context.Context
		follow, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
		go w.follow(follow)
	}
	w.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends the subscription and waits until it has ended.
func (w *watcher) stop() {
	w.mu.Lock()
	cancel := w.cancel
	w.mu.Unlock()
	if cancel != nil {
		cancel()
		<-w.finished
	}
}

// How long to wait before the engine is asked again.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// follow subscribes again and again until ctx ends.
func (w *watcher) follow(ctx context.Context) {
	defer close(w.finished)
	var once sync.Once
	pause := firstRetry
	for {
		w.mu.Lock()
		since := w.last
		w.mu.Unlock()
		subscribed := func() { once.Do(func() { close(w.ready) }) }
		err := w.engine.events(ctx, since, []string{w.label}, subscribed, func(e engineEvent) {
			pause = firstRetry
			w.record(e)
		})
		if ctx.Err() != nil {
			return
		}
		w.setAway(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastRetry)
		w.resync(ctx)
	}
}

func (w *watcher) setAway(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = execution.ErrUnavailable
	}
	w.away = err
	for _, f := range w.fates {
		f.notify()
	}
}

// resync looks at what may have been missed while there was no subscription.
func (w *watcher) resync(ctx context.Context) {
	w.mu.Lock()
	known := slices.Collect(maps.Keys(w.fates)) // one that is made later need not be listed
	w.mu.Unlock()
	found, err := w.engine.list(ctx, w.label)
	if err != nil {
		return
	}
	states := map[string]string{}
	for _, c := range found {
		states[c.ID] = c.State
	}
	w.mu.Lock()
	w.away = nil
	var missed []engineEvent
	for _, id := range known {
		f := w.fates[id]
		state, there := states[id]
		switch {
		case f == nil: // forgotten
		case !there:
			missed = append(missed, engineEvent{ID: id, Action: "destroy"})
		case state == "paused" && !f.paused:
			missed = append(missed, engineEvent{ID: id, Action: "pause"})
		case state == "running" && f.paused:
			missed = append(missed, engineEvent{ID: id, Action: "unpause"})
		}
	}
	w.mu.Unlock()
	for _, e := range missed {
		w.record(e)
	}
}

// record notes an event and tells those who wait for it.
func (w *watcher) record(e engineEvent) {
	w.mu.Lock()
	if e.Time.After(w.last) {
		// The engine sends again what happened at that very moment, which
		// does no harm.
		w.last = e.Time
	}
	w.away = nil
	f := w.fates[e.ID]
	if f == nil {
		w.mu.Unlock()
		if e.Action == "create" && w.created != nil {
			w.created(e.ID)
		}
		return
	}
	var onPause func(bool)
	switch e.Action {
	case "die":
		f.died, f.exitCode = true, e.ExitCode
	case "kill":
		f.signal = e.Signal
		f.stopped = f.stopped || e.Signal == sigterm
	case "stop":
		f.stopped = true
	case "oom":
		f.oom = true
	case "destroy":
		f.destroyed = true
	case "pause", "unpause":
		f.paused = e.Action == "pause"
		onPause = f.onPause
	}
	f.notify()
	paused := f.paused
	w.mu.Unlock()
	if onPause != nil {
		onPause(paused)
	}
}

// notify wakes up who waits; the watcher is locked.
func (f *fate) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// add begins to keep the fate of a container.
func (w *watcher) add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fates[id] == nil {
		w.fates[id] = &fate{changed: make(chan struct{}), exitCode: -1}
	}
}

// forget ends it.
func (w *watcher) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fates, id)
}

// onPause has f called, from one goroutine, whenever the container is paused
// or goes on, and once if it is paused already.
func (w *watcher) onPause(id string, f func(paused bool)) {
	w.mu.Lock()
	fate := w.fates[id]
	if fate == nil {
		w.mu.Unlock()
		return
	}
	fate.onPause = f
	paused := fate.paused
	w.mu.Unlock()
	if paused {
		f(true)
	}
}

// look returns a copy of the fate of a container and a channel that is closed
// when it changes.
func (w *watcher) look(id string) (fate, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fates[id]
	if f == nil {
		return fate{}, nil, errors.New("not watched")
	}
	return *f, f.changed, w.away
}

// wait returns the fate of a container once done says so, or as it is when ctx
// ends.
func (w *watcher) wait(ctx context.Context, id string, done func(fate) bool) fate {
	for {
		f, changed, away := w.look(id)
		if changed == nil || done(f) || away != nil {
			return f
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f
		}
	}
}
