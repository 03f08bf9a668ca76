package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// The references of the images that come with Pinfold. The number is the
// version of their content: it rises when a program or a setting changes, so
// that an old image of an engine is never taken for a new one.
//
// They lie below the owner of this module's repository, since a short name
// would be looked for in a public registry where anybody might take it.
const (
	Sandbox = "ghcr.io/pinfold-dev/sandbox:1"
	Minimal = "ghcr.io/pinfold-dev/minimal:1"
)

// A Recipe is an image that this package can make.
type Recipe struct {
	Name        string // "sandbox"
	Ref         string // what it is called on an engine
	Description string // one line

	shell string // what runs where no command is given
}

// Known lists the images that this package can make, the default one first.
func Known() []Recipe {
	return []Recipe{
		{"sandbox", Sandbox, "Debian 12 with bash, git, ripgrep, curl, python3, gcc, make, jq and the like", "bash"},
		{"minimal", Minimal, "a single busybox; 2 MB", "sh"},
	}
}

// Lookup finds one of ours by its name or its reference.
func Lookup(nameOrRef string) (Recipe, bool) {
	for _, r := range Known() {
		if nameOrRef == r.Name || nameOrRef == r.Ref {
			return r, true
		}
	}
	return Recipe{}, false
}

// files is what the images are made from.
//
//go:embed rootfs.sh sandbox minimal
var files embed.FS

// version is the part of the reference after the colon.
func (r Recipe) version() string {
	_, version, _ := strings.Cut(r.Ref, ":")
	return version
}

// labels are on every image that is made here, however it is made.
func (r Recipe) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "pinfold-" + r.Name,
		"org.opencontainers.image.version":     r.version(),
		"org.opencontainers.image.description": r.Description,
		"org.opencontainers.image.source":      "https://github.com/pinfold-dev/pinfold",
	}
}

// recipeTime stands for every time that would make two builds differ. It is
// the SOURCE_DATE_EPOCH of rootfs.sh.
func recipeTime() time.Time { return time.Unix(1748736000, 0).UTC() }

// buildContext is the recipe's folder as a tar archive.
func (r Recipe) buildContext() ([]byte, error) {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	err := r.walk(func(name string, data []byte) error {
		err := archive.WriteHeader(&tar.Header{
			Name: path.Base(name), Mode: 0o644, Size: int64(len(data)), ModTime: recipeTime(), Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = archive.Write(data)
		}
		return err
	}, r.Name)
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("build context of %s: %w", r.Ref, err)
	}
	return buf.Bytes(), nil
}

// digest changes with everything that the recipe's content depends on, but
// for the packages themselves.
func (r Recipe) digest() (string, error) {
	hash := sha256.New()
	err := r.walk(func(name string, data []byte) error {
		_, err := fmt.Fprintf(hash, "%s %d\n%s", name, len(data), data)
		return err
	}, "rootfs.sh", r.Name)
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", r.Ref, err)
	}
	config, err := r.config("amd64", "")
	if err != nil {
		return "", err
	}
	hash.Write(config)
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// walk calls do for each embedded file below roots, in order of their names.
func (r Recipe) walk(do func(name string, data []byte) error, roots ...string) error {
	for _, root := range roots {
		err := fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			file, err := files.Open(name)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(file)
			if err != nil {
				return err
			}
			return do(name, data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
