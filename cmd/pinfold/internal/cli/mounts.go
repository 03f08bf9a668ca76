package cli

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// parseVolume reads docker's -v: HOST:TARGET, with :ro or :rw behind it.
func parseVolume(text string) (execution.Mount, error) {
	const want = "want HOST-PATH:TARGET or HOST-PATH:TARGET:ro"
	mount := execution.Mount{Type: execution.MountBind}
	drive := filepath.VolumeName(text) // "C:" holds a colon of its own
	parts := strings.Split(text[len(drive):], ":")
	switch {
	case len(parts) > 3:
		return mount, fmt.Errorf("%q has too many colons; %s, or use --mount for a path with a colon", text, want)
	case len(parts) == 1:
		return mount, fmt.Errorf("%q has no target, and pinfold has no anonymous volumes; %s", text, want)
	case drive+parts[0] == "":
		return mount, fmt.Errorf("%q has no host path; %s", text, want)
	}
	source := drive + parts[0]
	if drive == "" && !strings.ContainsAny(source, `/\`) && !strings.HasPrefix(source, ".") {
		return mount, fmt.Errorf("%q names a volume, and pinfold has none; for a folder write ./%s", text, source)
	}
	if len(parts) == 3 {
		readOnly, err := volumeMode(parts[2])
		if err != nil {
			return mount, fmt.Errorf("%q: %w", text, err)
		}
		mount.ReadOnly = readOnly
	}
	mount.Target = parts[1]
	var err error
	mount.Source, err = filepath.Abs(source)
	return mount, err
}

func volumeMode(options string) (readOnly bool, err error) {
	switch options {
	case "ro":
		return true, nil
	case "rw":
		return false, nil
	}
	return false, fmt.Errorf("option %q is not supported; want ro or rw", options)
}

// parseMount reads docker's --mount: type=bind,src=…,dst=…,readonly or
// type=tmpfs,dst=…,tmpfs-size=…,tmpfs-mode=….
func parseMount(text string) (execution.Mount, error) {
	var mount execution.Mount
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return mount, fmt.Errorf("%q is not a list of key=value separated by commas", text)
	}
	for _, field := range fields {
		key, value, hasValue := strings.Cut(field, "=")
		key = strings.ToLower(key)
		if !hasValue && key != "readonly" && key != "ro" {
			return mount, fmt.Errorf("%q: field %q has no value; want key=value", text, field)
		}
		if err := setMountField(&mount, key, value, hasValue); err != nil {
			return mount, fmt.Errorf("%q: %w", text, err)
		}
	}
	switch {
	case mount.Type == "":
		return mount, fmt.Errorf("%q has no type; want type=bind or type=tmpfs", text)
	case mount.Target == "":
		return mount, fmt.Errorf("%q has no target; add dst=/path", text)
	case mount.Type == execution.MountBind && mount.Source == "":
		return mount, fmt.Errorf("%q has no source; add src=/path", text)
	case mount.Type == execution.MountBind:
		mount.Source, err = filepath.Abs(mount.Source)
	}
	return mount, err
}

func setMountField(mount *execution.Mount, key, value string, hasValue bool) (err error) {
	switch key {
	case "type":
		mount.Type = execution.MountType(strings.ToLower(value))
		if mount.Type != execution.MountBind && mount.Type != execution.MountTmpfs {
			return fmt.Errorf("type %q is not supported; want bind or tmpfs", value)
		}
	case "source", "src":
		mount.Source = value
	case "target", "destination", "dst":
		mount.Target = value
	case "readonly", "ro":
		mount.ReadOnly = true
		if hasValue {
			if mount.ReadOnly, err = strconv.ParseBool(value); err != nil {
				return fmt.Errorf("%s=%q; want true or false", key, value)
			}
		}
	case "tmpfs-size":
		if mount.Size, err = parseSize(value); err != nil {
			return fmt.Errorf("tmpfs-size %q: %w", value, err)
		}
	case "tmpfs-mode":
		mount.Mode, err = parseMode(value)
	default:
		return fmt.Errorf("field %q is not supported; want type, src, dst, readonly, tmpfs-size or tmpfs-mode", key)
	}
	return err
}

// parseTmpfs reads docker's --tmpfs: TARGET, or TARGET:OPTIONS.
func parseTmpfs(text string) (execution.Mount, error) {
	mount := execution.Mount{Type: execution.MountTmpfs}
	target, options, hasOptions := strings.Cut(text, ":")
	mount.Target = target
	if !hasOptions {
		return mount, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		var err error
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "ro":
			mount.ReadOnly = true
		case "rw":
			mount.ReadOnly = false
		case "size":
			mount.Size, err = parseSize(value)
		case "mode":
			mount.Mode, err = parseMode(value)
		default:
			err = fmt.Errorf("not supported; want size=, mode=, ro or rw")
		}
		if err != nil {
			return mount, fmt.Errorf("%q: option %q: %w", text, option, err)
		}
	}
	return mount, nil
}

func parseMode(text string) (fs.FileMode, error) {
	bits, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("mode %q: want octal digits such as 1777", text)
	}
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{
		0o1000: fs.ModeSticky, 0o2000: fs.ModeSetgid, 0o4000: fs.ModeSetuid,
	} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}

// mounts collects what -v, --mount and --tmpfs ask for. Two on one target are
// an error, since only one of them would show.
func mounts(volumes, mountFlags, tmpfs []string) ([]execution.Mount, error) {
	var all []execution.Mount
	targets := map[string]bool{}
	for _, group := range []struct {
		flag  string
		texts []string
		parse func(string) (execution.Mount, error)
	}{
		{"--volume", volumes, parseVolume},
		{"--mount", mountFlags, parseMount},
		{"--tmpfs", tmpfs, parseTmpfs},
	} {
		for _, text := range group.texts {
			mount, err := group.parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", group.flag, err)
			}
			if targets[mount.Target] {
				return nil, fmt.Errorf("%s: target %q is mounted twice; choose one", group.flag, mount.Target)
			}
			targets[mount.Target] = true
			all = append(all, mount)
		}
	}
	return all, nil
}
