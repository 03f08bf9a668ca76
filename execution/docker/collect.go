package docker

import (
	"context"
	"errors"
	"fmt"
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
	probeTries  = 2
	probePause  = 2 * time.Second
	lifeSlack   = time.Minute // between the end of a lifetime and the removal from outside
	collectMany = 8           // guests that are asked at once
)

// Collect removes what sandboxes have left behind on the engine: those whose
// maker died before they ran, that have ended and are still there, that have
// outlived their lifetime, and that run but whose guest does not answer. A guest
// that does answer keeps its own lease, and is never disturbed. What is to be
// kept, is paused, or was made in the last two minutes is left alone, and so is
// every container that does not carry Pinfold's labels.
//
// The list tells of each sandbox that was looked at. The error is for what could
// not be found out at all; what could not be removed is in the list.
func (c *Context) Collect(ctx context.Context, opts CollectOptions) ([]Collected, error) {
	found, err := c.engine.list(ctx, labelProcess, labelSandbox, labelVersion+"="+labelsVersion)
	if err != nil {
		return nil, &execution.Error{Op: "collect", Backend: Type, Err: err}
	}
	findings := make([]Collected, len(found))
	var group errgroup.Group
	group.SetLimit(collectMany)
	for i, f := range found {
		group.Go(func() error {
			findings[i] = c.collect(ctx, f, opts)
			return nil
		})
	}
	return findings, group.Wait()
}

// collect looks at one container.
func (c *Context) collect(ctx context.Context, f containerSummary, opts CollectOptions) Collected {
	finding := Collected{ID: shortID(f.ID), Owner: f.Labels[labelOwner]}
	if len(f.Names) > 0 {
		finding.Name = f.Names[0]
	}
	finding.Removed, finding.Reason = c.isWaste(ctx, f, opts)
	if finding.Removed && !opts.DryRun {
		if err := c.removeContainer(ctx, f.ID); err != nil {
			finding.Removed, finding.Err = false, err.Error()
		}
	}
	return finding
}

// isWaste reports whether a container is to be removed, and why or why not.
func (c *Context) isWaste(ctx context.Context, f containerSummary, opts CollectOptions) (bool, string) {
	age := time.Since(f.Created)
	switch {
	case c.handleOf(f.ID) != nil:
		return false, "in use by this process"
	case f.Labels[labelKeep] == "true" && f.State != "running":
		return false, "to be kept"
	case age < settled:
		return false, "made just now"
	case f.State == "paused":
		return false, "paused: its time stands still"
	case f.State != "running":
		maker := f.Labels[labelProcess]
		if f.State == "created" && (processLives(maker) || !processDied(maker) && age < foreign) {
			return false, "its maker may be about to start it"
		}
		return true, "left behind: it is " + f.State
	}
	if life := parseDuration(f.Labels[labelLife]); life > 0 && age > life+lifeSlack {
		return true, fmt.Sprintf("its lifetime of %v is over", life)
	}
	if opts.Quick && (f.Labels[labelDetach] == "true" || !processDied(f.Labels[labelProcess])) {
		return false, "not asked"
	}
	return c.hangsWithin(ctx, f, probeTime)
}

// hangsWithin asks a guest whether it lives, and gives it that long to answer.
func (c *Context) hangsWithin(ctx context.Context, f containerSummary, limit time.Duration) (bool, string) {
	d, err := newDoor(f.Labels)
	if err != nil {
		return false, err.Error()
	}
	for try := 1; ; try++ {
		err = c.probe(ctx, f.ID, d, limit)
		switch {
		case err == nil:
			return false, "its guest lives"
		case ctx.Err() != nil:
			return false, "not asked: " + context.Cause(ctx).Error()
		case errors.Is(err, execution.ErrNotFound), errors.Is(err, execution.ErrConflict):
			return false, "ended meanwhile"
		case errors.Is(err, execution.ErrUnavailable), errors.Is(err, execution.ErrUnsupported):
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

func (c *Context) probe(ctx context.Context, id string, d door, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.knock(ctx, id, d)
	if err != nil {
		return err
	}
	return guest.Probe(ctx, conn, d.key)
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
