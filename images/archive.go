package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// config is the image's configuration: what the last lines of each Dockerfile
// say. Its digest is the image's ID, so it holds nothing that changes from one
// build to the next. diffID is the digest of the unpacked layer.
func (r Recipe) config(arch, diffID string) ([]byte, error) {
	created := recipeTime()
	data, err := json.Marshal(imagespec.Image{
		Created:  &created,
		Platform: imagespec.Platform{OS: "linux", Architecture: arch},
		Config: imagespec.ImageConfig{
			User: "1000:1000",
			Env: []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"LANG=C.UTF-8",
			},
			Cmd:        []string{r.shell},
			WorkingDir: "/workspace",
			Labels:     r.labels(),
		},
		RootFS:  imagespec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(diffID)}},
		History: []imagespec.History{{Created: &created, CreatedBy: "images/rootfs.sh " + r.Name}},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", r.Ref, err)
	}
	return data, nil
}

// writeLayer compresses a root file system into layer and returns the digest
// of what it read.
func writeLayer(layer io.Writer, rootfs io.Reader) (diffID string, err error) {
	// The fastest level: the archive is read more often than it is sent.
	compressed, err := gzip.NewWriterLevel(layer, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err = io.Copy(io.MultiWriter(compressed, hash), bufio.NewReaderSize(rootfs, 1<<20)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), compressed.Close()
}

// writeArchive writes what "docker load" reads: a manifest, the configuration,
// and one layer.
func (r Recipe) writeArchive(w io.Writer, arch, diffID string, layer *os.File) error {
	config, err := r.config(arch, diffID)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	const layerName = "layer.tar.gz"
	manifest, err := json.Marshal([]struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{{configName, []string{r.Ref}, []string{layerName}}})
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", r.Ref, err)
	}

	archive := tar.NewWriter(w)
	add := func(name string, size int64, content io.Reader) error {
		if err := archive.WriteHeader(&tar.Header{
			Name: name, Mode: 0o644, Size: size, ModTime: recipeTime(), Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		_, err := io.Copy(archive, content)
		return err
	}
	if err := add("manifest.json", int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return err
	}
	if err := add(configName, int64(len(config)), bytes.NewReader(config)); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = add(layerName, size, layer)
	}
	if err != nil {
		return err
	}
	return archive.Close()
}
