package images_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// realEngine is an images.Engine on the plain client, so that these tests need
// nothing of a backend's.
type realEngine struct{ *client.Client }

// newEngine connects to the engine that the environment names. Without one the
// test is skipped, or fails when PINFOLD_REQUIRE_DOCKER is 1.
func newEngine(t *testing.T) realEngine {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Ping(ctx)
	}
	if err != nil {
		if os.Getenv("PINFOLD_REQUIRE_DOCKER") == "1" {
			t.Fatalf("no engine answers: %v", err)
		}
		t.Skipf("no engine answers: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return realEngine{c}
}

func (e realEngine) ImageInspect(ctx context.Context, ref string) (images.Image, error) {
	got, err := e.Client.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return images.Image{}, fmt.Errorf("%w: %w", execution.ErrNotFound, err)
	}
	if err != nil {
		return images.Image{}, err
	}
	created, err := time.Parse(time.RFC3339Nano, got.Created)
	return images.Image{
		ID: got.ID, Tags: got.RepoTags, OS: got.Os, Architecture: got.Architecture, Variant: got.Variant,
		Created: created, Size: got.Size, User: got.Config.User, Env: got.Config.Env,
		Entrypoint: got.Config.Entrypoint, Cmd: got.Config.Cmd, WorkingDir: got.Config.WorkingDir,
		Volumes: slices.Sorted(maps.Keys(got.Config.Volumes)), Labels: got.Config.Labels,
	}, err
}

func (e realEngine) ImagePull(ctx context.Context, ref, platform string, progress images.Progress) error {
	stream, err := e.Client.ImagePull(ctx, ref, image.PullOptions{Platform: platform})
	if err != nil {
		return err
	}
	return follow(stream, "pull "+ref, progress)
}

func (e realEngine) ImageBuild(ctx context.Context, buildContext io.Reader, opts images.ImageBuildOptions, progress images.Progress) error {
	return e.build(ctx, buildContext, build.ImageBuildOptions{
		Tags: []string{opts.Tag}, Platform: opts.Platform, Labels: opts.Labels, NoCache: opts.NoCache,
		Remove: true, ForceRemove: true,
	}, progress)
}

func (e realEngine) build(ctx context.Context, buildContext io.Reader, opts build.ImageBuildOptions, progress images.Progress) error {
	answer, err := e.Client.ImageBuild(ctx, buildContext, opts)
	if err != nil {
		return err
	}
	return follow(answer.Body, "build "+opts.Tags[0], progress)
}

func (e realEngine) ImageLoad(ctx context.Context, archive io.Reader, progress images.Progress) error {
	answer, err := e.Client.ImageLoad(ctx, archive)
	if err != nil {
		return err
	}
	return follow(answer.Body, "load", progress)
}

// follow reads the engine's stream of JSON messages to its end.
func follow(stream io.ReadCloser, step string, progress images.Progress) (err error) {
	defer func() { err = errors.Join(err, stream.Close()) }()
	messages := json.NewDecoder(stream)
	for {
		var m struct{ ID, Status, Stream, Error string }
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
		progress(images.Event{Step: step, ID: m.ID, Text: strings.TrimSpace(m.Status + m.Stream)})
	}
}

// run runs a command in a fresh container of ref, as the image's own user and
// without a network, and returns what it printed.
func (e realEngine) run(t *testing.T, ref string, args ...string) (stdout string, code int64) {
	t.Helper()
	ctx := t.Context()
	made, err := e.ContainerCreate(ctx, &container.Config{Image: ref, Cmd: args},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := e.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := e.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := e.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	case end := <-ended:
		code = end.StatusCode
	}
	logs, err := e.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logs.Close() }()
	var out, errs strings.Builder
	if _, err := stdcopy.StdCopy(&out, &errs, logs); err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		t.Logf("%q: code %d: %s", args, code, errs.String())
	}
	return out.String(), code
}
