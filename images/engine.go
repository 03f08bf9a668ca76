package images

import (
	"context"
	"io"
	"time"
)

// An Engine is what this package needs of a container engine. It speaks in
// plain types so that the engine's client library stays in the backend that
// implements it.
//
// A reference is a name with a tag or a digest, or an image ID; a platform is
// "os/arch" or "os/arch/variant", such as "linux/arm64/v8", and "" is the
// engine's own. This package puts a deadline on every call through ctx; an
// implementation returns as soon as ctx ends, and its error then wraps ctx's.
//
// An error of an engine that does not answer matches
// [execution.ErrUnavailable]; this package then tries nothing else. All other
// errors are one line that tells the engine's own reason.
//
// All methods may be called from many goroutines at once.
type Engine interface {
	// ImageInspect describes the image that ref names. It asks the engine
	// only, never a registry. An engine without such an image is an error
	// that matches [execution.ErrNotFound].
	ImageInspect(ctx context.Context, ref string) (Image, error)

	// ImagePull fetches ref from its registry, with the credentials that the
	// engine's command would use. It returns once the image is usable.
	// progress, which is never nil, gets each step as the engine tells it. An
	// error inside the engine's progress stream is an error of the call.
	ImagePull(ctx context.Context, ref, platform string, progress Progress) error

	// ImageBuild builds the Dockerfile at the top of buildContext, an
	// uncompressed tar stream, with the engine's classic builder, and names
	// the result opts.Tag. Intermediate containers are removed, also when the
	// build fails. Each line of the build's output is one event. An error
	// inside the stream is an error of the call.
	ImageBuild(ctx context.Context, buildContext io.Reader, opts ImageBuildOptions, progress Progress) error

	// ImageLoad adds the images of an archive in the format of "docker save"
	// and names them as it says. It has read the archive to its end when it
	// returns nil. An error inside the engine's answer is an error of the
	// call.
	ImageLoad(ctx context.Context, archive io.Reader, progress Progress) error
}

// ImageBuildOptions says how to build.
type ImageBuildOptions struct {
	Tag      string            // name of the result
	Platform string            // "" is the engine's own
	Labels   map[string]string // on the result, besides those of the Dockerfile
	NoCache  bool              // build every step anew
}

// An Image describes an image that the engine has.
type Image struct {
	ID           string   // "sha256:…" of its configuration
	Tags         []string // all names it has on this engine; none is possible
	OS           string   // "linux"
	Architecture string   // as Go names it: "amd64", "arm64"
	Variant      string   // "v8"; often ""
	Created      time.Time
	Size         int64 // of its layers, unpacked, in bytes

	// What the image sets for its containers.
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	Volumes    []string // absolute paths, in order
	Labels     map[string]string
}

// Platform is the image's platform as [Engine] writes it.
func (i Image) Platform() string {
	platform := i.OS + "/" + i.Architecture
	if i.Variant != "" {
		platform += "/" + i.Variant
	}
	return platform
}

// A Progress is told how far a pull, a build or a load has come. It is called
// from one goroutine at a time and should return quickly.
type Progress func(Event)

// An Event is one step of progress. Text comes from the engine, a registry or
// a build, and is to be cleaned before it goes to a terminal.
type Event struct {
	Step string // what is being done: "pull debian:12", "build ghcr.io/…"
	ID   string // the layer it is about; "" where it is about none
	Text string // one line without its end: "Downloading", "Step 2/5 : …"

	// Current and Total are bytes; Total is 0 while it is not known. Both
	// are 0 for a step that is not counted.
	Current, Total int64
}
