//go:build linux

package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/testcontainers/testcontainers-go"
)

// imageRepo names the images of these tests; a tag is the run's ID and more.
const imageRepo = "pinfold-integration"

// A file goes into a build context or a root file system.
type file struct {
	name string
	mode int64 // 0 means 0644
	link string
	data []byte
}

// archive is a tar of files.
func archive(t *testing.T, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		switch {
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// busybox is the static busybox of the host's package busybox-static.
func busybox(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		lack(t, "there is no busybox on this machine; install it: apt-get install busybox-static")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// applets are the names that busybox answers to in our images.
var applets = strings.Fields(`sh ash cat chmod chown cp cut date dd df echo env false find grep head hostname id
	kill ln ls mkdir mkfifo mount mv nc nohup printenv printf ps pwd readlink rm sed seq setsid sha256sum sleep sort
	stat sync tail tar tee test timeout touch tr true uname wc wget which whoami xargs yes httpd`)

// rootfs is a root file system with busybox, two users, and what extra adds.
// The last file of a name counts.
func rootfs(t *testing.T, extra ...file) []byte {
	t.Helper()
	files := []file{
		{name: "bin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: "proc/", mode: 0o755},
		{name: "root/", mode: 0o700},
		{name: "bin/busybox", mode: 0o755, data: busybox(t)},
		{name: "etc/passwd", data: []byte("root:x:0:0:root:/root:/bin/sh\nsomebody:x:1000:1000::/tmp:/bin/sh\n")},
		{name: "etc/group", data: []byte("root:x:0:\nsomebody:x:1000:\n")},
	}
	for _, name := range applets {
		files = append(files, file{name: "bin/" + name, link: "busybox"})
	}
	replaced := map[string]bool{}
	for _, f := range extra {
		replaced[f.name] = true
	}
	files = slices.DeleteFunc(files, func(f file) bool { return replaced[f.name] })
	return archive(t, append(files, extra...)...)
}

// buildImage builds an image with testcontainers and removes it, and what
// Pinfold derived from it, at the end of the test. The context holds the
// Dockerfile and the files.
func buildImage(t *testing.T, dockerfile string, files ...file) string {
	t.Helper()
	need(t)
	tag := buildImageOnce(t, dockerfile, files...)
	t.Cleanup(func() { removeImage(t, tag) })
	return tag
}

// buildImageOnce leaves the image for the sweep to remove.
func buildImageOnce(t *testing.T, dockerfile string, files ...file) string {
	t.Helper()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(t, provider)
	files = append([]file{{name: "Dockerfile", data: []byte(dockerfile)}}, files...)
	var log bytes.Buffer
	ref, err := provider.BuildImage(t.Context(), &testcontainers.ContainerRequest{
		FromDockerfile: testcontainers.FromDockerfile{
			ContextArchive: bytes.NewReader(archive(t, files...)),
			Repo:           imageRepo,
			Tag:            world.id + "-" + uniqueName(),
			BuildLogWriter: &log,
			BuildOptionsModifier: func(opts *build.ImageBuildOptions) {
				opts.ForceRemove = true
				opts.NetworkMode = "none"
			},
		},
	})
	if err != nil {
		t.Fatalf("building the image: %v\n%s", err, log.Bytes())
	}
	return ref
}

// plainImage is the busybox image that most tests use. It is built once.
func plainImage(t *testing.T) string {
	t.Helper()
	need(t)
	return onceImage(t, &world.plain, func() string {
		return buildImageOnce(t, "FROM scratch\nADD rootfs.tar /\n", file{name: "rootfs.tar", data: rootfs(t)})
	})
}

// A lazyImage is built by the first test that needs it.
type lazyImage struct {
	mu  sync.Mutex
	ref string
}

func onceImage(t *testing.T, lazy *lazyImage, build func() string) string {
	t.Helper()
	lazy.mu.Lock()
	defer lazy.mu.Unlock()
	if lazy.ref == "" {
		lazy.ref = build()
	}
	return lazy.ref
}

// importImage makes an image of a root file system on any engine.
func importImage(t *testing.T, engine *client.Client, ref, platform string, root []byte) {
	t.Helper()
	answer, err := engine.ImageImport(t.Context(),
		image.ImportSource{Source: bytes.NewReader(root), SourceName: "-"}, ref,
		image.ImportOptions{Platform: platform})
	if err != nil {
		t.Fatalf("importing an image: %v", err)
	}
	defer closeNow(t, answer)
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatal(err)
	}
}

// removeImage removes an image and what Pinfold derived from it.
func removeImage(t *testing.T, ref string) {
	t.Helper()
	ctx, cancel := cleanupContext()
	defer cancel()
	if err := world.removeImageTree(ctx, ref); err != nil {
		t.Errorf("removing the image %s: %v", ref, err)
	}
}

func (s *suite) removeImageTree(ctx context.Context, ref string) error {
	base, err := s.engine.ImageInspect(ctx, ref)
	if err != nil {
		return err
	}
	s.removedMu.Lock()
	s.removed[base.ID] = true
	s.removedMu.Unlock()
	derived, err := derivedImages(ctx, s.engine, base.ID)
	if err != nil {
		return err
	}
	for _, id := range append(derived, ref) {
		if _, err := s.engine.ImageRemove(ctx, id, image.RemoveOptions{Force: true}); err != nil {
			return err
		}
	}
	return nil
}
