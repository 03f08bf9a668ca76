package images

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// BuildOptions says how to make one of our images. The zero value builds the
// Dockerfile for the engine's own platform.
type BuildOptions struct {
	// Offline makes the image from Debian packages on this machine and loads
	// it, instead of building the Dockerfile on top of an image from a
	// registry. It needs root on Debian or Ubuntu and a Debian mirror.
	Offline bool

	// Platform is what the image is for, such as "linux/arm64"; "" is the
	// engine's own, and for Offline this machine's.
	Platform string

	// CacheDir is where Offline keeps what it made, as an archive that "docker
	// load" reads, so that the next time is quick; "" is pinfold/images below
	// the user's cache directory. It is made when it does not exist.
	CacheDir string

	// NoCache makes everything anew, with today's packages.
	NoCache bool

	// Progress, when not nil, is told how far it has come.
	Progress Progress

	// Stall is how long a step may make no progress before it is given up; 0
	// means a default.
	Stall time.Duration
}

// Build makes one of our images, named by its name or reference, also when the
// engine has it already, and returns it. The error matches execution.ErrImage
// when it cannot be made and execution.ErrInvalid when it is none of ours.
func Build(ctx context.Context, engine Engine, name string, opts BuildOptions) (Image, error) {
	image, err := build(ctx, engine, name, opts)
	if err != nil {
		return Image{}, &execution.Error{Op: "build image " + name, Err: err}
	}
	return image, nil
}

func build(ctx context.Context, engine Engine, name string, opts BuildOptions) (Image, error) {
	recipe, ours := Lookup(name)
	if !ours {
		var names []string
		for _, r := range Known() {
			names = append(names, r.Name)
		}
		return Image{}, fmt.Errorf("%w: no such image of ours: want %s", execution.ErrInvalid, strings.Join(names, " or "))
	}
	if err := (Options{Platform: opts.Platform, Stall: opts.Stall}).validate(recipe.Ref); err != nil {
		return Image{}, err
	}
	if opts.Offline {
		image, err := buildOffline(ctx, engine, recipe, opts)
		if err != nil && !final(ctx, err) {
			err = fmt.Errorf("%w: %w", execution.ErrImage, err)
		}
		return image, err
	}
	image, err := buildOnline(ctx, engine, recipe, opts)
	if err != nil && !final(ctx, err) {
		err = fmt.Errorf("%w: %w; %s", execution.ErrImage, err, advice(recipe.Ref))
	}
	return image, err
}

// hostPlatform is where an image that is made here runs.
func hostPlatform() string { return "linux/" + runtime.GOARCH }
