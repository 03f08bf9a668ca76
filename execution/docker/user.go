package docker

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// An identity is a user of a sandbox, resolved.
type identity struct {
	UID, GID int
}

func (i identity) String() string { return fmt.Sprintf("%d:%d", i.UID, i.GID) }

// maxID is the largest id that the kernel's and every engine's tools take.
const maxID = 1<<31 - 2

// parseIdentity reads "uid:gid"; ok is false when a part is a name or left
// out, which only the image's files can resolve.
func parseIdentity(text string) (who identity, ok bool) {
	user, group, found := strings.Cut(text, ":")
	uid, uidOK := parseID(user)
	gid, gidOK := parseID(group)
	return identity{UID: uid, GID: gid}, found && uidOK && gidOK
}

func parseID(text string) (int, bool) {
	id, err := strconv.ParseUint(text, 10, 31)
	return int(id), err == nil && id <= maxID
}

// accounts are an image's /etc/passwd and /etc/group; either may be missing.
type accounts struct {
	passwd, group []byte
}

// resolve finds the ids of "name", "uid", "name:group" or "uid:gid", where
// each part may be a name or a number. A number need not be in the files. A
// user without a group gets that of its entry, or its own number: never
// root's, as engines would have it.
func (a accounts) resolve(text string) (identity, error) {
	user, group, withGroup := strings.Cut(text, ":")
	who := identity{GID: -1}
	if uid, ok := parseID(user); ok {
		who.UID, who.GID = uid, uid
		if entry, found := lookup(a.passwd, func(f []string) bool { return f[2] == user }); found {
			who.GID = entry.GID
		}
	} else {
		entry, found := lookup(a.passwd, func(f []string) bool { return f[0] == user })
		if !found || user == "" {
			return who, fmt.Errorf("user %q: %w in the image; it may be given as a number", user, execution.ErrUserNotFound)
		}
		who = entry
	}
	if !withGroup {
		return who, nil
	}
	if gid, ok := parseID(group); ok {
		who.GID = gid
		return who, nil
	}
	for line := range strings.Lines(string(a.group)) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if gid, ok := parseID(field(fields, 2)); ok && group != "" && fields[0] == group {
			who.GID = gid
			return who, nil
		}
	}
	return who, fmt.Errorf("group %q: %w in the image; it may be given as a number", group, execution.ErrUserNotFound)
}

// lookup is the first entry of passwd that matches and has valid ids.
func lookup(passwd []byte, match func(fields []string) bool) (identity, bool) {
	for line := range strings.Lines(string(passwd)) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		uid, uidOK := parseID(field(fields, 2))
		gid, gidOK := parseID(field(fields, 3))
		if uidOK && gidOK && match(fields) {
			return identity{UID: uid, GID: gid}, true
		}
	}
	return identity{}, false
}

// home is the home directory of a user, when the image names a usable one.
func (a accounts) home(uid int) (string, bool) {
	for line := range strings.Lines(string(a.passwd)) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if field(fields, 2) == strconv.Itoa(uid) {
			dir := field(fields, 5)
			return dir, plainPath.MatchString(dir) && path.Clean(dir) != "/" && !strings.HasPrefix(dir, "/nonexistent")
		}
	}
	return "", false
}

// plainPath is what may go into an image's label without being quoted: the
// file it comes from is not to be trusted.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/-]{1,200}$`)

func field(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return ""
}
