//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/testcontainers/testcontainers-go"
)

// runLabel marks every sandbox of these tests with the run's ID.
const runLabel = "pinfold-integration"

// sessionLabel is what testcontainers puts on what it makes.
const sessionLabel = "org.testcontainers.sessionId"

// An inventory is what an engine holds, by ID or name.
type inventory struct {
	networks map[string]bool
	volumes  map[string]bool
	images   map[string]bool
}

func takeInventory(ctx context.Context, engine *client.Client) (inventory, error) {
	// Other tests run on this engine at the same time: networks are those of
	// our own helpers.
	networks, errNetworks := engine.NetworkList(ctx, network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", sessionLabel+"="+testcontainers.SessionID())),
	})
	// Those in use belong to whatever else runs on this engine now.
	volumes, errVolumes := engine.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("dangling", "true"))})
	images, errImages := engine.ImageList(ctx, image.ListOptions{})
	inv := inventory{networks: map[string]bool{}, volumes: map[string]bool{}, images: map[string]bool{}}
	if err := errors.Join(errNetworks, errVolumes, errImages); err != nil {
		return inv, err
	}
	for _, n := range networks {
		inv.networks[n.Name] = true
	}
	for _, v := range volumes.Volumes {
		inv.volumes[v.Name] = true
	}
	for _, i := range images {
		inv.images[i.ID] = true
	}
	return inv, nil
}

// sweepTime is how long the engine may take to finish removals that have been
// promised to be finished already; it is there for engines that tell late.
const sweepTime = 5 * time.Second

// sweep removes the images that the suite itself has made, and then fails when
// anything of ours is left: containers, volumes, networks, images, processes,
// files.
func (s *suite) sweep() error {
	ctx, cancel := cleanupContext()
	defer cancel()
	var all []error
	if s.plain.ref != "" {
		all = append(all, s.removeImageTree(ctx, s.plain.ref))
	}
	deadline := time.Now().Add(sweepTime)
	left, err := s.leftovers(ctx)
	for len(left) > 0 && err == nil && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
		left, err = s.leftovers(ctx)
	}
	all = append(all, err)
	if len(left) > 0 {
		all = append(all, fmt.Errorf("left behind:\n  %s", strings.Join(left, "\n  ")))
	}
	return errors.Join(all...)
}

func (s *suite) leftovers(ctx context.Context) ([]string, error) {
	var left []string
	containers, err := s.engine.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if c.State == "removing" {
			if _, err := s.engine.ContainerInspect(ctx, c.ID); cerrdefs.IsNotFound(err) {
				continue // Docker 20.10 goes on listing some that it has removed.
			}
		}
		// Sandboxes by their label or owner, helpers by their image.
		if strings.HasPrefix(c.Labels[runLabel], s.id) || strings.Contains(c.Image, s.id) || ownedByUs(c.Labels) {
			left = append(left, fmt.Sprintf("container %.12s %v of %s: %s", c.ID, c.Names, c.Image, c.Status))
		}
	}
	now, err := takeInventory(ctx, s.engine)
	if err != nil {
		return nil, err
	}
	for name := range now.networks {
		if !s.before.networks[name] {
			left = append(left, "network "+name)
		}
	}
	for name := range now.volumes {
		if !s.before.volumes[name] {
			left = append(left, "volume "+name)
		}
	}
	images, err := s.imagesLeft(ctx, now)
	left = append(left, images...)
	left = append(left, s.processesLeft()...)
	left = append(left, s.filesLeft()...)
	slices.Sort(left)
	return left, err
}

// imagesLeft are the new images that belong to this run: by their name, or
// because they are derived from an image that this run has made and removed.
func (s *suite) imagesLeft(ctx context.Context, now inventory) ([]string, error) {
	var left []string
	for id := range now.images {
		if s.before.images[id] {
			continue
		}
		info, err := s.engine.ImageInspect(ctx, id)
		if cerrdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.Contains(strings.Join(info.RepoTags, " "), s.id) {
			left = append(left, fmt.Sprintf("image %v", info.RepoTags))
		}
		if base := baseOf(info); s.removed[base] && !now.images[base] {
			left = append(left, fmt.Sprintf("image %v, derived from one that is gone", info.RepoTags))
		}
	}
	return left, nil
}

// processesLeft are those of this program (supervisors are forks of it) and of
// the command under test.
func (s *suite) processesLeft() []string {
	self, _ := os.Readlink("/proc/self/exe")
	var left []string
	for _, p := range hostProcesses() {
		if p.pid != os.Getpid() && (p.exe == self || p.exe == s.pinfold && s.pinfold != "") {
			left = append(left, fmt.Sprintf("process %d: %s", p.pid, p.args))
		}
	}
	return left
}

// filesLeft is what is still in TMPDIR.
func (s *suite) filesLeft() []string {
	entries, _ := os.ReadDir(s.dir)
	var left []string
	for _, e := range entries {
		left = append(left, "file "+filepath.Join(s.dir, e.Name()))
	}
	return left
}

// marked are the containers whose run label is m.
func marked(t *testing.T, engine *client.Client, m string) []container.Summary {
	t.Helper()
	ctx, cancel := cleanupContext()
	defer cancel()
	list, err := engine.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", runLabel+"="+m)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
