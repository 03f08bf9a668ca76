//go:build linux

package integration

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/pinfold-dev/pinfold/execution"
)

// Bad input: each a clear error, and nothing left behind.

func TestWhatCannotBeMadeIsRefusedByName(t *testing.T) {
	need(t)
	backend := newBackend(t, dockerOptions())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		spec  execution.Spec
		want  error
		words []string
	}{
		"unknown image that may not be fetched": {
			execution.Spec{Image: "no-such-image:anywhere", Pull: execution.PullNever}, execution.ErrImage, []string{"no-such-image:anywhere"},
		},
		"unknown image": {
			execution.Spec{Image: "localhost:1/no-such-image:anywhere"}, execution.ErrImage, []string{"no-such-image"},
		},
		"image name that is none": {execution.Spec{Image: "Not A Name"}, execution.ErrInvalid, []string{"Not A Name"}},
		"unknown runtime":         {execution.Spec{Runtime: "no-such-runtime"}, nil, []string{"no-such-runtime"}},
		"unknown network":         {execution.Spec{Network: "no-such-network"}, nil, []string{"no-such-network"}},
		"the host's network":      {execution.Spec{Network: "host"}, execution.ErrInvalid, []string{"host"}},
		"another's network":       {execution.Spec{Network: "container:x"}, execution.ErrInvalid, []string{"network"}},
		"directory that is missing": {
			execution.Spec{Dir: "/no/such directory"}, execution.ErrDirNotFound, []string{"/no/such directory"},
		},
		"directory that is a file": {execution.Spec{Dir: "/etc/passwd"}, nil, []string{"/etc/passwd"}},
		"directory below /proc":    {execution.Spec{Dir: "/proc/self/fd/7"}, execution.ErrInvalid, []string{"/proc"}},
		"relative directory":       {execution.Spec{Dir: "here"}, execution.ErrInvalid, []string{"here"}},
		"user that is missing":     {execution.Spec{User: "nobody-of-that-name"}, execution.ErrUserNotFound, []string{"nobody-of-that-name"}},
		"mount of a missing path": {
			execution.Spec{Mounts: []execution.Mount{{Type: execution.MountBind, Source: "/no/such/source", Target: "/x"}}},
			execution.ErrNotFound,
			[]string{"/no/such/source"},
		},
		"relative mount": {
			execution.Spec{Mounts: []execution.Mount{{Type: execution.MountBind, Source: "here", Target: "/x"}}},
			execution.ErrInvalid,
			[]string{"here"},
		},
		"two mounts on one target": {
			execution.Spec{Mounts: []execution.Mount{{Type: execution.MountTmpfs, Target: "/x"}, {Type: execution.MountTmpfs, Target: "/x/"}}},
			execution.ErrInvalid,
			[]string{"/x"},
		},
		"negative memory":       {execution.Spec{Limits: execution.Limits{Memory: -1}}, execution.ErrInvalid, []string{"memory"}},
		"hardly any memory":     {execution.Spec{Limits: execution.Limits{Memory: 4096}}, execution.ErrInvalid, []string{"memory"}},
		"absurd memory":         {execution.Spec{Limits: execution.Limits{Memory: 1 << 62}}, execution.ErrInvalid, []string{"memory"}},
		"negative processors":   {execution.Spec{Limits: execution.Limits{CPUs: -1}}, execution.ErrInvalid, []string{"cpu"}},
		"absurd processors":     {execution.Spec{Limits: execution.Limits{CPUs: 1e9}}, execution.ErrInvalid, []string{"cpu"}},
		"one process":           {execution.Spec{Limits: execution.Limits{PIDs: 1}}, execution.ErrInvalid, []string{"pid"}},
		"negative storage":      {execution.Spec{Limits: execution.Limits{Storage: -1}}, execution.ErrInvalid, []string{"storage"}},
		"label under ours":      {execution.Spec{Labels: map[string]string{"dev.pinfold.owner": "x"}}, execution.ErrInvalid, []string{"dev.pinfold."}},
		"label without a name":  {execution.Spec{Labels: map[string]string{"": "x"}}, execution.ErrInvalid, []string{"label"}},
		"NUL in the directory":  {execution.Spec{Dir: "/a\x00b"}, execution.ErrInvalid, nil},
		"name that is none":     {execution.Spec{Name: "a name/with:signs"}, execution.ErrInvalid, []string{"a name/with:signs"}},
		"platform that is none": {execution.Spec{Platform: "nonsense"}, execution.ErrInvalid, []string{"nonsense"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, backend, row.spec, row.want, row.words...) })
	}
}

func TestTheEnginesSocketIsNeverMounted(t *testing.T) {
	need(t)
	backend := newBackend(t, dockerOptions())
	dir := t.TempDir()
	links := map[string]string{"to-socket": "/var/run/docker.sock", "to-run": "/run", "to-root": "/", "far": "to-run"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sources := []string{
		"/", "/run", "/run/", "/var/run", "/var/run/..", "/var/run/docker.sock", "/run/docker.sock",
		"/run/../run/docker.sock", "/proc/1/root", "/proc/self/root/run", "/var/lib/docker",
	}
	for name := range links {
		sources = append(sources, filepath.Join(dir, name))
	}
	for _, source := range append(sources, filepath.Join(dir, "to-root", "run")) {
		t.Run(strings.ReplaceAll(source, "/", "_"), func(t *testing.T) {
			if _, err := os.Stat(source); err != nil {
				t.Skip("not on this machine")
			}
			for _, readOnly := range []bool{false, true} {
				refused(t, backend, execution.Spec{Mounts: []execution.Mount{
					{Type: execution.MountBind, Source: source, Target: "/x", ReadOnly: readOnly},
				}}, execution.ErrInvalid, "mount")
			}
		})
	}
	t.Run("a socket that another engine listens at", func(t *testing.T) {
		d := startDaemon(t)
		own := newBackend(t, dockerOptionsAt(d.host))
		image := d.image(t)
		for _, source := range []string{d.dir, filepath.Join(d.dir, "docker.sock")} {
			_, err := own.Spawn(t.Context(), execution.Spec{Image: image, Mounts: []execution.Mount{
				{Type: execution.MountBind, Source: source, Target: "/x"},
			}})
			isError(t, err, execution.ErrInvalid, "socket")
		}
		if err := noneLeft(t, d); err != nil {
			t.Error(err)
		}
	})
}

func TestANameThatIsTakenIsAConflict(t *testing.T) {
	need(t)
	backend := newBackend(t, dockerOptions())
	name := "pinfold-taken-" + mark()
	first := newSandbox(t, backend, execution.Spec{Name: name})
	refused(t, backend, execution.Spec{Name: name}, execution.ErrConflict, name)
	// The one that has the name is as it was, and the name is free after it.
	output(t, first, "true")
	if err := first.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	output(t, newSandbox(t, backend, execution.Spec{Name: name}), "true")
}

func TestAStorageLimitHoldsOrIsRefused(t *testing.T) {
	need(t)
	backend := newBackend(t, dockerOptions())
	spec := execution.Spec{Limits: execution.Limits{Storage: 64 << 20}}
	if !backend.Capabilities().StorageLimit {
		refused(t, backend, spec, execution.ErrUnsupported, "storage")
		return
	}
	h := newSandbox(t, backend, spec)
	err := h.WriteFile(t.Context(), "big", bytes.NewReader(make([]byte, 128<<20)), execution.WriteOptions{})
	isError(t, err, execution.ErrNoSpace)
}

func TestAnImageForAnotherArchitectureIsRefusedByName(t *testing.T) {
	need(t)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	ref := imageRepo + ":" + mark()
	importImage(t, world.engine, ref, "linux/"+other, rootfs(t))
	defer removeImage(t, ref)
	if info, err := world.engine.ImageInspect(t.Context(), ref); err != nil || info.Architecture != other {
		t.Skipf("this engine imports every image as its own: %v, %v", info.Architecture, err)
	}
	refused(t, newBackend(t, dockerOptions()), execution.Spec{Image: ref}, execution.ErrImage, other, runtime.GOARCH)
}

func TestAPlatformThatTheImageIsNotForIsRefused(t *testing.T) {
	need(t)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	refused(t, newBackend(t, dockerOptions()),
		execution.Spec{Platform: "linux/" + other, Pull: execution.PullNever}, execution.ErrImage, other)
}

func TestAFullDiskIsSaidAndLeavesTheOldFile(t *testing.T) {
	need(t)
	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Mounts: []execution.Mount{
		{Type: execution.MountTmpfs, Target: "/small", Size: 1 << 20},
	}})
	ctx := t.Context()
	if err := execution.WriteFile(ctx, h, "/small/file", []byte("old")); err != nil {
		t.Fatal(err)
	}
	isError(t, execution.WriteFile(ctx, h, "/small/file", make([]byte, 4<<20)), execution.ErrNoSpace, "/small/file")
	if got, err := execution.ReadFile(ctx, h, "/small/file", 0); err != nil || string(got) != "old" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	// Nothing half-written takes up the rest of the space.
	if got := output(t, h, "ls -A /small"); got != "file\n" {
		t.Errorf("there is %q", got)
	}
	if err := execution.WriteFile(ctx, h, "/small/other", make([]byte, 512<<10)); err != nil {
		t.Errorf("a file that fits: %v", err)
	}
}

func TestADerivedImageThatIsGoneIsMadeAgain(t *testing.T) {
	need(t)
	ref := buildImage(t, "FROM scratch\nADD rootfs.tar /\n", file{name: "rootfs.tar", data: rootfs(t)})
	backend := newBackend(t, dockerOptions())
	for range 2 {
		h := newSandbox(t, backend, execution.Spec{Image: ref})
		output(t, h, "true")
		if err := h.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		base, err := world.engine.ImageInspect(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		removeDerived(t, base.ID)
	}
}

func removeDerived(t *testing.T, base string) {
	t.Helper()
	derived, err := derivedImages(t.Context(), world.engine, base)
	if err != nil {
		t.Fatal(err)
	}
	if len(derived) == 0 {
		t.Error("there is no derived image")
	}
	for _, id := range derived {
		if _, err := world.engine.ImageRemove(t.Context(), id, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

func TestCleanUpDoesNotDependOnTheCallersContext(t *testing.T) {
	h := sandbox(t)
	pending := start(t, h, execution.Command{Shell: "sleep 100000"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = h.Destroy(ended) // it may fail, and then says what is left
	if err := h.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy again: %v", err)
	}
	absent(t, world.engine, h.ID())
	_, err := pending.Wait(t.Context())
	if err == nil {
		t.Error("the command that was running ended well")
	}
}
