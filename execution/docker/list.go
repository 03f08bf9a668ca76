package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Sandbox is a container of Pinfold's on the engine, whoever made it.
type Sandbox = execution.SandboxInfo

// Sandboxes is List, as [execution.Attacher] has it.
func (c *Context) Sandboxes(ctx context.Context) ([]execution.SandboxInfo, error) { return c.List(ctx) }

// List returns the sandboxes on the engine, those of other processes too, the
// oldest first.
func (c *Context) List(ctx context.Context) ([]Sandbox, error) {
	found, err := c.sandboxes(ctx)
	if err != nil {
		return nil, &execution.Error{Op: "list", Backend: Type, Err: err}
	}
	list := make([]Sandbox, 0, len(found))
	for _, f := range found {
		list = append(list, c.newSandbox(f))
	}
	slices.SortFunc(list, func(a, b Sandbox) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return list, nil
}

// sandboxes are the containers that carry our labels.
func (c *Context) sandboxes(ctx context.Context) ([]containerSummary, error) {
	return c.engine.list(ctx, labelContext, labelProcess, labelVersion+"="+labelsVersion)
}

func (c *Context) newSandbox(f containerSummary) Sandbox {
	s := Sandbox{
		ID: shortID(f.ID), Image: f.Labels[labelImage], State: f.State, Status: f.Status, Created: f.Created,
		Owner: f.Labels[labelOwner], Process: f.Labels[labelProcess], Mine: f.Labels[labelContext] == c.id,
		Detach: f.Labels[labelDetach] == "true", Labels: userLabels(f.Labels),
	}
	if life := parseDuration(f.Labels[labelLife]); life > 0 {
		s.Expires = f.Created.Add(life)
	}
	if len(f.Names) > 0 {
		s.Name = f.Names[0]
	}
	return s
}

// parseDuration reads a label; 0 is none that makes sense.
func parseDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// minPrefix is how much of an ID stands for it, at least.
const minPrefix = 4

// Remove removes a sandbox that List shows, by its name, its ID, or the start
// of it. It never touches a container that Pinfold did not make. The error
// matches ErrNotFound when there is none, and then says which are near;
// ErrConflict when more than one is meant.
func (c *Context) Remove(ctx context.Context, name string) error {
	err := c.removeNamed(ctx, name)
	if err != nil {
		return &execution.Error{Op: "remove", Backend: Type, Handle: name, Err: err}
	}
	return nil
}

func (c *Context) removeNamed(ctx context.Context, name string) error {
	meant, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	if h := c.handleOf(meant.ID); h != nil {
		return h.destroy(ctx, h.undo)
	}
	return c.removeContainer(ctx, meant.ID)
}

// find finds a sandbox by its name, its ID, or the start of it.
func (c *Context) find(ctx context.Context, name string) (containerSummary, error) {
	found, err := c.sandboxes(ctx)
	if err != nil {
		return containerSummary{}, err
	}
	var meant []containerSummary
	for _, f := range found {
		if slices.Contains(f.Names, name) || f.ID == name {
			return f, nil
		}
		if len(name) >= minPrefix && strings.HasPrefix(f.ID, name) {
			meant = append(meant, f)
		}
	}
	switch len(meant) {
	case 0:
		return containerSummary{}, noSandbox(name, found)
	case 1:
		return meant[0], nil
	}
	return containerSummary{}, fmt.Errorf("%w: %d sandboxes have an ID that starts so", execution.ErrConflict, len(meant))
}

func (c *Context) handleOf(id string) *handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.handles {
		if h.id == id {
			return h
		}
	}
	return nil
}

// noSandbox names those that the caller may have meant.
func noSandbox(name string, found []containerSummary) error {
	var near []string
	for _, f := range found {
		for _, other := range append([]string{shortID(f.ID)}, f.Names...) {
			if distance(name, other) <= max(2, len(name)/3) || (name != "" && strings.Contains(other, name)) {
				near = append(near, other)
			}
		}
	}
	const most = 5
	slices.Sort(near)
	if len(near) > most {
		near = near[:most]
	}
	if len(near) > 0 {
		return fmt.Errorf("%w: did you mean %s?", execution.ErrNotFound, strings.Join(near, " or "))
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: there are no sandboxes", execution.ErrNotFound)
	}
	return fmt.Errorf("%w among %d sandboxes", execution.ErrNotFound, len(found))
}

// distance is how many bytes are to be changed, added or left out to make b
// of a. Both are names, and so short.
func distance(a, b string) int {
	const longest = 256
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
