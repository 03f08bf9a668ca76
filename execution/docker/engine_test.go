package docker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

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

// How a sandbox ended is told by what the engine says of it.
func TestReasonsOfDeaths(t *testing.T) {
	c := newBackend(t)
	now := 0
	for name, row := range map[string]struct {
		end  func(ctx context.Context, h execution.Handle) error
		says string
	}{
		"removed": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerRemove(ctx, h.ID(), container.RemoveOptions{Force: true})
		}, "removed from outside"},
		"killed": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerKill(ctx, h.ID(), "SIGKILL")
		}, "SIGKILL"},
		"stopped": {func(ctx context.Context, h execution.Handle) error {
			return world.plain.ContainerStop(ctx, h.ID(), container.StopOptions{Timeout: &now})
		}, "stopped from outside"},
		"first process killed": {func(ctx context.Context, h execution.Handle) error {
			return killFirst(ctx, h)
		}, "first process was killed"},
		"paused, then removed": {func(ctx context.Context, h execution.Handle) error {
			return errors.Join(world.plain.ContainerPause(ctx, h.ID()),
				world.plain.ContainerRemove(ctx, h.ID(), container.RemoveOptions{Force: true}))
		}, "removed from outside"},
	} {
		t.Run(name, func(t *testing.T) {
			h := spawn(t, c, execution.Spec{})
			proc, err := h.Start(t.Context(), execution.Command{Shell: "sleep 1000"})
			if err != nil {
				t.Fatal(err)
			}
			if err := row.end(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			status, err := proc.Wait(t.Context())
			if !errors.Is(err, execution.ErrLost) || status.Ending != execution.EndingLost || !strings.Contains(err.Error(), row.says) {
				t.Errorf("the command: %v, %v; want lost because %q", status, err, row.says)
			}
			<-h.Done()
			if err := h.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("the handle: %v; want lost because %q", err, row.says)
			}
			if err := h.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy after the death: %v", err)
			}
		})
	}
}

// hostPID is the number of a sandbox's first process on this machine.
func hostPID(ctx context.Context, h execution.Handle) (int, error) {
	info, err := world.plain.ContainerInspect(ctx, h.ID())
	if err != nil {
		return 0, err
	}
	return info.State.Pid, nil
}

func killFirst(ctx context.Context, h execution.Handle) error {
	pid, err := hostPID(ctx, h)
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// The kernel picks what runs in the sandbox, not the guest. Where it is made to
// pick the guest, that is told as what it is.
func TestOutOfMemory(t *testing.T) {
	c := newBackend(t)
	// Files in memory belong to nobody, so that the kernel has to choose.
	const eat = "dd if=/dev/zero of=/memory/file bs=1M"
	spec := execution.Spec{Limits: execution.Limits{Memory: 64 << 20}}
	t.Run("a command", func(t *testing.T) {
		h := spawn(t, c, spec)
		result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"sh", "-c", "exec tail /dev/zero"}})
		if err != nil || result.Ending != execution.EndingOutOfMemory {
			t.Errorf("got %v, %v", result.ExitStatus, err)
		}
		if got := shell(t, h, "echo alive"); got != "alive\n" {
			t.Errorf("the sandbox: %q", got)
		}
	})
	t.Run("the guest", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("turning the kernel on the guest takes root")
		}
		spec.Mounts = []execution.Mount{{Type: execution.MountTmpfs, Target: "/memory", Size: 1 << 30}}
		h := spawn(t, c, spec)
		pid, err := hostPID(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0); err != nil {
			t.Skip(err)
		}
		proc, err := h.Start(t.Context(), execution.Command{Shell: eat})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := proc.Wait(t.Context()); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("got %v, %v, want lost because out of memory", status, err)
		}
	})
}

// A fork bomb stays within its limit, can be killed, and what is left after it
// is a working sandbox.
func TestForkBombIsBoundedAndKilled(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{Limits: execution.Limits{PIDs: 100}})
	pid, err := hostPID(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	proc, err := h.Start(t.Context(), execution.Command{Shell: `bomb() { bomb | bomb & }; bomb; sleep 1000`})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bomb reaches its limit", func() bool { return countInside(t, pid) > 90 })
	if n := countInside(t, pid); n > 110 {
		t.Errorf("%d processes, with a limit of 100", n)
	}
	if err := proc.Kill(t.Context()); err != nil {
		t.Errorf("Kill: %v", err)
	}
	if status, err := proc.Wait(t.Context()); err != nil || status.Ending != execution.EndingCancelled {
		t.Errorf("got %v, %v", status, err)
	}
	if got := shell(t, h, "echo alive"); got != "alive\n" {
		t.Errorf("the sandbox: %q", got)
	}
	if n := countInside(t, pid); n > 20 {
		t.Errorf("%d processes are left", n)
	}
}

// countInside counts the processes that share a process's own process space.
func countInside(t *testing.T, pid int) int {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("looking into a sandbox from outside takes root on Linux")
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if other, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && other == space {
			n++
		}
	}
	return n
}

// A flood of processes that Destroy meets costs no time either.
func TestDestroyOfAForkBomb(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	if _, err := h.Start(t.Context(), execution.Command{Shell: `bomb() { bomb | bomb & }; bomb`}); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := world.plain.ContainerInspect(t.Context(), h.ID()); err == nil {
		t.Error("the container is still there")
	}
}

func TestPausedSandboxes(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	if err := world.plain.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls say that it is paused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := h.Stat(ctx, "/")
		return errors.Is(err, execution.ErrPaused)
	})
	if err := world.plain.ContainerUnpause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool {
		_, err := h.Stat(t.Context(), "/")
		return err == nil
	})
	// Paused again, it can still be destroyed.
	if err := world.plain.ContainerPause(t.Context(), h.ID()); err != nil {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFiftyAtOnce(t *testing.T) {
	c := newBackend(t)
	handles := make([]execution.Handle, 50)
	errs := make([]error, len(handles))
	var all sync.WaitGroup
	for i := range handles {
		all.Go(func() { handles[i], errs[i] = c.Spawn(t.Context(), execution.Spec{}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i, h := range handles {
		ids[h.ID()] = true
		all.Go(func() {
			result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"echo", strconv.Itoa(i)}})
			if err != nil || string(result.Stdout) != strconv.Itoa(i)+"\n" {
				t.Errorf("sandbox %d: %q, %v", i, result.Stdout, err)
			}
		})
	}
	all.Wait()
	if len(ids) != len(handles) {
		t.Errorf("%d different IDs", len(ids))
	}
	// Half of them by hand, the other half by Close at the end of the test.
	for _, h := range handles[:25] {
		all.Go(func() {
			if err := h.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Whenever a Spawn is given up, nothing of it is left.
func TestSpawnGivenUpAtAnyMoment(t *testing.T) {
	c := newBackend(t)
	spawn(t, c, execution.Spec{}) // The derived image is there from here on.
	const tries = 30
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for range tries {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(400))*time.Millisecond)
			defer cancel()
			h, err := c.Spawn(ctx, execution.Spec{})
			switch {
			case err == nil:
				if err := h.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
	all.Wait()
	left, err := ours(t.Context())
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v; want only the one that lives", left, err)
	}
}

// Processes that derive the same image at the same time end up with one, and
// with no builder left.
func TestDerivedImageIsMadeOnce(t *testing.T) {
	needEngine(t)
	ref := world.shell + "-race"
	made, err := world.plain.ContainerCreate(t.Context(), &container.Config{Image: world.shell, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	base, err := world.plain.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Comment: newID()})
	if err := errors.Join(err, world.plain.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{})); err != nil {
		t.Fatal(err)
	}
	derived := func() []image.Summary {
		list, err := world.plain.ImageList(context.Background(), image.ListOptions{
			All: true, Filters: labelFilter([]string{labelBase + "=" + base.ID}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	defer func() {
		for _, d := range derived() {
			_, err := world.plain.ImageRemove(context.Background(), d.ID, image.RemoveOptions{Force: true})
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := world.plain.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	var all sync.WaitGroup
	for range 3 {
		c := newBackend(t)
		for range 2 {
			all.Go(func() {
				h, err := c.Spawn(t.Context(), execution.Spec{Image: ref})
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := derived(); len(got) != 1 {
		t.Errorf("there are %d derived images", len(got))
	}
	builders, err := world.plain.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelBase+"="+base.ID)),
	})
	// The sandboxes' containers inherit the label; they are gone as well.
	if err != nil || len(builders) > 0 {
		t.Errorf("builders are left: %v, %v", builders, err)
	}
}

// An image's volumes go with the sandbox, and its own settings change nothing.
func TestAnonymousVolumesAreNotLeft(t *testing.T) {
	c := newBackend(t)
	made, err := world.plain.ContainerCreate(t.Context(), &container.Config{Image: world.shell, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	ref := world.shell + "-volumes"
	_, err = world.plain.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: []string{
		`VOLUME ["/data", "/workspace"]`, `ENTRYPOINT ["/bin/false"]`, `CMD ["x"]`, `USER worker`, `WORKDIR /nowhere`,
		`HEALTHCHECK CMD /bin/false`, `ENV FROM_IMAGE=yes`,
	}})
	if err := errors.Join(err, world.plain.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{})); err != nil {
		t.Fatal(err)
	}
	defer removeWithDerived(t, ref)
	h := spawn(t, c, execution.Spec{Image: ref})
	info, err := world.plain.ContainerInspect(t.Context(), h.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := shell(t, h, "touch /workspace/file && pwd && id -u && echo $FROM_IMAGE && ls -d /data"); got != "/workspace\n1000\nyes\n/data\n" {
		t.Errorf("got %q", got)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	volumes := 0
	for _, m := range info.Mounts {
		if m.Name == "" {
			continue
		}
		volumes++
		if _, err := world.plain.VolumeInspect(t.Context(), m.Name); err == nil {
			t.Errorf("the volume at %s is left", m.Destination)
		}
	}
	if volumes == 0 {
		t.Error("there was no volume to look for")
	}
}

func removeWithDerived(t *testing.T, ref string) {
	t.Helper()
	ctx := context.Background()
	base, err := world.plain.ImageInspect(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := world.plain.ImageList(ctx, image.ListOptions{All: true, Filters: labelFilter([]string{labelBase + "=" + base.ID})})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, d := range derived {
		ids = append(ids, d.ID)
	}
	for _, id := range append(ids, ref) {
		if _, err := world.plain.ImageRemove(ctx, id, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// A thousand commands leave the host's descriptors and goroutines where they
// were, and lose no output.
func TestThousandCommandsLeaveNothing(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{})
	commands := 1000
	if testing.Short() {
		commands = 100
	}
	one := func() {
		result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"sh", "-c", "printf x; printf y >&2; exit 127"}})
		if err != nil || result.Code != 127 || string(result.Stdout) != "x" || string(result.Stderr) != "y" {
			t.Fatalf("got %v, %q, %q, %v", result.ExitStatus, result.Stdout, result.Stderr, err)
		}
	}
	one()
	descriptors, goroutines := openFiles(t), runtime.NumGoroutine()
	for range commands {
		one()
	}
	eventually(t, "descriptors and goroutines are back", func() bool {
		return openFiles(t) <= descriptors && runtime.NumGoroutine() <= goroutines
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

func TestClosedContextsRefuse(t *testing.T) {
	needEngine(t)
	c, err := New(t.Context(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	late := make(chan error, 1)
	go func() {
		_, err := c.Spawn(t.Context(), execution.Spec{})
		late <- err
	}()
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-late; err != nil && !errors.Is(err, execution.ErrClosed) {
		t.Errorf("a Spawn that Close met: got %v, want ErrClosed", err)
	}
	if _, err := c.Spawn(t.Context(), execution.Spec{}); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("Spawn: got %v, want ErrClosed", err)
	}
	if err := h.Err(); !errors.Is(err, execution.ErrClosed) {
		t.Errorf("the handle: got %v, want ErrClosed", err)
	}
	if left, err := ours(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
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
