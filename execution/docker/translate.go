package docker

import (
	"io/fs"
	"math"
	"path"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// Where the guest is in every derived image.
const (
	guestDir  = "/.pinfold"
	guestPath = guestDir + "/guest"
	guestHome = "/home/pinfold" // of a user that the image does not know
)

// request says what container a spec stands for. The spec has its defaults
// and its mounts are as the guard has found them; image is the derived one.
func request(spec execution.Spec, image string, who identity, labels map[string]string, api string) createRequest {
	profile := profileControls(spec)
	req := createRequest{
		Name: spec.Name, Image: image, Platform: spec.Platform, User: who.String(),
		Entrypoint: []string{guestPath, "serve"},
		Labels:     labels, Stdin: true, AutoRemove: true,
		ReadOnly: spec.ReadOnly, Network: spec.Network, Runtime: spec.Runtime, Hostname: hostname,
		CapDrop: []string{"ALL"}, CapAdd: profile.CapAdd,
		SecurityOpt: []string{"no-new-privileges"}, Seccomp: profile.seccomp(),
		Memory: spec.Limits.Memory, NanoCPUs: nanoCPUs(spec.Limits.CPUs), PIDs: spec.Limits.PIDs,
		Storage: spec.Limits.Storage, OOMScoreAdj: oomScoreAdj,
	}
	for _, m := range spec.Mounts {
		req.Mounts = append(req.Mounts, mountFor(m, api))
	}
	return req
}

func mountFor(m execution.Mount, api string) mountRequest {
	req := mountRequest{Target: path.Clean(m.Target), ReadOnly: m.ReadOnly}
	if m.Type == execution.MountBind {
		req.Bind, req.Source = true, m.Source
		// Read-only is to hold for what is mounted below the source, too.
		// Older engines cannot do that; there it is left out.
		req.RecursiveRO = m.ReadOnly && atLeast(api, recursiveROAPI)
		req.NonRecursive = m.ReadOnly && !req.RecursiveRO
		return req
	}
	req.Size = m.Size
	req.MaxInodes = min(max(m.Size/bytesPerInode, minTmpfsInodes), maxTmpfsInodes)
	// Go keeps these bits elsewhere than the kernel; both ways to say them are
	// understood.
	const kernels = 0o7777
	req.Mode = uint32(m.Mode & kernels)
	for bit, flag := range map[uint32]fs.FileMode{0o1000: fs.ModeSticky, 0o2000: fs.ModeSetgid, 0o4000: fs.ModeSetuid} {
		if m.Mode&flag != 0 {
			req.Mode |= bit
		}
	}
	return req
}

func nanoCPUs(cpus float64) int64 {
	const billion = 1e9
	return int64(math.Round(cpus * billion))
}

// volumeCover keeps an image's volume from lying over /workspace, where it
// would belong to root: memory is mounted there instead.
func volumeCover(spec execution.Spec, base images.Image, who identity) []mountRequest {
	for _, volume := range base.Volumes {
		if path.Clean(volume) != DefaultDir {
			continue
		}
		for _, m := range spec.Mounts {
			if path.Clean(m.Target) == DefaultDir {
				return nil
			}
		}
		return []mountRequest{{
			Target: DefaultDir, Size: defaultTmpfsSize, MaxInodes: defaultTmpfsSize / bytesPerInode, Mode: 0o755, Owner: &who,
		}}
	}
	return nil
}
