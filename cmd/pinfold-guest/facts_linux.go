package main

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/internal/guest/proto"
)

// facts tells what the guest finds around it.
func facts() proto.Facts {
	f := proto.Facts{
		Version: version(),
		Arch:    runtime.GOARCH,
		PID:     os.Getpid(),
		UID:     uint32(os.Geteuid()), //nolint:gosec // never negative on Linux
		GID:     uint32(os.Getegid()), //nolint:gosec // as above
		Shell:   shell(),
	}
	status, _ := os.ReadFile("/proc/self/status") // what is missing is unknown
	readStatus(&f, string(status))
	own, _ := os.ReadFile("/proc/self/cgroup") // likewise
	f.Limits = readLimits(os.DirFS("/sys/fs/cgroup"), string(own))
	return f
}

// readStatus fills in what /proc/self/status says.
func readStatus(f *proto.Facts, status string) {
	f.Seccomp = -1
	sets := map[string]*uint64{
		"CapInh": &f.CapInheritable, "CapPrm": &f.CapPermitted, "CapEff": &f.CapEffective,
		"CapBnd": &f.CapBounding, "CapAmb": &f.CapAmbient,
	}
	for _, set := range sets {
		*set = math.MaxUint64
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "NoNewPrivs":
			f.NoNewPrivs = value == "1"
		case name == "Seccomp":
			if mode, err := strconv.Atoi(value); err == nil {
				f.Seccomp = mode
			}
		case sets[name] != nil:
			if set, err := strconv.ParseUint(value, 16, 64); err == nil {
				*sets[name] = set
			}
		}
	}
}

// shell is the shell that shell lines get unless a command's PATH says
// otherwise.
func shell() string {
	for _, name := range []string{"bash", "sh"} {
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":/bin", ":") {
			path := dir + "/" + name
			if info, err := os.Stat(path); strings.HasPrefix(path, "/") && err == nil &&
				info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
				return path
			}
		}
	}
	return ""
}
