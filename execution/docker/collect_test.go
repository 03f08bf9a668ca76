package docker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
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
		f.Created = f.Created.Add(-time.Hour)
		return f
	}
	living, young := look(foreign), look(foreign)
	young.Created = time.Now()
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
		waste bool
		why   string
	}{
		"our own":              {look(own), false, "in use"},
		"another's that lives": {living, false, "lives"},
		"made just now":        {young, false, "just now"},
		"ended":                {exited, true, "exited"},
		"ended, to be kept":    {kept, false, "kept"},
		"being made":           {created, false, "maker"},
		"made and abandoned":   {abandoned, true, "created"},
		"paused":               {paused, false, "paused"},
		"beyond its lifetime":  {old, true, "lifetime"},
	} {
		if waste, why := c.isWaste(ctx, row.f, CollectOptions{}); waste != row.waste || !strings.Contains(why, row.why) {
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
