package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/pinfold-dev/pinfold/execution"
)

// errRemoving says that a container is being removed by somebody else.
var errRemoving = errors.New("removal is already in progress")

// wordings are the refusals that engines tell apart only by their text; every
// other error goes by its type. Each row is tried in order, and all of its
// parts must be in the lower-cased text. Where a wording is not known, the
// error is still an error: only its kind is less exact.
func wordings() []wording {
	return []wording{
		// Docker 19.03 to 28, at create or start; Podman; containerd's shim.
		{execution.ErrUnsupported, "runtime: the engine has no such runtime", []string{"unknown runtime"}},
		{execution.ErrUnsupported, "runtime: the engine has no such runtime", []string{"runtime", "not found", "default oci"}},
		{execution.ErrUnsupported, "runtime: the engine has no such runtime", []string{"invalid runtime name"}},
		{execution.ErrUnsupported, "runtime: the engine cannot start it", []string{"fork/exec", "runtime"}},
		// overlay2 on anything but xfs with pquota; vfs; zfs and btrfs have their own.
		{execution.ErrUnsupported, "storage limit", []string{"--storage-opt"}},
		{execution.ErrUnsupported, "storage limit", []string{"storage-opt", "supported"}},
		{execution.ErrUnsupported, "storage limit", []string{"storage option", "supported"}},
		// Limits that the engine's host lacks and the engine refuses.
		{execution.ErrUnsupported, "cpu limit", []string{"nanocpus can not be set"}},
		{execution.ErrUnsupported, "seccomp filter", []string{"seccomp", "not supported"}},
		{execution.ErrUnsupported, "seccomp filter", []string{"seccomp is not enabled"}},
		{execution.ErrUnsupported, "read-only mount: what is mounted below it cannot be made read-only", []string{"recursively read-only"}},
		// runc, resolving Spec.User. Ours are numbers, but images vary.
		{execution.ErrUserNotFound, "user", []string{"unable to find user"}},
		{execution.ErrUserNotFound, "group", []string{"unable to find group"}},
		// A mount whose source went away between our look and the engine's.
		{execution.ErrNotFound, "mount source", []string{"bind source path does not exist"}},
		{execution.ErrInvalid, "mount source: the engine's host does not share it", []string{"mounts denied"}},
		{execution.ErrInvalid, "cpu limit", []string{"range of cpus"}},
		// 20.10 answers 404 for the network at create, 500 at start.
		{execution.ErrNotFound, "network", []string{"network", "not found"}},
		{execution.ErrNoSpace, "the engine's disk is full", []string{"no space left on device"}},
		{execution.ErrImage, "image of another architecture", []string{"exec format error"}},
		{execution.ErrImage, "image of another platform", []string{"does not match the specified platform"}},
		{execution.ErrImage, "image of another platform", []string{"does not provide the specified platform"}},
		{errRemoving, "", []string{"removal of container", "already in progress"}},
	}
}

type wording struct {
	kind  error
	about string
	parts []string
}

// mapError makes an engine's error one of ours: by its type, and for the few
// in wordings by its text. The engine's own words are kept.
func mapError(call string, err error) error {
	var own *execution.Error
	if errors.As(err, &own) || isOurs(err) {
		return err
	}
	text := oneLine(err.Error())
	lower := strings.ToLower(text)
	for _, w := range wordings() {
		if containsAll(lower, w.parts) {
			if w.about == "" {
				return fmt.Errorf("%w: %s", w.kind, text)
			}
			return fmt.Errorf("%s: %w; the engine says: %s", w.about, w.kind, text)
		}
	}
	for _, k := range errdefsKinds() {
		if errors.Is(err, k.theirs) {
			return fmt.Errorf("%w: engine's %s: %s", k.ours, call, text)
		}
	}
	if unreachable(err) {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: %w (engine's %s)", execution.ErrUnavailable, execution.ErrPermission, call)
		}
		return fmt.Errorf("%w: engine's %s: %s", execution.ErrUnavailable, call, text)
	}
	return fmt.Errorf("engine's %s: %s", call, text)
}

// markRemoving tells the conflict of two removals from other conflicts.
func markRemoving(err error) error {
	if errors.Is(err, errRemoving) || !errors.Is(err, execution.ErrConflict) {
		return err
	}
	return fmt.Errorf("%w: %w", errRemoving, err)
}

// isOurs reports whether err is of a kind already.
func isOurs(err error) bool {
	for _, kind := range []error{
		execution.ErrUnavailable, execution.ErrTimeout, execution.ErrNotFound, execution.ErrConflict,
		execution.ErrInvalid, execution.ErrUnsupported, execution.ErrImage, execution.ErrLost,
		context.Canceled, context.DeadlineExceeded, errRemoving,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// oneLine makes an engine's text fit into an error.
func oneLine(text string) string {
	const limit = 1000
	text = strings.Join(strings.Fields(text), " ")
	text = strings.TrimPrefix(text, "Error response from daemon: ")
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
