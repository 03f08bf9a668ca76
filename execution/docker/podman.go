package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

// forPodman says a request as Podman's version of the API wants it.
func (m *moby) forPodman(req createRequest) (createRequest, error) {
	if req.Seccomp != "" && req.Seccomp != seccompOff {
		path, err := m.profileFile(req.Seccomp)
		if err != nil {
			return req, err
		}
		req.Seccomp = path
	}
	// It knows no bound on the files of a tmpfs. The memory limit is one, as
	// the kernel counts them there.
	req.Mounts = slices.Clone(req.Mounts)
	for i := range req.Mounts {
		req.Mounts[i].MaxInodes = 0
	}
	return req, nil
}

// profileFile puts a system call filter into a file and returns its path:
// Podman takes the filter's place where Docker takes the filter itself. The
// file is named by its content and stays in the user's cache for next time.
func (m *moby) profileFile(profile string) (string, error) {
	if !m.local() {
		return "", fmt.Errorf("system call filter: %w: Podman reads it from a file of its own machine, which is another; "+
			"use an engine on this machine, or the relaxation %q", execution.ErrUnsupported, execution.RelaxSeccomp)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprintf("pinfold-%d", os.Getuid()))
	}
	return keepFile(filepath.Join(cache, "pinfold"), profile)
}

// keepFile makes sure that dir, which is nobody else's, has a file of that
// content.
func keepFile(dir, content string) (string, error) {
	sum := sha256.Sum256([]byte(content))
	path := filepath.Join(dir, "seccomp-"+hex.EncodeToString(sum[:])+".json")
	if have, err := os.ReadFile(path); err == nil && string(have) == content {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("system call filter: %w", err)
	}
	temporary, err := os.CreateTemp(dir, "seccomp-*")
	if err != nil {
		return "", fmt.Errorf("system call filter: %w", err)
	}
	_, err = temporary.WriteString(content)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("system call filter: %w", err), os.Remove(temporary.Name()))
	}
	return path, nil
}
