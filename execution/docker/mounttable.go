package docker

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// A mountTable is what is mounted on this host. A bind mount brings along what is
// mounted below its source: a folder that harmlessly holds a chroot, say, may have
// the host's /run or /proc in it.
type mountTable []mounted

// A mounted is a line of it.
type mounted struct {
	device string // of the file system, as "major:minor"
	root   string // what of the file system is mounted
	point  string // where
	kind   string // of file system
}

// readMountTable reads a table of Linux's. On other systems there is none, and
// nothing is known.
func readMountTable(name string) (table mountTable) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		fields := strings.Fields(line)
		end := slices.Index(fields, "-")
		if end < 5 || end+1 >= len(fields) {
			continue
		}
		table = append(table, mounted{fields[2], unescape(fields[3]), unescape(fields[4]), fields[end+1]})
	}
	return table
}

// unescape undoes the octal escapes of the table.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// at is the part of a file system that name, which has no links, stands for.
func (t mountTable) at(name string) (part mounted, ok bool) {
	for _, m := range t {
		if within(name, m.point) && (!ok || len(m.point) >= len(part.point)) {
			part, ok = m, true
		}
	}
	part.root = path.Join(part.root, strings.TrimPrefix(name, part.point))
	part.point = name
	return part, ok
}

// below is all that a bind mount of name shows: its own part of a file system,
// and what is mounted below it.
func (t mountTable) below(name string) (parts []mounted) {
	if part, ok := t.at(name); ok {
		parts = append(parts, part)
	}
	for _, m := range t {
		if m.point != name && within(m.point, name) {
			parts = append(parts, m)
		}
	}
	return parts
}

// kernelKinds are file systems in which the kernel shows the host itself.
func kernelKinds() []string {
	return []string{
		"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf",
		"configfs", "pstore", "efivarfs", "binfmt_misc",
	}
}

// checkMounted refuses a source that shows what must not be seen by way of a
// mount on the host. resolved is the source without links.
func (g guard) checkMounted(source, resolved string) error {
	table := readMountTable(g.mountinfo)
	for _, part := range table.below(filepath.ToSlash(resolved)) {
		if slices.Contains(kernelKinds(), part.kind) {
			return fmt.Errorf("mount source %q: %w: the host's %s is mounted at %s", source, execution.ErrInvalid, part.kind, part.point)
		}
		for _, socket := range g.sockets {
			if table.shows(part, socket) {
				return fmt.Errorf("mount source %q: %w: by what is mounted at %s it would hand the engine's socket %s to the sandbox, and with it the host",
					source, execution.ErrInvalid, part.point, socket)
			}
		}
		for _, dir := range g.data {
			if table.shows(part, dir) {
				return fmt.Errorf("mount source %q: %w: by what is mounted at %s it holds the files of the engine and of its containers in %s",
					source, execution.ErrInvalid, part.point, dir)
			}
		}
	}
	return nil
}

// shows reports whether thing is in a part of a file system.
func (t mountTable) shows(part mounted, thing string) bool {
	if !matters(thing) {
		return false
	}
	return slices.ContainsFunc(spellings(thing), func(spelling string) bool {
		at, ok := t.at(filepath.ToSlash(spelling))
		return ok && at.device == part.device && within(at.root, part.root)
	})
}
