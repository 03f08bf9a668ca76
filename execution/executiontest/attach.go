package executiontest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/pinfold-dev/pinfold/execution"
)

func attachCases() []check {
	return []check{
		{"declared_as_it_is", attachDeclared},
		{"sandboxes_are_listed", attachListed},
		{"unknown", attachUnknown},
		{"by_id_start_of_id_and_name", attachNames},
		{"destroyed", attachDestroyed},
		{"held_by_another_host", attachHeld},
		{"one_of_two_at_once", attachRace},
		{"take_over", attachTakeOver},
		{"shared", attachShared},
		{"detached_and_gone_on_with", attachGoesOn},
		{"events_once_over_an_attach", attachEvents},
	}
}

// attachDeclared checks that the capability says what the Context is.
func attachDeclared(_ context.Context, e *env) {
	if _, is := e.context().(execution.Attacher); is != e.can().Attach {
		e.Errorf("Capabilities().Attach is %v, and that the Context is an Attacher is %v", e.can().Attach, is)
	}
}

// attacher is the case's backend, or skips the case.
func (e *env) attacher() execution.Attacher {
	e.Helper()
	if !e.can().Attach {
		e.Skip("the backend does not declare Attach")
	}
	a, ok := e.context().(execution.Attacher)
	if !ok {
		e.Fatalf("the backend declares Attach, and its Context is no Attacher")
	}
	return a
}

// otherHost makes a second Context, as another process would.
func (e *env) otherHost() execution.Attacher {
	e.Helper()
	e.attacher()
	backend := e.harness.New(e.guard)
	a, ok := backend.(execution.Attacher)
	if !ok {
		e.Fatalf("Harness.New returned a %T, which is no Attacher", backend)
	}
	e.atEnd(func() {
		if err := backend.Close(); err != nil {
			e.Errorf("Close of the second Context: %v", err)
		}
	})
	return a
}

// attach attaches where it must be possible.
func (e *env) attach(ctx context.Context, a execution.Attacher, id string, mode execution.AttachMode) execution.Handle {
	e.Helper()
	h, err := a.Attach(ctx, id, execution.AttachOptions{Mode: mode})
	if err != nil || h == nil {
		e.Fatalf("Attach to %q, mode %q: %v, %v", id, mode, h, err)
	}
	e.atEnd(func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), tearDownTime)
		defer cancel()
		if err := execution.Detach(end, h); err != nil {
			e.Errorf("Detach at the end of the case: %v", err)
		}
	})
	return h
}

func (e *env) detach(ctx context.Context, h execution.Handle) {
	e.Helper()
	if err := execution.Detach(ctx, h); err != nil {
		e.Fatalf("Detach: %v", err)
	}
}

// destroyAtEnd has a sandbox that was let go of destroyed by way of another
// handle.
func (e *env) destroyAtEnd(ctx context.Context, id string) {
	e.atEnd(func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), tearDownTime)
		defer cancel()
		h, err := e.attacher().Attach(end, id, execution.AttachOptions{Mode: execution.AttachTakeOver})
		if err == nil {
			err = h.Destroy(end)
		}
		if err != nil {
			e.Errorf("destroying what was let go of: %v", err)
		}
	})
}

// info finds a sandbox in the list of a Context.
func (e *env) info(ctx context.Context, a execution.Attacher, id string) (found execution.SandboxInfo, ok bool) {
	e.Helper()
	all, err := a.Sandboxes(ctx)
	if err != nil {
		e.Fatalf("Sandboxes: %v", err)
	}
	for _, s := range all {
		if s.ID == id {
			return s, true
		}
	}
	return found, false
}

func attachListed(ctx context.Context, e *env) {
	own := e.attacher()
	spec := e.spec()
	if e.can().Labels {
		spec.Labels = map[string]string{"executiontest": "listed"}
	}
	h := e.spawn(ctx, spec)
	mine, there := e.info(ctx, own, h.ID())
	if !there || !mine.Mine || mine.State != "running" || mine.Created.IsZero() || mine.Name != h.Spec().Name || mine.Image != h.Spec().Image {
		e.Errorf("its own Context lists %+v (there: %v), want what its Spec tells: %+v", mine, there, h.Spec())
	}
	if e.can().Labels && (len(mine.Labels) != 1 || mine.Labels["executiontest"] != "listed") {
		e.Errorf("its labels are %q, want those of the Spec", mine.Labels)
	}
	if other, there := e.info(ctx, e.otherHost(), h.ID()); !there || other.Mine {
		e.Errorf("another Context lists %+v (there: %v), want it there and not its own", other, there)
	}
}

func attachUnknown(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	near := h.ID()[:len(h.ID())-1] + "~"
	_, err := a.Attach(ctx, near, execution.AttachOptions{})
	e.wantError(err, execution.ErrNotFound, "Attach to an unknown sandbox")
	if !strings.Contains(err.Error(), h.ID()) {
		e.Errorf("the error %q does not name %s, which is near", err, h.ID())
	}
	_, err = a.Attach(ctx, h.ID(), execution.AttachOptions{Mode: "nonsense"})
	e.wantError(err, execution.ErrInvalid, "Attach in a mode that there is not")
}

func attachNames(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	id, name := h.ID(), h.Spec().Name
	e.detach(ctx, h)
	e.destroyAtEnd(ctx, id)
	names := []string{id, id[:len(id)-1]}
	if name != "" {
		names = append(names, name)
	}
	for _, name := range names {
		attached := e.attach(ctx, a, name, execution.AttachExclusive)
		if attached.ID() != id {
			e.Errorf("Attach to %q gave %q, want %q", name, attached.ID(), id)
		}
		if attached.Dir() != h.Dir() {
			e.Errorf("its directory is %q, and was %q", attached.Dir(), h.Dir())
		}
		e.detach(ctx, attached)
	}
}

func attachDestroyed(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	_, err := a.Attach(ctx, h.ID(), execution.AttachOptions{})
	e.wantError(err, execution.ErrNotFound, "Attach to a sandbox that was destroyed")
	if _, there := e.info(ctx, a, h.ID()); there {
		e.Error("a sandbox that was destroyed is listed")
	}
}

func attachHeld(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Sleep))
	for _, mode := range []execution.AttachMode{execution.AttachExclusive, execution.AttachShared} {
		_, err := a.Attach(ctx, h.ID(), execution.AttachOptions{Mode: mode})
		e.wantError(err, execution.ErrConflict, "Attach to what another host holds")
	}
	if got := e.run(ctx, h, Print, "still here", "", "0"); got != "still here" {
		e.Errorf("afterwards its host got %q", got)
	}
	e.kill(ctx, proc)
}

func attachRace(ctx context.Context, e *env) {
	hosts := []execution.Attacher{e.otherHost(), e.otherHost()}
	h := e.sandbox(ctx)
	id := h.ID()
	e.detach(ctx, h)
	e.destroyAtEnd(ctx, id)
	var all sync.WaitGroup
	handles, errs := make([]execution.Handle, len(hosts)), make([]error, len(hosts))
	for i, a := range hosts {
		all.Go(func() { handles[i], errs[i] = a.Attach(ctx, id, execution.AttachOptions{}) })
	}
	all.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			e.detach(ctx, handles[i])
			continue
		}
		e.wantError(err, execution.ErrConflict, "the slower of two that attach at once")
	}
	if won != 1 {
		e.Errorf("%d of two hosts that attach at once got the sandbox, want 1", won)
	}
}

func attachTakeOver(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	proc := e.start(ctx, h, e.command(Sleep))
	task := e.task(ctx, h, Sleep)
	taken := e.attach(ctx, a, h.ID(), execution.AttachTakeOver)
	status, err := proc.Wait(ctx)
	if !errors.Is(err, execution.ErrLost) || status.Ending != execution.EndingLost {
		e.Errorf("the command of the first host ended with %v, %v, want it lost", status, err)
	}
	await(ctx, e, h.Done(), "Done is closed")
	e.wantError(h.Err(), execution.ErrLost, "Err of the first host's handle")
	_, err = h.Stat(ctx, ".")
	e.wantError(err, execution.ErrLost, "a call of the first host")
	if err := h.Destroy(ctx); err != nil {
		e.Errorf("Destroy by the first host: %v", err)
	}
	if got := e.run(ctx, taken, Print, "mine", "", "0"); got != "mine" {
		e.Errorf("the second host got %q after the first has destroyed its handle", got)
	}
	found, err := taken.Task(ctx, task.ID())
	if err != nil {
		e.Fatalf("the task of the first host: %v", err)
	}
	if info := e.taskInfo(ctx, found); !info.Running() {
		e.Errorf("the task of the first host has ended: %+v", info)
	}
	if err := taken.Destroy(ctx); err != nil {
		e.Errorf("Destroy by the second host: %v", err)
	}
}

func attachShared(ctx context.Context, e *env) {
	a, b := e.otherHost(), e.otherHost()
	h := e.sandbox(ctx)
	id := h.ID()
	e.detach(ctx, h)
	e.destroyAtEnd(ctx, id)
	one, two := e.attach(ctx, a, id, execution.AttachShared), e.attach(ctx, b, id, execution.AttachShared)
	proc := e.start(ctx, one, e.command(Sleep))
	task := e.task(ctx, one, Print, "said", "", "0")
	e.taskEnd(ctx, task)
	found, err := two.Task(ctx, task.ID())
	if err != nil {
		e.Fatalf("a task of the other host: %v", err)
	}
	if got := e.taskOutput(ctx, found, execution.Stdout, execution.OutputOptions{}); got != "said" {
		e.Errorf("the task of the other host wrote %q", got)
	}
	if err := one.WriteFile(ctx, "shared", strings.NewReader("text"), execution.WriteOptions{}); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	if got, err := execution.ReadFile(ctx, two, "shared", 0); err != nil || string(got) != "text" {
		e.Errorf("a file of the other host: %q, %v", got, err)
	}
	e.detach(ctx, two)
	if got := e.run(ctx, one, Print, "still here", "", "0"); got != "still here" {
		e.Errorf("after the other host has gone: %q", got)
	}
	e.kill(ctx, proc)
}

// attachGoesOn lets go of a sandbox in the middle of things and looks from
// another host whether all is there.
func attachGoesOn(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	id := h.ID()
	proc := e.start(ctx, h, e.command(Sleep))
	ended := e.task(ctx, h, Print, "out", "err", "3")
	e.taskEnd(ctx, ended)
	running := e.task(ctx, h, Trap)
	e.follow(ctx, running, "ready\n")
	if err := h.WriteFile(ctx, "kept", strings.NewReader("content"), execution.WriteOptions{}); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	e.detach(ctx, h)
	e.destroyAtEnd(ctx, id)
	if _, err := proc.Wait(ctx); err == nil {
		e.Error("a command in the foreground ended well although its host let go of it")
	}
	await(ctx, e, h.Done(), "Done is closed")
	_, err := h.Stat(ctx, ".")
	e.wantError(err, execution.ErrClosed, "a call after Detach")

	again := e.attach(ctx, a, id, execution.AttachExclusive)
	if got, err := execution.ReadFile(ctx, again, "kept", 0); err != nil || string(got) != "content" {
		e.Errorf("the file: %q, %v", got, err)
	}
	e.wantTasks(ctx, again, ended.ID(), running.ID())
	for _, name := range []string{ended.ID(), running.ID()} {
		t, err := again.Task(ctx, name)
		if err != nil {
			e.Fatalf("Task %s: %v", name, err)
		}
		if name == ended.ID() {
			info := e.taskEnd(ctx, t)
			if info.Status.Ending != execution.EndingExited || info.Status.Code != 3 {
				e.Errorf("the record of the ended task: %+v", info)
			}
			out := e.taskOutput(ctx, t, execution.Stdout, execution.OutputOptions{})
			if errOut := e.taskOutput(ctx, t, execution.Stderr, execution.OutputOptions{}); out != "out" || errOut != "err" {
				e.Errorf("the output of the ended task: %q, %q", out, errOut)
			}
			continue
		}
		r := e.openOutput(ctx, t, execution.Stdout, execution.OutputOptions{Follow: true})
		if err := t.Signal(ctx, execution.SIGTERM); err != nil {
			e.Errorf("Signal to the task that went on: %v", err)
		}
		if text, err := io.ReadAll(r); err != nil || string(text) != "ready\nterm\n" {
			e.Errorf("the output of the task that went on: %q, %v", text, err)
		}
		if info := e.taskEnd(ctx, t); info.Status.Code != 7 {
			e.Errorf("the task that went on ended with %+v", info.Status)
		}
	}
	if next := e.task(ctx, again, Print, "", "", "0"); next.ID() == ended.ID() || next.ID() == running.ID() {
		e.Errorf("a new task is %s, which there was", next.ID())
	}
}

func attachEvents(ctx context.Context, e *env) {
	a := e.otherHost()
	h := e.sandbox(ctx)
	id := h.ID()
	before := e.task(ctx, h, Print, "", "", "0")
	e.taskEnd(ctx, before)
	e.wantTold(e.told(ctx, h, 1), before.ID())
	untold := e.task(ctx, h, Print, "", "", "1")
	e.taskEnd(ctx, untold)
	e.detach(ctx, h)
	e.destroyAtEnd(ctx, id)
	again := e.attach(ctx, a, id, execution.AttachExclusive)
	after := e.task(ctx, again, Print, "", "", "2")
	e.taskEnd(ctx, after)
	e.wantTold(e.told(ctx, again, 2), untold.ID(), after.ID())
	e.wantNothingToTell(ctx, again)
}
