package docker

import (
	"fmt"

	"github.com/pinfold-dev/pinfold/execution"
)

// An owner is whose a mount's source is on the host.
type owner struct {
	identity
	othersWrite bool // anybody may write there
	known       bool // false where the system has no such thing
}

// chooseUser is the user of a sandbox whose spec names none.
//
// With a writable bind mount it is the owner of its source, so that what a
// command leaves there belongs to the caller and a command can write there at
// all. It is never root for that reason alone: root inside is the one user
// that has broken out of containers without any capability. Under a rootless
// engine it may be, since its root is the caller.
func chooseUser(spec execution.Spec, info engineInfo, caller int, ownerOf func(string) (owner, error)) (string, error) {
	fallback := profileControls(spec).User
	if spec.Profile == execution.ProfileDev {
		return fallback, nil // Root is what the profile is for.
	}
	chosen, from := "", ""
	for _, m := range spec.Mounts {
		if m.Type != execution.MountBind || m.ReadOnly {
			continue
		}
		who, err := ownerOf(m.Source)
		switch {
		case err != nil:
			return "", fmt.Errorf("mount source %q: %w", m.Source, err)
		case !who.known || who.othersWrite:
			continue
		case info.UserRemap:
			return "", fmt.Errorf("mount source %q: %w: the engine maps users (userns-remap), and none inside could write there; "+
				"mount it read-only, or name a user that can", m.Source, execution.ErrUnsupported)
		}
		user := who.String()
		switch {
		case info.Rootless && who.UID == caller:
			user = "0:0"
		case info.Rootless:
			return "", fmt.Errorf("mount source %q: %w: the engine is rootless and the folder belongs to user %d, not to you; "+
				"mount it read-only, or name a user that can write there", m.Source, execution.ErrInvalid, who.UID)
		case who.UID == 0:
			return "", fmt.Errorf("mount source %q: %w: it belongs to root, and the sandbox's user %s could not write there; "+
				"mount it read-only, give it to that user (chown -R %s), or name the user 0:0, which makes the sandbox weaker",
				m.Source, execution.ErrInvalid, fallback, fallback)
		}
		if chosen != "" && chosen != user {
			return "", fmt.Errorf("mount sources %q and %q: %w: they belong to different users (%s and %s); name the user to use",
				from, m.Source, execution.ErrInvalid, chosen, user)
		}
		chosen, from = user, m.Source
	}
	if chosen == "" {
		return fallback, nil
	}
	return chosen, nil
}
