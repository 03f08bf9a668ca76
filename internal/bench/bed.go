package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/execution/process"
)

// benchLabel marks the containers that are made here by other ways than ours,
// so that close finds them whatever happened. Its value is this process.
const benchLabel = "pinfold-bench"

// A bed holds what all rows share: a sandbox of ours, a handle on the host, and
// a plain container with the same options, the twin.
type bed struct {
	docker  execution.Context
	process execution.Context
	spec    execution.Spec // of our sandboxes
	sides   []side
	dir     string // on the host, for files

	ours execution.Handle
	host execution.Handle

	engine *client.Client
	id     string // of the value of benchLabel
	twin   string // container ID

	// config and hostConfig are those of our sandbox but for its first
	// process, which just sleeps.
	config     *container.Config
	hostConfig *container.HostConfig
	profile    string // a file with the system call filter, for the docker command
}

// newBed makes everything. The image is made first where it is missing, which
// can take minutes and is not measured.
func newBed(ctx context.Context, set settings) (b *bed, err error) {
	b = &bed{spec: execution.Spec{Image: set.image}, sides: set.sides, id: strconv.Itoa(os.Getpid())}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close(ctx))
			b = nil
		}
	}()
	if b.dir, err = os.MkdirTemp("", "pinfold-bench-"); err != nil {
		return b, err
	}
	if err := b.openOurs(ctx); err != nil {
		return b, err
	}
	if err := b.openHost(ctx); err != nil {
		return b, err
	}
	if b.engine, err = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation()); err != nil {
		return b, err
	}
	if err := b.copyOptions(ctx); err != nil {
		return b, fmt.Errorf("reading the options of our sandbox: %w", err)
	}
	b.twin, err = b.startTwin(ctx)
	return b, err
}

func (b *bed) openOurs(ctx context.Context) (err error) {
	if b.docker, err = docker.New(ctx, docker.Options{}); err != nil {
		return err
	}
	b.ours, err = b.docker.Spawn(ctx, b.spec)
	return err
}

func (b *bed) openHost(ctx context.Context) (err error) {
	if b.process, err = process.New(process.Options{}); err != nil {
		return err
	}
	b.host, err = b.process.Spawn(ctx, b.hostSpec())
	return err
}

// hostSpec is what a handle of the process backend is made of here. The host's
// PATH is what its commands need; it is not inherited.
func (b *bed) hostSpec() execution.Spec {
	return execution.Spec{Dir: b.dir, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func (b *bed) takesPart(s side) bool { return slices.Contains(b.sides, s) }

// copyOptions reads from the engine what our sandbox was made with, and keeps
// all of it but the guest.
func (b *bed) copyOptions(ctx context.Context) error {
	info, err := b.engine.ContainerInspect(ctx, b.ours.ID())
	if err != nil {
		return err
	}
	b.config, b.hostConfig = info.Config, info.HostConfig
	b.config.Entrypoint = []string{"sleep", "infinity"}
	b.config.Cmd = nil
	b.config.Hostname = ""
	b.config.Labels = map[string]string{benchLabel: b.id}
	// A forced remove is timed on twins: nobody else may remove them then.
	b.hostConfig.AutoRemove = false
	return b.writeProfile()
}

// close removes everything, also when ctx has ended.
func (b *bed) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var all []error
	for _, h := range []execution.Handle{b.ours, b.host} {
		if h != nil {
			all = append(all, h.Destroy(ctx))
		}
	}
	for _, c := range []execution.Context{b.docker, b.process} {
		if c != nil {
			all = append(all, c.Close())
		}
	}
	if b.engine != nil {
		all = append(all, b.removeTwins(ctx), b.engine.Close())
	}
	if b.dir != "" {
		all = append(all, os.RemoveAll(b.dir))
	}
	return errors.Join(all...)
}

func (b *bed) removeTwins(ctx context.Context) error {
	list, err := b.engine.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", benchLabel+"="+b.id)),
	})
	if err != nil {
		return err
	}
	var all []error
	for twin := range slices.Values(list) {
		all = append(all, b.removeTwin(ctx, twin.ID))
	}
	return errors.Join(all...)
}
