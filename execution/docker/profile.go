package docker

import (
	_ "embed"
	"slices"

	"github.com/pinfold-dev/pinfold/execution"
)

// What a sandbox gets when its spec does not say otherwise.
const (
	DefaultMemory = 2 << 30 // bytes
	DefaultPIDs   = 512
	DefaultCPUs   = 2 // processors, or as many as the engine has if that is fewer
	DefaultDir    = "/workspace"
	DefaultUser   = "1000:1000"
)

// Of tmpfs mounts whose spec says nothing, and of all of them.
const (
	defaultTmpfsSize = 1 << 30
	defaultTmpfsMode = 0o1777
	minTmpfsInodes   = 1 << 10
	maxTmpfsInodes   = 1 << 20
	bytesPerInode    = 4 << 10
)

// oomScoreAdj makes the kernel pick a sandbox before the host's own processes
// when the host itself runs out of memory. The guest raises it further for
// what it starts.
const oomScoreAdj = 100

// hostname is the same in every sandbox: the engine's default tells the
// container's id to the code inside.
const hostname = "pinfold"

// seccompProfile is the system call filter as the engine wants it. It is made
// from the moby project's by TestSeccompProfile, which says how it differs,
// and is carried along so that the age of the engine does not matter.
//
//go:embed seccomp.json
var seccompProfile string

// devCapabilities are what apt, useradd and chown need of root. Left out of
// the engine's default set are those that only networks, devices and mounts
// need: MKNOD, NET_RAW, NET_BIND_SERVICE, SYS_CHROOT, SETPCAP, SETFCAP,
// AUDIT_WRITE.
func devCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL"}
}

// capabilityBits are those sets as /proc tells them.
func capabilityBits(names []string) uint64 {
	numbers := map[string]uint{
		"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7,
	}
	var bits uint64
	for _, name := range names {
		bits |= 1 << numbers[name]
	}
	return bits
}

// controls are a profile made concrete.
type controls struct {
	User    string
	CapAdd  []string
	Seccomp bool
}

func profileControls(spec execution.Spec) controls {
	c := controls{User: DefaultUser, Seccomp: !slices.Contains(spec.Relax, execution.RelaxSeccomp)}
	if spec.Profile == execution.ProfileDev {
		c.User = "0:0"
		c.CapAdd = devCapabilities()
	}
	return c
}

// seccomp is the system call filter in the engine's words. It is off only by
// its relaxation.
func (c controls) seccomp() string {
	if c.Seccomp {
		return seccompProfile
	}
	return seccompOff
}

const seccompOff = "unconfined"

// withDefaults fills in what the spec leaves open, apart from the user, which
// depends on the image and the mounts. What is relaxed stays 0.
func withDefaults(spec execution.Spec, image string, info engineInfo) execution.Spec {
	if spec.Image == "" {
		spec.Image = image
	}
	if spec.Pull == "" {
		spec.Pull = execution.PullMissing
	}
	if spec.Dir == "" {
		spec.Dir = DefaultDir
	}
	if spec.Network == "" {
		spec.Network = execution.NetworkNone
	}
	if spec.Runtime == "" {
		spec.Runtime = info.DefaultRuntime
	}
	if spec.Profile == "" {
		spec.Profile = execution.ProfileDefault
	}
	relaxed := func(r execution.Relaxation) bool { return slices.Contains(spec.Relax, r) }
	if spec.Limits.Memory == 0 && !relaxed(execution.RelaxMemory) {
		spec.Limits.Memory = DefaultMemory
	}
	if spec.Limits.PIDs == 0 && !relaxed(execution.RelaxPIDs) {
		spec.Limits.PIDs = DefaultPIDs
	}
	if spec.Limits.CPUs == 0 && !relaxed(execution.RelaxCPUs) {
		spec.Limits.CPUs = DefaultCPUs
		if info.CPUs > 0 {
			spec.Limits.CPUs = min(DefaultCPUs, float64(info.CPUs))
		}
	}
	spec.Mounts = slices.Clone(spec.Mounts)
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		if m.Type != execution.MountTmpfs {
			continue
		}
		if m.Size == 0 {
			m.Size = defaultTmpfsSize
			if spec.Limits.Memory > 0 {
				m.Size = min(m.Size, spec.Limits.Memory/2)
			}
		}
		if m.Mode == 0 {
			m.Mode = defaultTmpfsMode
		}
	}
	return spec
}
