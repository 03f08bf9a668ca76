package docker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// finding is what Collect says of one sandbox.
func finding(t *testing.T, findings []Collected, id string) Collected {
	t.Helper()
	i := slices.IndexFunc(findings, func(f Collected) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("nothing is said of %s: %+v", id, findings)
	}
	return findings[i]
}

// What is collected is decided by what the engine tells, and by asking the
// guest. Ages are given here, since nothing that is two minutes old is at hand.
func TestWhatIsCollected(t *testing.T) {
	c, other := newBackend(t), newBackend(t)
	own := spawn(t, c, execution.Spec{Image: world.shell})
	foreign := spawn(t, other, execution.Spec{Image: world.shell})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	look := func(h execution.Handle) containerSummary {
		f, err := c.find(ctx, h.ID())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	living := look(foreign)
	exited, kept, created, abandoned, paused, old := look(foreign), look(foreign), look(foreign), look(foreign), look(foreign), look(foreign)
	exited.State, kept.State, created.State, abandoned.State, paused.State = "exited", "exited", "created", "created", "paused"
	label := func(f *containerSummary, name, value string) {
		labels := maps.Clone(f.Labels)
		labels[name] = value
		f.Labels = labels
	}
	label(&kept, labelKeep, "true")
	label(&abandoned, labelProcess, hostID()+":1:1")
	label(&old, labelLife, "10m")
	for name, row := range map[string]struct {
		f     containerSummary
		age   time.Duration
		waste bool
		why   string
	}{
		"our own":              {look(own), time.Hour, false, "in use"},
		"another's that lives": {living, time.Hour, false, "lives"},
		"made just now":        {exited, time.Minute, false, "just now"},
		"ended":                {exited, time.Hour, true, "exited"},
		"ended, to be kept":    {kept, time.Hour, false, "kept"},
		"being made":           {created, time.Hour, false, "maker"},
		"made and abandoned":   {abandoned, time.Hour, true, "created"},
		"paused":               {paused, time.Hour, false, "paused"},
		// Its clock stood still while the sandbox was paused or the machine suspended.
		"beyond its lifetime": {old, time.Hour, false, "lives"},
	} {
		if waste, why := c.isWaste(ctx, row.f, row.age, CollectOptions{}); waste != row.waste || !strings.Contains(why, row.why) {
			t.Errorf("%s: %v, %q", name, waste, why)
		}
	}
	// One whose guest is stopped hangs, also by another's account.
	if err := world.plain.ContainerKill(ctx, foreign.ID(), "STOP"); err != nil {
		t.Fatal(err)
	}
	if waste, why := c.hangsWithin(ctx, living, time.Second); !waste || !strings.Contains(why, "answer") {
		t.Errorf("a guest that was stopped: %v, %q", waste, why)
	}
}

// A guest hangs when it was reached, and only then.
func TestWhoHangs(t *testing.T) {
	late := fmt.Errorf("knock: %w", execution.ErrTimeout)
	for _, row := range []struct {
		err  error
		said string
		want bool
	}{
		{late, guest.Connected, true},
		{context.DeadlineExceeded, guest.Connected, true},
		{io.EOF, "pinfold-guest: dial: " + guest.NobodyListens, true},
		{nil, guest.Connected, false},
		{late, "", false}, // the engine has not started the program
		{context.Canceled, guest.Connected, false},
		{io.EOF, guest.Connected, false},
		{io.EOF, "OCI runtime exec failed", false},
	} {
		if got := isHang(row.err, row.said); got != row.want {
			t.Errorf("%v, %q: %v", row.err, row.said, got)
		}
	}
}

// A slow engine is one whose clock is behind ours.
type slowEngine struct{ engine }

func (e slowEngine) info(ctx context.Context) (engineInfo, error) {
	info, err := e.engine.info(ctx)
	info.Ahead -= time.Hour
	return info, err
}

func (e slowEngine) list(ctx context.Context, labels ...string) ([]containerSummary, error) {
	found, err := e.engine.list(ctx, labels...)
	for i := range found {
		found[i].Created = found[i].Created.Add(-time.Hour)
	}
	return found, err
}

// Ages go by the engine's clock, which may differ from ours.
func TestCollectGoesByTheEnginesClock(t *testing.T) {
	plain := newBackend(t)
	if ahead := plain.info.Ahead; ahead.Abs() > patience {
		t.Errorf("an engine on this machine is %v ahead", ahead)
	}
	h := spawn(t, plain, execution.Spec{Image: world.shell})
	c := newBackendOn(t, func(e engine) engine { return slowEngine{e} })
	findings, err := c.Collect(t.Context(), CollectOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, findings, h.ID()); f.Reason != "made just now" {
		t.Errorf("%+v", f)
	}
}

// A sandbox that is busy to its limits lives: that nothing can be run in it to
// ask its guest says nothing of the guest.
func TestBusySandboxIsNotCollected(t *testing.T) {
	c, other := newBackend(t), newBackend(t)
	h := spawn(t, other, execution.Spec{Image: world.shell, Limits: execution.Limits{PIDs: 64}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := h.StartTask(ctx, execution.Command{Shell: "while :; do sleep 1000 & done"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The shell gives up when it can make no other process.
	if info, err := task.Wait(ctx); err != nil || len(info.Status.Leftovers) == 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	f, err := c.find(ctx, h.ID())
	if err != nil {
		t.Fatal(err)
	}
	if waste, why := c.isWaste(ctx, f, time.Hour, CollectOptions{}); waste {
		t.Errorf("it is to be removed: %s", why)
	}
	if err := task.Kill(ctx); err != nil {
		t.Error(err)
	}
}

// A container that somebody has made of a sandbox's image carries its labels,
// and is no sandbox.
func TestCopyOfASandboxIsNotCollected(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, newBackend(t), execution.Spec{Image: world.shell})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	original, err := c.find(ctx, h.ID())
	if err != nil {
		t.Fatal(err)
	}
	made, err := world.plain.ContainerCreate(ctx, &container.Config{
		Image: world.shell, Entrypoint: []string{"sleep", "1000"}, Labels: original.Labels,
	}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = world.plain.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true})
	}()
	for _, state := range []string{"created", "running"} {
		if state == "running" {
			if err := world.plain.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		f, err := c.find(ctx, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		f.Labels = maps.Clone(f.Labels)
		f.Labels[labelProcess] = hostID() + ":1:1"
		if waste, why := c.isWaste(ctx, f, time.Hour, CollectOptions{}); waste {
			t.Errorf("%s: it is to be removed: %s", state, why)
		}
	}
}

// Collect touches nothing that is not ours, and nothing in a dry run.
func TestCollectLeavesOthersAlone(t *testing.T) {
	c := newBackend(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	foreign, err := world.plain.ContainerCreate(ctx, &container.Config{Image: world.shell, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = world.plain.ContainerRemove(context.WithoutCancel(ctx), foreign.ID, container.RemoveOptions{Force: true})
	}()
	h := spawn(t, newBackend(t), execution.Spec{Image: world.shell})
	for _, opts := range []CollectOptions{{DryRun: true}, {}} {
		findings, err := c.Collect(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(findings, func(f Collected) bool { return strings.HasPrefix(foreign.ID, f.ID) }) {
			t.Error("a container without our labels was looked at")
		}
		if f := finding(t, findings, h.ID()); f.Removed || f.Reason == "" {
			t.Errorf("%+v", f)
		}
	}
	if _, err := world.plain.ContainerInspect(ctx, foreign.ID); err != nil {
		t.Errorf("a container that is not ours: %v", err)
	}
	if _, err := h.Stat(ctx, "/"); err != nil {
		t.Errorf("another's sandbox: %v", err)
	}
}
