package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// runDetached makes a sandbox that stays, starts the command as its first
// task, and prints the sandbox's ID. When anything fails, nothing is left.
func (a *app) runDetached(ctx context.Context, p *plan, lifetimeGiven bool) error {
	var made followUp
	err := a.interruptible(ctx, func(ctx context.Context) error {
		a.announce(p)
		backend, err := a.backends.open(ctx, p.backend, openOptions{progress: newProgress(a.stderr).event})
		if err != nil {
			return err
		}
		made, err = spawnDetached(ctx, backend, p)
		return errors.Join(err, backend.Close())
	})
	if err != nil {
		return a.failRun(p.json, &codeError{exitCode(err), errors.New(explain(err, p))})
	}
	if p.json {
		return writeJSON(a.stdout, made)
	}
	if !lifetimeGiven {
		a.stderr.note("it lives for %v; --lifetime says otherwise", p.spec.Lifetime)
	}
	_, err = fmt.Fprintln(a.stdout, printable(made.ID))
	return err
}

func spawnDetached(ctx context.Context, backend execution.Context, p *plan) (made followUp, err error) {
	h, err := backend.Spawn(ctx, p.spec)
	if err != nil {
		return made, err
	}
	made.ID, made.Name = h.ID(), h.Spec().Name
	if life := h.Spec().Lifetime; life > 0 {
		expires := time.Now().Add(life).Round(time.Second)
		made.Expires = &expires
	}
	if !p.noCommand {
		made.Task, err = startTask(ctx, h, p.command)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupDeadline)
	defer cancel()
	if err == nil {
		err = execution.Detach(bounded, h)
	}
	if err != nil {
		err = errors.Join(err, h.Destroy(bounded))
	}
	return made, err
}

func startTask(ctx context.Context, h execution.Handle, command execution.Command) (string, error) {
	task, err := h.StartTask(ctx, command, execution.TaskOptions{})
	if err != nil {
		return "", err
	}
	return task.ID(), nil
}
