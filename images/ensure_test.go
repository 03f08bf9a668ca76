package images_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// scripted is an engine whose answers a test chooses, and that notes what it
// was asked.
type scripted struct {
	present          map[string]images.Image
	inspect          error // instead of an answer
	pull, build      func(context.Context, images.Progress) error
	asked            []string
	gotBuild         images.ImageBuildOptions
	afterPull, after images.Image // what is there once a pull or build succeeded
}

func (s *scripted) ImageInspect(_ context.Context, ref string) (images.Image, error) {
	s.asked = append(s.asked, "inspect")
	if s.inspect != nil {
		return images.Image{}, s.inspect
	}
	image, ok := s.present[ref]
	if !ok {
		return images.Image{}, fmt.Errorf("%w: no such image", execution.ErrNotFound)
	}
	return image, nil
}

func (s *scripted) ImagePull(ctx context.Context, ref, _ string, progress images.Progress) error {
	s.asked = append(s.asked, "pull")
	err := s.pull(ctx, progress)
	if err == nil {
		s.present = map[string]images.Image{ref: s.afterPull}
	}
	return err
}

func (s *scripted) ImageBuild(ctx context.Context, r io.Reader, opts images.ImageBuildOptions, progress images.Progress) error {
	s.asked = append(s.asked, "build")
	s.gotBuild = opts
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	err := s.build(ctx, progress)
	if err == nil {
		s.present = map[string]images.Image{opts.Tag: s.after}
	}
	return err
}

func (s *scripted) ImageLoad(context.Context, io.Reader, images.Progress) error {
	return errors.New("not expected")
}

func amd64() images.Image {
	return images.Image{ID: "sha256:1", OS: "linux", Architecture: "amd64"}
}

func failing(text string) func(context.Context, images.Progress) error {
	return func(context.Context, images.Progress) error { return errors.New(text) }
}

func working(context.Context, images.Progress) error { return nil }

func TestEnsureAsksNoMoreThanItMust(t *testing.T) {
	other := images.Image{ID: "sha256:2", OS: "linux", Architecture: "arm64", Variant: "v8"}
	for name, test := range map[string]struct {
		engine scripted
		ref    string
		opts   images.Options
		asked  []string
		want   string // ID, or "" for an error
	}{
		"present": {
			engine: scripted{present: map[string]images.Image{"debian:12": amd64()}},
			ref:    "debian:12", asked: []string{"inspect"}, want: "sha256:1",
		},
		"present for another platform": {
			engine: scripted{present: map[string]images.Image{"debian:12": other}, pull: working, afterPull: amd64()},
			ref:    "debian:12", opts: images.Options{Platform: "linux/amd64"},
			asked: []string{"inspect", "pull", "inspect"}, want: "sha256:1",
		},
		"absent": {
			engine: scripted{pull: working, afterPull: amd64()},
			ref:    "debian:12", asked: []string{"inspect", "pull", "inspect"}, want: "sha256:1",
		},
		"absent and never pulled": {
			ref: images.Minimal, opts: images.Options{Pull: execution.PullNever}, asked: []string{"inspect"},
		},
		"present but always pulled": {
			engine: scripted{present: map[string]images.Image{"debian:12": amd64()}, pull: working, afterPull: other},
			ref:    "debian:12", opts: images.Options{Pull: execution.PullAlways},
			asked: []string{"pull", "inspect"}, want: "sha256:2",
		},
		"ours": {
			engine: scripted{pull: failing("denied"), build: working, after: amd64()},
			ref:    images.Minimal, asked: []string{"inspect", "pull", "build", "inspect"}, want: "sha256:1",
		},
		"not ours": {
			engine: scripted{pull: failing("denied")}, ref: "minimal", asked: []string{"inspect", "pull"},
		},
		"pulled for another platform": {
			engine: scripted{pull: working, afterPull: other},
			ref:    "debian:12", opts: images.Options{Platform: "linux/amd64"}, asked: []string{"inspect", "pull", "inspect"},
		},
		"no engine": {
			engine: scripted{inspect: execution.ErrUnavailable}, ref: images.Minimal, asked: []string{"inspect"},
		},
		"engine that is stuck": {
			engine: scripted{inspect: execution.ErrTimeout}, ref: images.Minimal, asked: []string{"inspect"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := images.Ensure(t.Context(), &test.engine, test.ref, test.opts)
			if got.ID != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got.ID, err, test.want)
			}
			if !slices.Equal(test.engine.asked, test.asked) {
				t.Errorf("asked %q, want %q", test.engine.asked, test.asked)
			}
		})
	}
}

func TestEnsureTellsEverythingItTried(t *testing.T) {
	engine := &scripted{pull: failing("no such\nhost"), build: failing("base image missing")}
	_, err := images.Ensure(t.Context(), engine, images.Sandbox, images.Options{})
	if !errors.Is(err, execution.ErrImage) {
		t.Fatalf("%v does not match ErrImage", err)
	}
	want := "ensure image " + images.Sandbox + ": image unavailable: not found on the engine; " +
		"pull: no such host; build from its Dockerfile: base image missing; " +
		"to make it from Debian packages, without a registry, run: sudo pinfold images build --offline sandbox"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if engine.gotBuild.Tag != images.Sandbox {
		t.Errorf("built as %q", engine.gotBuild.Tag)
	}
}

func TestEnsureNamesBothPlatforms(t *testing.T) {
	engine := &scripted{present: map[string]images.Image{"debian:12": amd64()}, pull: failing("no such host")}
	_, err := images.Ensure(t.Context(), engine, "debian:12", images.Options{Platform: "linux/arm64/v8"})
	if !errors.Is(err, execution.ErrImage) || !strings.Contains(err.Error(), "it is for linux/amd64, and linux/arm64/v8 is wanted") {
		t.Errorf("got %v", err)
	}
}

func TestEnsureGivesUpOnSilenceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &scripted{
			pull: func(ctx context.Context, progress images.Progress) error {
				for range 100 { // slow, but alive: far longer than the stall in all
					time.Sleep(50 * time.Second)
					progress(images.Event{Text: "Downloading"})
				}
				<-ctx.Done()
				return fmt.Errorf("pull: %w", ctx.Err())
			},
		}
		begin, events := time.Now(), 0
		_, err := images.Ensure(t.Context(), engine, "debian:12", images.Options{
			Stall: time.Minute, Progress: func(images.Event) { events++ },
		})
		if took := time.Since(begin); took != 100*50*time.Second+time.Minute {
			t.Errorf("gave up after %v", took)
		}
		if !errors.Is(err, execution.ErrImage) || !errors.Is(err, execution.ErrTimeout) ||
			!strings.Contains(err.Error(), "no progress for 1m0s") {
			t.Errorf("got %v", err)
		}
		if events < 100 {
			t.Errorf("told of %d steps", events)
		}
	})
}

func TestEnsureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	engine := &scripted{
		pull: func(ctx context.Context, _ images.Progress) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		},
	}
	_, err := images.Ensure(ctx, engine, images.Minimal, images.Options{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, execution.ErrImage) {
		t.Errorf("got %v", err)
	}
	if want := []string{"inspect", "pull"}; !slices.Equal(engine.asked, want) {
		t.Errorf("asked %q, want %q", engine.asked, want)
	}
}

func TestEnsureRefusesNonsense(t *testing.T) {
	for _, test := range []struct {
		ref  string
		opts images.Options
	}{
		{"", images.Options{}},
		{"debian 12", images.Options{}},
		{"debian:12\n", images.Options{}},
		{"debian:12", images.Options{Platform: "arm64"}},
		{"debian:12", images.Options{Platform: "linux/"}},
		{"debian:12", images.Options{Platform: "linux/arm/v7/x"}},
		{"debian:12", images.Options{Platform: "linux/a m"}},
		{"debian:12", images.Options{Pull: "sometimes"}},
		{"debian:12", images.Options{Stall: -1}},
	} {
		engine := &scripted{}
		if _, err := images.Ensure(t.Context(), engine, test.ref, test.opts); !errors.Is(err, execution.ErrInvalid) {
			t.Errorf("%q %+v: got %v", test.ref, test.opts, err)
		}
		if len(engine.asked) > 0 {
			t.Errorf("%q %+v: asked %q", test.ref, test.opts, engine.asked)
		}
	}
}

func TestPlatformsMatchUnderTheirOtherNames(t *testing.T) {
	for _, test := range []struct {
		have   images.Image
		wanted string
		match  bool
	}{
		{images.Image{OS: "linux", Architecture: "arm64", Variant: "v8"}, "linux/arm64", true},
		{images.Image{OS: "linux", Architecture: "arm64"}, "linux/aarch64/v8", true},
		{images.Image{OS: "linux", Architecture: "amd64"}, "Linux/x86_64", true},
		{images.Image{OS: "linux", Architecture: "arm", Variant: "v7"}, "linux/arm/v6", false},
		{images.Image{OS: "linux", Architecture: "arm", Variant: "v7"}, "linux/arm", true},
		{images.Image{OS: "windows", Architecture: "amd64"}, "linux/amd64", false},
	} {
		engine := &scripted{present: map[string]images.Image{"x": test.have}}
		_, err := images.Ensure(t.Context(), engine, "x", images.Options{Platform: test.wanted, Pull: execution.PullNever})
		if (err == nil) != test.match {
			t.Errorf("%s for %s: %v", test.have.Platform(), test.wanted, err)
		}
	}
}
