package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// Start starts a command.
func (h *Handle) Start(ctx context.Context, cmd execution.Command) (execution.Process, error) {
	ctx, leave, err := h.enter(ctx, Op{Name: "start", Command: &cmd})
	if err != nil {
		return nil, h.fail("start", "", err)
	}
	defer leave()
	j, err := h.start(ctx, cmd)
	if err != nil {
		return nil, h.fail("start", "", err)
	}
	return j, nil
}

func (h *Handle) start(ctx context.Context, cmd execution.Command) (*job, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if cmd.TTY != nil && !h.backend.Capabilities().TTY {
		return nil, fmt.Errorf("terminal: %w by this backend", execution.ErrUnsupported)
	}
	dir, err := h.workingDir(cmd.Dir)
	if err != nil {
		return nil, err
	}
	leader := &Proc{Args: cmd.Args, Env: h.environment(cmd.Env), Dir: dir, ignored: map[execution.Signal]bool{}}
	program, err := h.lookUp(cmd, leader)
	if err != nil {
		return nil, err
	}
	j := newJob(h, cmd)
	j.leader = leader
	for _, s := range j.streams() {
		leader.outputs = append(leader.outputs, s.pipe)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := j.begin(ctx, leader, program, false); err != nil {
		return nil, err
	}
	go j.run()
	return j, nil
}

// workingDir finds a command's directory and says where it really is.
func (h *Handle) workingDir(dir string) (string, error) {
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	at, err := h.tree.find(dir, true)
	switch {
	case errors.Is(err, execution.ErrNotFound), err == nil && !at.node.mode.IsDir():
		return "", fmt.Errorf("%w: %q", execution.ErrDirNotFound, dir)
	case err != nil:
		return "", err
	}
	return at.path(), nil
}

// environment is the one of a command, sorted by name.
func (h *Handle) environment(own []string) []string {
	byName := map[string]string{"PATH": "PATH=" + defaultPath}
	for _, entry := range slices.Concat(h.env, own) {
		name, _, _ := strings.Cut(entry, "=")
		byName[name] = entry
	}
	return slices.Sorted(maps.Values(byName))
}

// lookUp finds the program of a command.
func (h *Handle) lookUp(cmd execution.Command, p *Proc) (Program, error) {
	if cmd.Shell != "" {
		if h.backend.opts.Shell == nil || h.spec.Image == NoShellImage {
			return nil, execution.ErrNoShell
		}
		p.Args = []string{cmd.Shell}
		return h.backend.opts.Shell, nil
	}
	name := cmd.Args[0]
	candidates := []string{p.Path(name)}
	if !strings.Contains(name, "/") {
		candidates = nil
		dirs, _ := p.Getenv("PATH")
		for dir := range strings.SplitSeq(dirs, ":") {
			candidates = append(candidates, p.Path(path.Join(dir, name)))
		}
	}
	h.backend.files.Lock()
	defer h.backend.files.Unlock()
	for _, file := range candidates {
		at, err := h.tree.find(file, true)
		if err != nil {
			continue
		}
		if at.node.program == nil {
			return nil, fmt.Errorf("%w: %q", execution.ErrCannotRun, name)
		}
		return at.node.program, nil
	}
	return nil, fmt.Errorf("%w: %q", execution.ErrCommandNotFound, name)
}
