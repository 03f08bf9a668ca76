package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// A Collected is what [Context.Collect] found out about one container.
type Collected struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Owner   string `json:"owner"`
	Removed bool   `json:"removed"` // or is to be, in a dry run
	Reason  string `json:"reason"`  // why, or why not
	Err     string `json:"error,omitempty"`
}

// CollectOptions says how to collect.
type CollectOptions struct {
	// DryRun finds out what is to be removed, and removes nothing.
	DryRun bool

	// Quick asks only the guests of sandboxes whose maker is known to be dead.
	Quick bool
}

// What is left alone: containers so young that somebody may still be making
// them; and guests that do not answer at once.
const (
	settled     = 2 * time.Minute
	foreign     = 10 * time.Minute // for makers on other hosts
	probeTime   = 20 * time.Second
	probeTries  = 3
	probePause  = 2 * time.Second
	collectMany = 8 // guests that are asked at once
)

// Collect removes what sandboxes have left behind on the engine: those whose
// maker died before they ran, that have ended and are still there, and that run
// but whose guest does not answer. A guest that does answer keeps its own lease
// and lifetime, and is never disturbed; one that could not even be asked, because
// the engine or the sandbox is too busy, is left alone. So is what is to be kept,
// is paused, or was made in the last two minutes by the engine's clock; and every
// container that does not carry Pinfold's labels, or carries them and does not
// run its guest, since somebody has made it of a sandbox's image.
//
// The list tells of each sandbox that was looked at. The error is for what could
// not be found out at all; what could not be removed is in the list.
func (c *Context) Collect(ctx context.Context, opts CollectOptions) ([]Collected, error) {
	ahead := c.info.Ahead
	if !opts.Quick { // then it was asked long ago
		info, err := c.engine.info(ctx)
		if err != nil {
			return nil, &execution.Error{Op: "collect", Backend: Type, Err: err}
		}
		ahead = info.Ahead
	}
	found, err := c.engine.list(ctx, labelProcess, labelSandbox, labelVersion+"="+labelsVersion)
	if err != nil {
		return nil, &execution.Error{Op: "collect", Backend: Type, Err: err}
	}
	findings := make([]Collected, len(found))
	var group errgroup.Group
	group.SetLimit(collectMany)
	for i, f := range found {
		group.Go(func() error {
			findings[i] = c.collect(ctx, f, age(f, ahead), opts)
			return nil
		})
	}
	return findings, group.Wait()
}

// age is how long ago a container was made, by an engine whose clock is ahead of
// ours.
func age(f containerSummary, ahead time.Duration) time.Duration { return time.Since(f.Created) + ahead }

// collect looks at one container.
func (c *Context) collect(ctx context.Context, f containerSummary, age time.Duration, opts CollectOptions) Collected {
	finding := Collected{ID: shortID(f.ID), Owner: f.Labels[labelOwner]}
	if len(f.Names) > 0 {
		finding.Name = f.Names[0]
	}
	finding.Removed, finding.Reason = c.isWaste(ctx, f, age, opts)
	if finding.Removed && !opts.DryRun {
		if err := c.removeContainer(ctx, f.ID); err != nil {
			finding.Removed, finding.Err = false, err.Error()
		}
	}
	return finding
}

// isWaste reports whether a container is to be removed, and why or why not.
func (c *Context) isWaste(ctx context.Context, f containerSummary, age time.Duration, opts CollectOptions) (bool, string) {
	switch {
	case c.handleOf(f.ID) != nil:
		return false, "in use by this process"
	case f.Labels[labelKeep] == "true" && f.State != "running":
		return false, "to be kept"
	case age < settled:
		return false, "made just now"
	case !c.runsGuest(f):
		return false, "no sandbox, but made of the image of one"
	case f.State == "paused":
		return false, "paused: its time stands still"
	case f.State != "running":
		maker := f.Labels[labelProcess]
		if f.State == "created" && (processLives(maker) || !processDied(maker) && age < foreign) {
			return false, "its maker may be about to start it"
		}
		return true, "left behind: it is " + f.State
	}
	if opts.Quick && (f.Labels[labelDetach] == "true" || !processDied(f.Labels[labelProcess])) {
		return false, "not asked"
	}
	return c.hangsWithin(ctx, f, probeTime)
}

// runsGuest reports whether the guest is what a container runs, as far as its
// engine tells: Podman leaves out the entry point.
func (c *Context) runsGuest(f containerSummary) bool {
	return c.info.Podman || strings.HasPrefix(f.Command, guestPath)
}

// hangsWithin asks a guest whether it lives, and gives it that long to answer.
func (c *Context) hangsWithin(ctx context.Context, f containerSummary, limit time.Duration) (bool, string) {
	d, err := newDoor(f.Labels)
	if err != nil {
		return false, err.Error()
	}
	for try := 1; ; try++ {
		hangs, err := c.probe(ctx, f.ID, d, limit)
		switch {
		case err == nil:
			return false, "its guest lives"
		case ctx.Err() != nil:
			return false, "not asked: " + context.Cause(ctx).Error()
		case errors.Is(err, execution.ErrNotFound), errors.Is(err, execution.ErrConflict):
			return false, "ended meanwhile"
		case !hangs && try == probeTries:
			return false, "its guest could not be asked: " + err.Error()
		case try == probeTries:
			return true, "its guest does not answer: " + err.Error()
		}
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
		}
	}
}

// probe asks a guest once. hangs reports whether it is the guest's own fault that
// there was no answer.
func (c *Context) probe(ctx context.Context, id string, d door, limit time.Duration) (hangs bool, err error) {
	raw, err := c.knock(ctx, id, d)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = guest.Probe(ctx, raw, d.key)
	return isHang(err, raw.stderr.text()), err
}

// isHang reports whether a probe failed because of the guest. said is what came
// from the program that was to ask it, in the sandbox: it got to the guest's door,
// and either there was none or nobody came.
func isHang(err error, said string) bool {
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, execution.ErrTimeout)
	return err != nil && strings.Contains(said, guest.NobodyListens) || late && strings.Contains(said, guest.Connected)
}

// collectAtStart removes, beside what this Context is for, what others have
// left behind.
func (c *Context) collectAtStart(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopCollecting = cancel
	c.removing.Go(func() {
		_, _ = c.Collect(ctx, CollectOptions{Quick: true}) // the next one tries again
	})
}
