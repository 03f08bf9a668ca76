package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// scriptGrace is how long rootfs.sh may take to remove what it made when it is
// told to end; it has a whole file tree to remove.
const scriptGrace = time.Minute

// buildOffline makes an image from Debian packages, or takes the one that it
// made before, and loads it into the engine.
func buildOffline(ctx context.Context, engine Engine, recipe Recipe, opts BuildOptions) (Image, error) {
	if runtime.GOOS != "linux" {
		return Image{}, fmt.Errorf("%w: images are made from Debian packages on Debian and Ubuntu only; make it there, "+
			"then docker save and docker load", execution.ErrUnsupported)
	}
	wanted, err := parsePlatform(orDefault(opts.Platform, hostPlatform()))
	if err != nil {
		return Image{}, err
	}
	dir, err := cacheDir(opts.CacheDir)
	if err != nil {
		return Image{}, err
	}
	sum, err := recipe.digest()
	if err != nil {
		return Image{}, err
	}
	family := fmt.Sprintf("%s-%s-", recipe.Name, wanted.arch)
	archive := filepath.Join(dir, family+sum[:12]+".tar")
	if _, err := os.Stat(archive); err != nil || opts.NoCache {
		if err := recipe.makeArchive(ctx, archive, wanted, opts); err != nil {
			return Image{}, err
		}
		removeOthers(dir, family, archive)
	}
	if err := load(ctx, engine, recipe, archive, opts); err != nil {
		return Image{}, fmt.Errorf("load %s: %w", archive, err)
	}
	return inspect(ctx, engine, recipe.Ref, opts.Platform)
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// cacheDir makes the folder for finished archives.
func cacheDir(dir string) (string, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place for finished images: %w; name a cache directory", err)
		}
		dir = filepath.Join(user, "pinfold", "images")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("no place for finished images: %w", err)
	}
	return dir, nil
}

// removeOthers removes the archives of earlier versions of a recipe. One that
// stays costs disk space and nothing else.
func removeOthers(dir, family, keep string) {
	old, _ := filepath.Glob(filepath.Join(dir, family+"*.tar"))
	for _, name := range old {
		if name != keep {
			_ = os.Remove(name)
		}
	}
}

// makeArchive writes the archive whole or not at all.
func (r Recipe) makeArchive(ctx context.Context, archive string, wanted platform, opts BuildOptions) (err error) {
	layer, err := os.CreateTemp(filepath.Dir(archive), ".layer-*")
	if err != nil {
		return err
	}
	defer discard(layer)
	var diffID string
	err = watched(ctx, either(opts.Stall, offlineStall), opts.Progress, func(ctx context.Context, progress Progress) error {
		progress(Event{Step: "make " + r.Ref, Text: "from Debian packages; this takes about a minute"})
		diffID, err = r.makeLayer(ctx, layer, wanted, progress)
		return err
	})
	if err != nil {
		return err
	}

	out, err := os.CreateTemp(filepath.Dir(archive), ".archive-*")
	if err != nil {
		return err
	}
	defer discard(out)
	if err := r.writeArchive(out, wanted.arch, diffID, layer); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return os.Rename(out.Name(), archive)
}

// discard closes and removes a temporary file that may have been renamed.
func discard(file *os.File) {
	_ = file.Close()
	_ = os.Remove(file.Name())
}

// makeLayer runs rootfs.sh and compresses what it writes.
func (r Recipe) makeLayer(ctx context.Context, layer io.Writer, wanted platform, progress Progress) (diffID string, err error) {
	dir, err := os.MkdirTemp("", "pinfold-image-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(dir); err != nil {
		return "", err
	}

	lines := &lineWriter{step: "make " + r.Ref, progress: progress}
	read, write := io.Pipe()
	script := exec.CommandContext(ctx, "bash", filepath.Join(dir, "rootfs.sh"), r.Name, wanted.debianArch())
	script.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", recipeTime().Unix()))
	script.Stdout, script.Stderr = write, lines
	script.Cancel = func() error { return terminate(script.Process) }
	script.WaitDelay = scriptGrace
	ownGroup(script)

	var ended sync.WaitGroup
	ended.Go(func() {
		err := script.Run()
		if err != nil {
			err = fmt.Errorf("rootfs.sh: %w: %s", err, lines.last())
		}
		_ = write.CloseWithError(err)
	})
	diffID, err = writeLayer(layer, read)
	_ = read.CloseWithError(err) // when the disk is full, the script must not wait for a reader
	ended.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return diffID, err
}

// unpack writes the embedded files into dir.
func unpack(dir string) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755) //nolint:gosec // read by apt's unprivileged user
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644) //nolint:gosec // the same
	})
}

// load hands a finished archive to the engine.
func load(ctx context.Context, engine Engine, recipe Recipe, archive string, opts BuildOptions) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return watched(ctx, either(opts.Stall, loadStall), opts.Progress, func(ctx context.Context, progress Progress) error {
		step := Event{
			Step: "load " + recipe.Ref, Total: info.Size(),
			Text: fmt.Sprintf("%s of %s", archive, info.ModTime().Format(time.DateOnly)),
		}
		progress(step)
		return engine.ImageLoad(ctx, &counted{Reader: file, event: step, progress: progress}, progress)
	})
}

// lineWriter turns a script's messages into progress and keeps the last ones.
type lineWriter struct {
	step     string
	progress Progress

	mu      sync.Mutex
	partial []byte
	kept    []string
}

const (
	keptLines = 5
	lineLimit = 1 << 10
)

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range bytes.SplitAfter(p, []byte("\n")) {
		if room := lineLimit - len(w.partial); room > 0 {
			w.partial = append(w.partial, line[:min(len(line), room)]...)
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		text := strings.TrimSpace(string(w.partial))
		w.partial = w.partial[:0]
		if text == "" {
			continue
		}
		if !strings.HasPrefix(text, "I:") { // apt's mark for "all is well"
			w.kept = append(w.kept, text)
			w.kept = w.kept[max(0, len(w.kept)-keptLines):]
		}
		w.progress(Event{Step: w.step, Text: text})
	}
	return len(p), nil
}

func (w *lineWriter) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.kept, "; ")
}
