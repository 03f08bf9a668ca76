package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// A guard knows what of the host must never get into a sandbox.
type guard struct {
	sockets []string // of engines: whoever reaches one owns the host
	data    []string // folders in which engines keep the files of all containers
	local   bool     // whether the engine's files are this host's

	mountinfo string // the file that tells what is mounted on this host
}

// newGuard protects the engine in use and every other that may be here.
func newGuard(where string, local bool, rootDir string, env environment) guard {
	g := guard{local: local, mountinfo: "/proc/self/mountinfo", sockets: []string{
		"/var/run/docker.sock", "/run/docker.sock",
		"/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock",
		"/run/docker/containerd/containerd.sock",
		"/run/podman/podman.sock", "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock",
	}}
	if path, ok := strings.CutPrefix(where, "unix://"); ok {
		g.sockets = append(g.sockets, path)
	}
	for _, place := range env.wellKnown() {
		if path, ok := strings.CutPrefix(place.Host, "unix://"); ok {
			g.sockets = append(g.sockets, path)
		}
	}
	for _, dir := range []string{rootDir, "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"} {
		if dir != "" {
			g.data = append(g.data, dir)
		}
	}
	return g
}

// check refuses what no engine is to be asked for, naming the field. It looks
// at this host's files and changes nothing.
func (g guard) check(spec execution.Spec) error {
	if spec.Name != "" && !validName.MatchString(spec.Name) {
		return fmt.Errorf("name %q: %w: want letters, digits, dots, dashes and underscores, two at least, a letter or digit first",
			spec.Name, execution.ErrInvalid)
	}
	if within(path.Clean(spec.Dir), "/proc") {
		// A runtime's leaked file descriptors lie there (CVE-2024-21626).
		return fmt.Errorf("directory %q: %w: a working directory under /proc is refused", spec.Dir, execution.ErrInvalid)
	}
	if err := checkNetwork(spec.Network); err != nil {
		return err
	}
	targets := map[string]bool{}
	for _, m := range spec.Mounts {
		target := path.Clean(m.Target)
		if targets[target] {
			return fmt.Errorf("mount target %q: %w: it is there twice", target, execution.ErrInvalid)
		}
		targets[target] = true
		if err := checkTarget(m, target); err != nil {
			return err
		}
	}
	_, err := g.sources(spec.Mounts)
	return err
}

// sources are the mounts with the sources of binds as they are without links:
// what is looked at here is what is to be mounted, wherever its name leads by
// then. Somebody may be able to change what lies at a path, such as a sandbox
// that has the folder above it; so it is called just before the engine is asked,
// too.
func (g guard) sources(mounts []execution.Mount) ([]execution.Mount, error) {
	mounts = slices.Clone(mounts)
	for i, m := range mounts {
		if m.Type != execution.MountBind {
			continue
		}
		var err error
		if mounts[i].Source, err = g.checkSource(m.Source); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// validName is what engines take as the name of a container.
var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}$`)

// checkNetwork refuses the networks that are somebody else's.
func checkNetwork(name string) error {
	if name == "host" || strings.ContainsAny(name, ":/") {
		return fmt.Errorf("network %q: %w: the network of the host, of another container or of a namespace is refused; "+
			"use \"none\" or the name of a network of the engine", name, execution.ErrInvalid)
	}
	return nil
}

// checkTarget refuses to cover what the guest or the kernel's own file systems
// need.
func checkTarget(m execution.Mount, target string) error {
	if within(target, "/dev/shm") && m.Type == execution.MountTmpfs {
		return nil
	}
	for _, taken := range []string{"/proc", "/sys", "/dev", guestDir} {
		if within(target, taken) || within(taken, target) {
			return fmt.Errorf("mount target %q: %w: %s is not to be mounted over", target, execution.ErrInvalid, taken)
		}
	}
	return nil
}

// checkSource refuses a folder or file of the host by its name, by what it
// points to, and by what it is the same as. It returns what it points to.
func (g guard) checkSource(source string) (string, error) {
	if !filepath.IsAbs(source) {
		return "", fmt.Errorf("mount source %q: %w: want an absolute path", source, execution.ErrInvalid)
	}
	if !g.local {
		return "", fmt.Errorf("mount source %q: %w: the engine is on another machine and has other files; write files through the handle instead",
			source, execution.ErrUnsupported)
	}
	if err := g.refuse(source, filepath.Clean(source)); err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("mount source %q: %w", source, execution.ErrNotFound)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("mount source %q: %w", source, execution.ErrPermission)
	case err != nil:
		return "", fmt.Errorf("mount source %q: %w: %w", source, execution.ErrInvalid, err)
	}
	if err := g.refuse(source, resolved); err != nil {
		return "", err
	}
	return resolved, g.checkMounted(source, resolved)
}

// refuse is checkSource for one name of the source.
func (g guard) refuse(source, name string) error {
	slashed := filepath.ToSlash(name)
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if within(slashed, dir) && !within(slashed, "/dev/shm") {
			return fmt.Errorf("mount source %q: %w: %s of the host is refused", source, execution.ErrInvalid, dir)
		}
	}
	if slashed == filepath.ToSlash(filepath.VolumeName(name))+"/" {
		return fmt.Errorf("mount source %q: %w: the whole file system of the host is refused", source, execution.ErrInvalid)
	}
	for _, socket := range g.sockets {
		if slices.ContainsFunc(spellings(socket), func(spelling string) bool { return g.reaches(name, spelling) }) {
			return fmt.Errorf("mount source %q: %w: it would hand the engine's socket %s to the sandbox, and with it the host",
				source, execution.ErrInvalid, socket)
		}
	}
	for _, dir := range g.data {
		for _, spelling := range spellings(dir) {
			if within(slashed, spelling) || g.reaches(name, spelling) {
				return fmt.Errorf("mount source %q: %w: %s holds the files of the engine and of its containers",
					source, execution.ErrInvalid, dir)
			}
		}
	}
	return nil
}

// reaches reports whether mounting name makes thing visible: name is thing or
// a folder above it, by its path or by being the very same folder under
// another name (a bind mount on the host).
func (g guard) reaches(name, thing string) bool {
	info, err := os.Stat(name)
	if !matters(thing) {
		return false
	}
	for above := thing; ; above = filepath.Dir(above) {
		if above == name {
			return true
		}
		if err == nil {
			if other, statErr := os.Stat(above); statErr == nil && os.SameFile(info, other) {
				return true
			}
		}
		if above == filepath.Dir(above) {
			return false
		}
	}
}

// matters reports whether a socket or folder has to be looked for. What is not
// there only does in the folders that belong to the system: an engine that is
// started later makes its socket there.
func matters(thing string) bool {
	return exists(thing) || within(thing, "/run") || within(thing, "/var")
}

// spellings are a path as it is given and as it is without links. Of one that
// is not there, the links of the folder that is are resolved.
func spellings(name string) []string {
	name = filepath.Clean(name)
	all := []string{name}
	rest := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			if resolved = filepath.Join(resolved, rest); resolved != name {
				all = append(all, resolved)
			}
			return all
		}
		if dir == filepath.Dir(dir) {
			return all
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// within reports whether name is dir or below it; both are clean.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
