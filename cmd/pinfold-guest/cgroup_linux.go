package main

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/internal/guest/proto"
)

// endless is from where on version 1 means that there is no limit: it rounds
// the largest number down to a whole page.
const endless = 1 << 62

// readLimits reads the limits of the cgroup that this process is in. root is
// /sys/fs/cgroup, own /proc/self/cgroup. Both versions are understood, with the
// container's cgroup at the root of the tree or below it.
func readLimits(root fs.FS, own string) proto.CgroupLimits {
	if _, err := fs.Stat(root, "cgroup.controllers"); err == nil {
		return readV2(cgroupReader{root, cgroupPath(own, "")})
	}
	return readV1(func(controller string) cgroupReader {
		sub, err := fs.Sub(root, controller)
		if err != nil {
			sub = root
		}
		return cgroupReader{sub, cgroupPath(own, controller)}
	})
}

func readV2(c cgroupReader) proto.CgroupLimits {
	l := proto.CgroupLimits{
		Memory: c.limit("memory.max"),
		Swap:   c.limit("memory.swap.max"),
		PIDs:   c.limit("pids.max"),
	}
	quota, period, _ := strings.Cut(c.read("cpu.max"), " ")
	l.CPUQuota, l.CPUPeriod = number(quota), number(period)
	return l
}

func readV1(controller func(name string) cgroupReader) proto.CgroupLimits {
	memory, cpu := controller("memory"), controller("cpu")
	l := proto.CgroupLimits{
		Memory:    memory.limit("memory.limit_in_bytes"),
		Swap:      proto.UnknownLimit,
		PIDs:      controller("pids").limit("pids.max"),
		CPUQuota:  cpu.limit("cpu.cfs_quota_us"),
		CPUPeriod: cpu.limit("cpu.cfs_period_us"),
	}
	switch both := memory.limit("memory.memsw.limit_in_bytes"); {
	case both == proto.Unlimited:
		l.Swap = proto.Unlimited
	case both >= l.Memory && l.Memory >= 0:
		l.Swap = both - l.Memory
	}
	return l
}

// cgroupPath is the path of a controller's cgroup in /proc/self/cgroup; the
// controller "" is version 2.
func cgroupPath(own, controller string) string {
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			if name == controller {
				return strings.TrimPrefix(path.Clean("/"+fields[2]), "/")
			}
		}
	}
	return ""
}

// A cgroupReader reads the files of one cgroup: the one of that path where the
// whole tree can be seen, else the root.
type cgroupReader struct {
	root fs.FS
	path string
}

func (c cgroupReader) read(name string) string {
	for _, dir := range []string{c.path, "."} {
		if b, err := fs.ReadFile(c.root, path.Join(dir, name)); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	return ""
}

func (c cgroupReader) limit(name string) int64 { return number(c.read(name)) }

// number reads a limit as either version writes it.
func number(text string) int64 {
	if text == "max" {
		return proto.Unlimited
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < proto.Unlimited:
		return proto.UnknownLimit
	case n >= endless:
		return proto.Unlimited
	}
	return n
}
