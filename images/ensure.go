package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Options says how Ensure gets an image. The zero value takes the one that is
// there, pulls it otherwise, and says nothing meanwhile.
type Options struct {
	// Platform is what the image must be for, such as "linux/arm64". A backend
	// gives the engine's own where its user asked for none, so that an image
	// that cannot run is found out here. "" accepts any.
	Platform string

	// Pull says when the registry is asked; "" is execution.PullMissing.
	// With execution.PullNever nothing is built either.
	Pull execution.PullPolicy

	// Progress, when not nil, is told how far it has come.
	Progress Progress

	// Stall is how long a pull or build may make no progress before it is
	// given up; 0 means a default that suits a slow line. How long it takes
	// as a whole is bounded by ctx alone.
	Stall time.Duration
}

// Ensure returns the image that ref names, and gets it onto the engine when it
// is not there: it is pulled, or else built from its Dockerfile when it is one
// of [Known].
//
// The error matches execution.ErrImage when the image cannot be had, and then
// tells each thing that was tried with its reason and the command that helps;
// execution.ErrUnavailable when the engine does not answer; and
// execution.ErrInvalid when ref or an option makes no sense.
//
// Ensure holds no lock: two calls at once for an absent image both fetch it,
// which is correct but wasteful.
func Ensure(ctx context.Context, engine Engine, ref string, opts Options) (Image, error) {
	image, err := ensure(ctx, engine, ref, opts)
	if err != nil {
		return Image{}, &execution.Error{Op: "ensure image " + ref, Err: err}
	}
	return image, nil
}

func ensure(ctx context.Context, engine Engine, ref string, opts Options) (Image, error) {
	if err := opts.validate(ref); err != nil {
		return Image{}, err
	}
	tried := &attempts{}
	if opts.Pull != execution.PullAlways {
		image, err := inspect(ctx, engine, ref, opts.Platform)
		// An engine that cannot even answer that is stuck; it would pull no better.
		if err == nil || final(ctx, err) || errors.Is(err, execution.ErrTimeout) {
			return image, err
		}
		tried.add("", err)
	}
	if opts.Pull == execution.PullNever {
		tried.skip("pull and build", "the pull policy is never")
		return Image{}, tried.failure(ref)
	}

	image, err := pull(ctx, engine, ref, opts)
	if err == nil || final(ctx, err) {
		return image, err
	}
	tried.add("pull", err)

	if recipe, ours := Lookup(ref); ours && ref == recipe.Ref {
		image, err = buildOnline(ctx, engine, recipe, BuildOptions{
			Platform: opts.Platform, Progress: opts.Progress, Stall: opts.Stall,
		})
		if err == nil || final(ctx, err) {
			return image, err
		}
		tried.add("build from its Dockerfile", err)
	}
	return Image{}, tried.failure(ref)
}

func (o Options) validate(ref string) error {
	switch {
	case ref == "" || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%w: image reference %q: want a name such as debian:12", execution.ErrInvalid, ref)
	case o.Stall < 0:
		return fmt.Errorf("%w: stall %v: want 0 (default) or a positive duration", execution.ErrInvalid, o.Stall)
	}
	switch o.Pull {
	case "", execution.PullMissing, execution.PullAlways, execution.PullNever:
	default:
		return fmt.Errorf("%w: pull policy %q: want missing, always or never", execution.ErrInvalid, o.Pull)
	}
	if o.Platform == "" {
		return nil
	}
	_, err := parsePlatform(o.Platform)
	return err
}

// final reports that trying something else is of no use: nobody waits for it
// any more, or there is no engine.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, execution.ErrUnavailable) || errors.Is(err, execution.ErrInvalid)
}

// inspect is what the engine has under ref, when it is for the platform.
func inspect(ctx context.Context, engine Engine, ref, platform string) (Image, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askDeadline,
		fmt.Errorf("%w: it was asked for the image for %v", execution.ErrTimeout, askDeadline))
	defer cancel()
	image, err := engine.ImageInspect(ctx, ref)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), execution.ErrTimeout):
		return Image{}, context.Cause(ctx)
	case errors.Is(err, execution.ErrNotFound):
		return Image{}, fmt.Errorf("%w on the engine", execution.ErrNotFound)
	case err != nil:
		return Image{}, err
	}
	return image, checkPlatform(image, platform)
}

func pull(ctx context.Context, engine Engine, ref string, opts Options) (Image, error) {
	err := watched(ctx, either(opts.Stall, pullStall), opts.Progress, func(ctx context.Context, progress Progress) error {
		progress(Event{Step: "pull " + ref})
		return engine.ImagePull(ctx, ref, opts.Platform, progress)
	})
	if err != nil {
		return Image{}, err
	}
	return inspect(ctx, engine, ref, opts.Platform)
}

// buildOnline builds one of ours from its Dockerfile, whose base image the
// engine pulls.
func buildOnline(ctx context.Context, engine Engine, recipe Recipe, opts BuildOptions) (Image, error) {
	buildContext, err := recipe.buildContext()
	if err != nil {
		return Image{}, err
	}
	err = watched(ctx, either(opts.Stall, buildStall), opts.Progress, func(ctx context.Context, progress Progress) error {
		progress(Event{Step: "build " + recipe.Ref})
		return engine.ImageBuild(ctx, bytes.NewReader(buildContext), ImageBuildOptions{
			Tag: recipe.Ref, Platform: opts.Platform, Labels: recipe.labels(), NoCache: opts.NoCache,
		}, progress)
	})
	if err != nil {
		return Image{}, err
	}
	return inspect(ctx, engine, recipe.Ref, opts.Platform)
}

// attempts collects what was tried and why it did not work.
type attempts struct {
	texts  []string
	errors []error
}

func (a *attempts) add(what string, err error) {
	a.skip(what, oneLine(err))
	a.errors = append(a.errors, err)
}

func (a *attempts) skip(what, why string) {
	if what != "" {
		why = what + ": " + why
	}
	a.texts = append(a.texts, why)
}

// failure is the one error for all that was tried.
func (a *attempts) failure(ref string) error {
	return &unavailableError{
		text: fmt.Sprintf("%v: %s; %s", execution.ErrImage, strings.Join(a.texts, "; "), advice(ref)),
		errs: append(a.errors, execution.ErrImage),
	}
}

// advice is the command that helps who cannot reach the registry.
func advice(ref string) string {
	if recipe, ours := Lookup(ref); ours {
		return fmt.Sprintf("to make it from Debian packages, without a registry, run: %s", offlineCommand(recipe))
	}
	return fmt.Sprintf("to see what the engine says run: docker pull %s; to bring it from another machine: "+
		"docker save %s there and docker load here", ref, ref)
}

func offlineCommand(recipe Recipe) string {
	return "sudo pinfold images build --offline " + recipe.Name
}

// An unavailableError matches ErrImage and the reason of each attempt.
type unavailableError struct {
	text string
	errs []error
}

func (e *unavailableError) Error() string   { return e.text }
func (e *unavailableError) Unwrap() []error { return e.errs }

// oneLine is an error's text without line ends, which engines and build tools
// like to put into theirs.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
