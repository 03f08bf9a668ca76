package docker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/pinfold-dev/pinfold/execution"
)

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
	ref := changedImage(t, "volumes",
		`VOLUME ["/data", "/workspace"]`, `ENTRYPOINT ["/bin/false"]`, `CMD ["x"]`, `USER worker`, `WORKDIR /nowhere`,
		`HEALTHCHECK CMD /bin/false`, `ENV FROM_IMAGE=yes`)
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

// An image is anybody's, so that what it says of itself is nothing that its
// sandboxes are known by.
func TestImagesDoNotLabelSandboxes(t *testing.T) {
	c := newBackend(t)
	ref := changedImage(t, "labels", "LABEL vendor=x "+labelKeep+"=true "+labelDetach+"=true "+labelLife+"=9000h "+
		labelKey+"=00 "+labelProcess+"=x "+labelOwner+"=x "+labelContext+"=x "+labelVersion+"=0 "+labelLease+"=1ns "+
		labelLabels+`='["vendor"]'`)
	h := spawn(t, c, execution.Spec{Image: ref, Labels: map[string]string{"mine": "yes"}})
	summary, err := c.find(t.Context(), h.ID())
	if err != nil {
		t.Fatal(err)
	}
	s := c.newSandbox(summary)
	if s.Detach || !s.Expires.IsZero() || !s.Mine || s.Process != processID() || s.Owner != c.opts.Owner ||
		!maps.Equal(s.Labels, map[string]string{"mine": "yes"}) {
		t.Errorf("got %+v", s)
	}
	if got := summary.Labels[labelKeep]; got == "true" {
		t.Error("the image has it kept")
	}
}

// changedImage is an image like the usual one but for some changes.
func changedImage(t *testing.T, name string, changes ...string) (ref string) {
	t.Helper()
	made, err := world.plain.ContainerCreate(t.Context(), &container.Config{Image: world.shell, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	ref = world.shell + "-" + name
	_, err = world.plain.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: changes})
	if err := errors.Join(err, world.plain.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeWithDerived(t, ref) })
	return ref
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
