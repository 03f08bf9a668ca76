package docker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// capabilities is what an engine can do by what it says of itself. What it
// says of limits is checked again in every sandbox.
func (i engineInfo) capabilities(local bool) execution.Capabilities {
	enforces := i.enforcesLimits()
	return execution.Capabilities{
		Isolation: true, Images: true, Names: true, Users: true,
		// Folders of a remote engine's host are not ours to name.
		Mounts:       local,
		ReadOnlyRoot: true, Networks: true, Runtimes: true, Profiles: true, Labels: true,
		MemoryLimit:  enforces && i.MemoryLimit,
		CPULimit:     enforces && i.CPUQuota,
		PIDLimit:     enforces && i.PIDsLimit,
		StorageLimit: slices.Contains([]string{"btrfs", "zfs", "devicemapper"}, i.Driver),
		TTY:          true,
		Attach:       true,
		Lifetimes:    true,
		ProvenKill:   true,
	}
}

// enforcesLimits is false for the engines that take limits and drop them in
// silence: rootless ones on cgroup v1.
func (i engineInfo) enforcesLimits() bool {
	v1 := i.CgroupVersion == "1" || i.CgroupVersion == "v1"
	return (!i.Rootless || !v1) && i.CgroupDriver != "none"
}

// runs reports whether the engine runs programs of a platform.
func (i engineInfo) runs(os, arch string) bool {
	if os != "linux" {
		return false
	}
	switch {
	case arch == i.Arch, arch == "":
		return true
	case i.Arch == "amd64":
		if arch == "386" {
			return true
		}
	case i.Arch == "arm64":
		if arch == "arm" {
			return true
		}
	}
	// Docker Desktop and its like come with emulators.
	return strings.Contains(i.OS, "Docker Desktop")
}

// probeLimit bounds the trial of a storage limit.
const probeLimit = 10 * time.Second

// probeStorage finds out whether overlay2 can limit a container's storage. It
// depends on a mount option of xfs that the engine does not tell, so a
// container is made, never started, and removed; without any image there is
// nothing to make it from, and the answer is no.
func probeStorage(ctx context.Context, e engine, info engineInfo) bool {
	if info.Driver != "overlay2" || info.BackingFS != "xfs" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	ids, err := e.imageIDs(ctx, false)
	if err != nil || len(ids) == 0 {
		return false
	}
	id, err := e.create(ctx, createRequest{
		Image: ids[0], Entrypoint: []string{"/none"}, Network: execution.NetworkNone, Storage: 1 << 30,
	})
	if err != nil {
		return false
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeLimit)
	defer cancel()
	return e.remove(cleanup, id) == nil
}
