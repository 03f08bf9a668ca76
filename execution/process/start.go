//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// Start starts a command; see [execution.Handle].
func (h *handle) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	const op = "start"
	if err := h.checkCommand(ctx, cmd); err != nil {
		return nil, h.failure(op, "", err)
	}
	p := newProc(h, cmd)
	if err := h.enter(p); err != nil {
		return nil, h.failure(op, "", err)
	}
	if path, err := p.start(ctx); err != nil {
		h.leave(p)
		close(p.gone)
		return nil, h.failure(op, path, err)
	}
	if cmd.TTY != nil {
		return terminalProc{p}, nil
	}
	return p, nil
}

func (h *handle) checkCommand(ctx context.Context, cmd execution.Command) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	if err := cmd.Validate(); err != nil {
		return err
	}
	if cmd.TTY != nil && !canTTY {
		return fmt.Errorf("terminal: %w on this system", execution.ErrUnsupported)
	}
	return nil
}

// start looks up everything, connects the streams and starts the leader. path
// is what an error is about.
func (p *proc) start(ctx context.Context) (path string, err error) {
	h := p.h
	dir := resolve(h.spec.Dir, p.cmd.Dir)
	if err := checkDir(dir); err != nil {
		return dir, err
	}
	env := mergeEnv(h.env, p.cmd.Env)
	program, args, err := h.program(p.cmd, dir, env)
	if err != nil {
		if len(p.cmd.Args) > 0 {
			path = p.cmd.Args[0]
		}
		return path, err
	}
	p.plumb, err = newPlumbing(h.context, p.cmd)
	if err != nil {
		return "", fmt.Errorf("connect streams: %w", mapError(err))
	}
	l := &launch{path: program, args: args, env: env, dir: dir, files: p.plumb.theirs, tty: p.cmd.TTY != nil}
	p.oomMark, _ = h.context.launcher.oomKills()
	p.began = time.Now()
	t, err := h.context.launcher.launch(ctx, l)
	p.plumb.closeTheirs()
	if err != nil {
		p.plumb.close()
		return startError(err, l)
	}
	p.begin(t)
	return "", nil
}

// startError says what a launch that failed means, and which path it is about.
// Most of it was checked before; what is left are races, limits of the kernel,
// and what only execve can tell.
func startError(err error, l *launch) (path string, _ error) {
	var failed *launchError
	if !errors.As(err, &failed) {
		return "", err
	}
	mapped := mapError(failed.err)
	switch failed.stage {
	case launchDir:
		return l.dir, dirError(failed.err)
	case launchFork, launchSetup:
		if errors.Is(failed.err, unix.EAGAIN) || errors.Is(failed.err, unix.ENOMEM) {
			return "", fmt.Errorf("%w: no further process can be made, a limit is reached: %w", execution.ErrCannotRun, mapped)
		}
		return "", because(execution.ErrCannotRun, mapped)
	case launchExec:
	}
	switch {
	case errors.Is(failed.err, unix.E2BIG):
		return "", fmt.Errorf("%w: arguments and environment are too long: %w", execution.ErrInvalid, failed.err)
	case errors.Is(failed.err, unix.ENOENT):
		// The file was there. Either it has gone, or what it names in its first
		// line, or its dynamic loader, is missing.
		if checkProgram(resolve(l.dir, l.path)) == nil {
			return l.path, fmt.Errorf("%w: its interpreter is missing", execution.ErrCannotRun)
		}
	case errors.Is(failed.err, unix.ENOEXEC):
		return l.path, fmt.Errorf("%w: not a program for this machine, and no script that says what runs it", execution.ErrCannotRun)
	}
	return l.path, programError(failed.err)
}

// mergeEnv joins environments. Of entries with the same name only the last one
// stays, at its place: what a program does with two is its own affair, and no
// two programs do the same.
func mergeEnv(envs ...[]string) []string {
	total := 0
	for _, env := range envs {
		total += len(env)
	}
	merged := make([]string, 0, total)
	index := make(map[string]int, total)
	for _, env := range envs {
		for _, entry := range env {
			name, _, _ := strings.Cut(entry, "=")
			if i, ok := index[name]; ok {
				merged[i] = entry
				continue
			}
			index[name] = len(merged)
			merged = append(merged, entry)
		}
	}
	return merged
}
