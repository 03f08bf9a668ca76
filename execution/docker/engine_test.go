package docker

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestWhatIsInForceIsTold(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{Env: []string{"TOKEN=secret"}})
	got := h.Spec()
	if got.User != DefaultUser || got.Dir != DefaultDir || got.Network != execution.NetworkNone || got.Image != world.shell ||
		got.Profile != execution.ProfileDefault || got.Limits.Memory != DefaultMemory || got.Limits.PIDs != DefaultPIDs ||
		got.Limits.CPUs <= 0 || got.Runtime == "" || got.Name == "" || got.Env != nil {
		t.Errorf("got %+v", got)
	}
}

// Users by name are the image's, and each user has a home that it can write to.
func TestUsersAndTheirHomes(t *testing.T) {
	c := newBackend(t)
	for user, want := range map[string]string{
		"":             "1000 1000 /home/pinfold",
		"worker":       "1001 1002 /home/worker",
		"1001":         "1001 1002 /home/worker",
		"worker:staff": "1001 50 /home/worker",
		"4242:17":      "4242 17 /home/pinfold",
	} {
		h := spawn(t, c, execution.Spec{User: user})
		got := shell(t, h, `touch ~/file /workspace/file && echo $(id -u) $(id -g) $HOME`)
		if strings.TrimSpace(got) != want {
			t.Errorf("user %q: got %q, want %q", user, got, want)
		}
	}
	if _, err := c.Spawn(t.Context(), execution.Spec{User: "nobody"}); !errors.Is(err, execution.ErrUserNotFound) {
		t.Errorf("got %v, want ErrUserNotFound", err)
	}
	h := spawn(t, c, execution.Spec{Env: []string{"HOME=/elsewhere"}})
	if got := shell(t, h, "echo $HOME"); got != "/elsewhere\n" {
		t.Errorf("a HOME that is given: got %q", got)
	}
}

// What a command leaves in a writable bind mount belongs to whom the folder
// belongs to (docker/cli 4382).
func TestBindMountsBelongToTheirOwner(t *testing.T) {
	c := newBackend(t)
	if os.Getuid() != 0 {
		t.Skip("giving a folder away takes root")
	}
	dir := t.TempDir()
	spec := execution.Spec{Mounts: []execution.Mount{{Type: execution.MountBind, Source: dir, Target: "/workspace"}}}
	if _, err := c.Spawn(t.Context(), spec); !errors.Is(err, execution.ErrInvalid) || !strings.Contains(err.Error(), "chown") {
		t.Errorf("root's own folder: got %v, want ErrInvalid that says what to do", err)
	}
	if err := os.Chown(dir, 4321, 8765); err != nil {
		t.Fatal(err)
	}
	h := spawn(t, c, spec)
	if got := shell(t, h, "mkdir -p a/b && echo x >a/b/c && stat -c %u:%g a/b/c"); got != "4321:8765\n" {
		t.Errorf("got %q", got)
	}
}

func TestListAndRemove(t *testing.T) {
	c, other := newBackend(t), newBackend(t)
	h := spawn(t, c, execution.Spec{Name: "pinfold-test-" + newID(), Labels: map[string]string{"ticket": "7"}})
	find := func(c *Context) *Sandbox {
		list, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.ID == h.ID() {
				return &s
			}
		}
		return nil
	}
	s := find(c)
	if s == nil || s.Name != h.Spec().Name || s.State != "running" || s.Image != world.shell || !s.Mine ||
		s.Labels["ticket"] != "7" || len(s.Labels) != 1 || s.Owner == "" || s.Process != processID() {
		t.Fatalf("got %+v", s)
	}
	if s := find(other); s == nil || s.Mine {
		t.Errorf("seen by another: %+v", s)
	}
	wrong := strings.TrimSuffix(h.Spec().Name, h.Spec().Name[len(h.Spec().Name)-1:])
	if err := other.Remove(t.Context(), wrong); !errors.Is(err, execution.ErrNotFound) || !strings.Contains(err.Error(), h.Spec().Name) {
		t.Errorf("got %v, want ErrNotFound that names %s", err, h.Spec().Name)
	}
	// A container of somebody else's is never touched.
	foreign, err := world.plain.ContainerCreate(t.Context(), &container.Config{Image: world.shell, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := world.plain.ContainerRemove(context.Background(), foreign.ID, container.RemoveOptions{}); err != nil {
			t.Errorf("the foreign container: %v", err)
		}
	}()
	if err := other.Remove(t.Context(), foreign.ID); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("a foreign container: got %v, want ErrNotFound", err)
	}
	if err := other.Remove(t.Context(), h.ID()); err != nil {
		t.Error(err)
	}
	<-h.Done()
	if err := h.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("removed by another: %v", err)
	}
}

// What doctor finds comes from a sandbox that it has made.
func TestExamine(t *testing.T) {
	needEngine(t)
	r := Examine(t.Context(), testOptions())
	names := []string{}
	for _, f := range r.Findings {
		names = append(names, f.Name)
		if f.Detail == "" || (f.State != FindingOK && f.Fix == "") {
			t.Errorf("finding without detail or fix: %+v", f)
		}
	}
	for _, want := range []string{"engine", "api version", "memory limit", "seccomp", "runtimes", "image", "disk", "sandbox"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q was not looked at", want)
		}
	}
	if !r.Runnable {
		t.Errorf("not runnable: %+v", r.Findings)
	}
	opts := testOptions()
	opts.Host = "unix:///nowhere/engine.sock"
	if r := Examine(t.Context(), opts); r.Runnable || len(r.Findings) != 1 || r.Findings[0].State != FindingFail {
		t.Errorf("without an engine: %+v", r)
	}
}
