package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// ImageInspect describes an image; see [images.Engine].
func (m *moby) ImageInspect(ctx context.Context, ref string) (images.Image, error) {
	got, err := call(ctx, "inspect image", inspectLimit, func(ctx context.Context) (image.InspectResponse, error) {
		return m.cli.ImageInspect(ctx, ref)
	})
	if err != nil {
		return images.Image{}, err
	}
	img := images.Image{
		ID: got.ID, Tags: got.RepoTags, OS: got.Os, Architecture: got.Architecture, Variant: got.Variant, Size: got.Size,
	}
	img.Created, _ = time.Parse(time.RFC3339Nano, got.Created)
	if c := got.Config; c != nil {
		img.User, img.Env, img.WorkingDir, img.Labels = c.User, c.Env, c.WorkingDir, c.Labels
		img.Entrypoint, img.Cmd = c.Entrypoint, c.Cmd
		for volume := range c.Volumes {
			img.Volumes = append(img.Volumes, volume)
		}
		slices.Sort(img.Volumes)
	}
	return img, nil
}

// ImagePull fetches an image; see [images.Engine]. How long it may take is the
// caller's to say.
func (m *moby) ImagePull(ctx context.Context, ref, platform string, progress images.Progress) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fmt.Errorf("%w: image %q: %w", execution.ErrInvalid, ref, err)
	}
	auth, err := registryAuth(ctx, reference.Domain(named))
	if err != nil {
		return err
	}
	body, err := m.cli.ImagePull(ctx, reference.TagNameOnly(named).String(), image.PullOptions{Platform: platform, RegistryAuth: auth})
	if err != nil {
		return streamError(ctx, "pull", err)
	}
	return follow(ctx, "pull", body, "pull "+ref, progress)
}

// ImageBuild builds an image with the classic builder; see [images.Engine].
func (m *moby) ImageBuild(ctx context.Context, buildContext io.Reader, opts images.ImageBuildOptions, progress images.Progress) error {
	resp, err := m.cli.ImageBuild(ctx, buildContext, build.ImageBuildOptions{
		Tags: []string{opts.Tag}, Platform: opts.Platform, Labels: opts.Labels, NoCache: opts.NoCache,
		Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return streamError(ctx, "build", err)
	}
	return follow(ctx, "build", resp.Body, "build "+opts.Tag, progress)
}

// ImageLoad adds the images of an archive; see [images.Engine].
func (m *moby) ImageLoad(ctx context.Context, archive io.Reader, progress images.Progress) error {
	resp, err := m.cli.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(false))
	if err != nil {
		return streamError(ctx, "load", err)
	}
	if !resp.JSON {
		_, err := io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	return follow(ctx, "load", resp.Body, "load", progress)
}

// follow reads an engine's stream of progress to its end.
func follow(ctx context.Context, call string, body io.ReadCloser, step string, progress images.Progress) (err error) {
	defer func() { err = errors.Join(err, body.Close()) }()
	decoder := json.NewDecoder(body)
	for {
		var msg struct {
			Stream, Status, ID, Error string
			ErrorDetail               *struct{ Message string }
			ProgressDetail            *struct{ Current, Total int64 }
		}
		if err := decoder.Decode(&msg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return streamError(ctx, call, err)
		}
		if msg.ErrorDetail != nil && msg.ErrorDetail.Message != "" {
			msg.Error = msg.ErrorDetail.Message
		}
		if msg.Error != "" {
			return mapError(call, errors.New(msg.Error))
		}
		event := images.Event{Step: step, ID: msg.ID, Text: msg.Status}
		if msg.ProgressDetail != nil {
			event.Current, event.Total = msg.ProgressDetail.Current, msg.ProgressDetail.Total
		}
		if event.Text != "" {
			progress(event)
		}
		for line := range strings.Lines(msg.Stream) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				progress(images.Event{Step: step, Text: line})
			}
		}
	}
}

// streamError is mapError for calls whose only deadline is ctx's.
func streamError(ctx context.Context, call string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("engine's %s: %w", call, context.Cause(ctx))
	}
	return mapError(call, err)
}
