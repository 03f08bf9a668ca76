package executiontest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func destroyCases() []check {
	return []check{
		{"handle_tells_of_itself", destroyAlive},
		{"idempotent", destroyTwice},
		{"by_many_at_once", destroyByMany},
		{"later_calls_fail", destroyLater},
		{"during_commands", destroyDuring},
		{"during_file_transfers", destroyDuringFiles},
		{"quick", destroyQuick},
		{"with_ended_context", destroyEndedContext},
		{"failed_spawn_leaves_nothing", destroyFailedSpawn},
		{"spawn_with_ended_context", destroySpawnContext},
		{"close_destroys_what_lives", destroyClose},
		{"handles_are_apart", destroyApart},
	}
}

func destroyAlive(ctx context.Context, e *env) {
	if e.context().Type() == "" {
		e.Error("Type is empty")
	}
	if can := e.context().Capabilities(); can != e.context().Capabilities() {
		e.Error("Capabilities change from call to call")
	}
	h := e.sandbox(ctx)
	if id := h.ID(); id == "" || h.ID() != id {
		e.Errorf("ID is %q and then %q", id, h.ID())
	}
	if h.Spec().Dir != h.Dir() {
		e.Errorf("Spec().Dir is %q, Dir is %q", h.Spec().Dir, h.Dir())
	}
	if err := h.Err(); err != nil {
		e.Errorf("Err of a living sandbox: %v", err)
	}
	select {
	case <-h.Done():
		e.Error("Done of a living sandbox is closed")
	default:
	}
}

// wantGone fails the case unless nothing in the handle works any more, each
// call failing with an error that matches target.
func (e *env) wantGone(ctx context.Context, h execution.Handle, target error) {
	e.Helper()
	await(ctx, e, h.Done(), "Done is closed")
	e.wantError(h.Err(), target, "Err")
	proc, err := h.Start(ctx, e.command(Print, "", "", "0"))
	if err == nil {
		_, err = proc.Wait(ctx)
		e.Errorf("Start worked; Wait: %v", err)
	} else {
		e.wantError(err, target, "Start")
	}
	for call, err := range pathCalls(ctx, h, "file") {
		e.wantError(err, target, call)
	}
	if _, err := execution.Exec(ctx, h, e.command(Print, "", "", "0")); !errors.Is(err, target) {
		e.Errorf("Exec: error %v does not match %q", err, target)
	}
	if h.ID() == "" || h.Dir() == "" || h.Spec().Dir == "" {
		e.Error("a handle that has ended no longer tells its ID, Dir and Spec")
	}
}

func destroyTwice(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "content")
	for range 3 {
		if err := h.Destroy(ctx); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	}
	e.wantGone(ctx, h, execution.ErrClosed)
}

func destroyByMany(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := h.Destroy(ctx); err != nil {
				e.Errorf("Destroy by one of many: %v", err)
			}
			// For none of them it is still going on.
			select {
			case <-h.Done():
			default:
				e.Error("Destroy returned, and Done is open")
			}
		})
	}
	group.Wait()
}

func destroyLater(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "content")
	ended := e.start(ctx, h, e.command(Print, "", "", "6"))
	e.wantExit(e.wait(ctx, ended), 6)
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.wantGone(ctx, h, execution.ErrClosed)
	// What was known stays known.
	e.wantExit(e.wait(ctx, ended), 6)
	if err := ended.Signal(ctx, execution.SIGTERM); !errors.Is(err, execution.ErrFinished) && !errors.Is(err, execution.ErrClosed) {
		e.Errorf("Signal after Destroy: %v", err)
	}
}

// wantDestroyed fails the case unless a command that ran during Destroy has
// an ending that fits.
func (e *env) wantDestroyed(ctx context.Context, proc execution.Process) {
	e.Helper()
	status, err := proc.Wait(ctx)
	switch {
	case err == nil && status.Ending == execution.EndingCancelled:
	case errors.Is(err, execution.ErrClosed) && status.Ending == execution.EndingLost && status.Reason != "":
	default:
		e.Errorf("a command that ran during Destroy ended as %+v, %v; "+
			"want cancelled without an error, or lost with ErrClosed and a reason", status, err)
	}
}

func destroyDuring(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	tree, pids := e.grow(ctx, h, e.command(Group), 2)
	if e.can().ProvenKill {
		proc, more := e.grow(ctx, h, e.command(Tree), TreeSize)
		defer e.wantDestroyed(ctx, proc)
		pids = append(pids, more...)
	}
	reader := make(stuck)
	e.atEnd(func() { close(reader) })
	cmd := e.command(Cat)
	cmd.Stdin = reader
	cat := e.start(ctx, h, cmd)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, _ = cat.Wait(ctx)
	}()

	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	await(ctx, e, waited, "Wait returns")
	e.wantDestroyed(ctx, tree)
	e.wantDestroyed(ctx, cat)
	for _, pid := range pids {
		if e.harness.Alive != nil && e.harness.Alive(e, h, pid) {
			e.Errorf("process %d is alive after Destroy", pid)
		}
	}
	e.wantGone(ctx, h, execution.ErrClosed)
}

func destroyDuringFiles(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	reached := make(chan struct{})
	var once sync.Once
	written := make(chan error, 1)
	go func() {
		written <- h.WriteFile(ctx, "file", &pattern{size: 1 << 50, each: func(at int64) {
			if at > 0 {
				once.Do(func() { close(reached) })
			}
		}}, execution.WriteOptions{})
	}()
	await(ctx, e, reached, "the write is under way")
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.wantError(await(ctx, e, written, "WriteFile returns"), execution.ErrClosed, "WriteFile during Destroy")
}

func destroyQuick(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	cmd := e.command(Group)
	cmd.Grace = time.Hour
	script := e.command(Trap)
	script.Grace = time.Hour
	out := &tape{}
	script.Stdout = out
	e.start(ctx, h, script)
	out.awaitText(ctx, e, "ready\n")
	e.grow(ctx, h, cmd, 2)
	// A stop that asks politely takes ten seconds with some engines.
	limited, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	if err := h.Destroy(limited); err != nil {
		e.Errorf("Destroy: %v", err)
	}
}

func destroyEndedContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := h.Destroy(ended); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Destroy with an ended context: %v", err)
	}
	if err := h.Destroy(ctx); err != nil {
		e.Errorf("Destroy after one that was cut short: %v", err)
	}
	e.wantGone(ctx, h, execution.ErrClosed)
}

func destroyFailedSpawn(ctx context.Context, e *env) {
	backend := e.context()
	before := inventory(e, e.harness)
	for what, change := range map[string]func(*execution.Spec){
		"a missing directory":    func(s *execution.Spec) { s.Dir = "/no/such/dir" },
		"a relative directory":   func(s *execution.Spec) { s.Dir = "relative" },
		"a bad environment":      func(s *execution.Spec) { s.Env = []string{"NAME"} },
		"a reserved label":       func(s *execution.Spec) { s.Labels = map[string]string{execution.LabelPrefix + "x": ""} },
		"a senseless mount":      func(s *execution.Spec) { s.Mounts = []execution.Mount{{Type: "cloud", Target: "/mnt"}} },
		"a negative limit":       func(s *execution.Spec) { s.Limits.Memory = -1 },
		"an unknown profile":     func(s *execution.Spec) { s.Profile = "no-such-profile" },
		"an unknown pull policy": func(s *execution.Spec) { s.Pull = "sometimes" },
	} {
		spec := e.spec()
		change(&spec)
		_, err := e.trySpawn(ctx, spec)
		if _, ok := errors.AsType[*execution.Error](err); !ok {
			e.Errorf("Spawn with %s: got %v, want an *execution.Error", what, err)
		}
	}
	for _, item := range inventory(e, e.harness) {
		if !slices.Contains(before, item) {
			e.Errorf("a failed Spawn left %s", item)
		}
	}
	h, err := backend.Spawn(ctx, e.spec())
	if err != nil {
		e.Fatalf("Spawn after failed ones: %v", err)
	}
	if err := h.Destroy(ctx); err != nil {
		e.Errorf("Destroy: %v", err)
	}
}

func destroySpawnContext(ctx context.Context, e *env) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := e.trySpawn(ended, e.spec()); !errors.Is(err, context.Canceled) {
		e.Errorf("Spawn with an ended context: got %v", err)
	}
	limited, stop := context.WithCancel(ctx)
	h, err := e.trySpawn(limited, e.spec())
	stop()
	if err != nil {
		e.Fatalf("Spawn: %v", err)
	}
	e.run(ctx, h, Print, "", "", "0")
	if err := h.Err(); err != nil {
		e.Errorf("the sandbox ended with the context of its Spawn: %v", err)
	}
}

func destroyClose(ctx context.Context, e *env) {
	backend := e.context()
	first, second := e.sandbox(ctx), e.sandbox(ctx)
	proc := e.start(ctx, second, e.command(Sleep))
	if err := first.Destroy(ctx); err != nil {
		e.Errorf("Destroy: %v", err)
	}
	for range 2 {
		if err := backend.Close(); err != nil {
			e.Errorf("Close: %v", err)
		}
	}
	e.wantDestroyed(ctx, proc)
	e.wantGone(ctx, second, execution.ErrClosed)
	h, err := backend.Spawn(ctx, e.spec())
	if err == nil {
		_ = h.Destroy(ctx)
	}
	e.wantError(err, execution.ErrClosed, "Spawn after Close")
}

func destroyApart(ctx context.Context, e *env) {
	first, second := e.sandbox(ctx), e.sandbox(ctx)
	if first.ID() == second.ID() {
		e.Errorf("two handles have the ID %q", first.ID())
	}
	e.write(ctx, first, "mine", "content")
	if e.can().Isolation {
		if _, err := second.Stat(ctx, first.Dir()+"/mine"); !errors.Is(err, execution.ErrNotFound) {
			e.Errorf("one sandbox sees another's file (Stat: %v)", err)
		}
	}
	if err := first.Destroy(ctx); err != nil {
		e.Errorf("Destroy: %v", err)
	}
	e.run(ctx, second, Print, "", "", "0")
	e.write(ctx, second, "file", "content")
	if err := second.Err(); err != nil {
		e.Errorf("a sandbox ended with its neighbour: %v", err)
	}
}
