package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinfold-dev/pinfold/execution"
)

// errdefsKinds says which of our errors stands for which of the engine's.
func errdefsKinds() []struct{ theirs, ours error } {
	return []struct{ theirs, ours error }{
		{cerrdefs.ErrNotFound, execution.ErrNotFound},
		{cerrdefs.ErrConflict, execution.ErrConflict},
		{cerrdefs.ErrAlreadyExists, execution.ErrConflict},
		{cerrdefs.ErrInvalidArgument, execution.ErrInvalid},
		{cerrdefs.ErrPermissionDenied, execution.ErrPermission},
		{cerrdefs.ErrUnauthenticated, execution.ErrPermission},
		{cerrdefs.ErrNotImplemented, execution.ErrUnsupported},
		{cerrdefs.ErrUnavailable, execution.ErrUnavailable},
	}
}

// translate says a request in the words of the API.
func (r createRequest) translate(api string) (*container.Config, *container.HostConfig, *ocispec.Platform) {
	stopNow := 0
	config := &container.Config{
		Image: r.Image, User: r.User, Entrypoint: r.Entrypoint, Cmd: r.Cmd, Labels: r.Labels,
		Hostname: r.Hostname, WorkingDir: "/",
		OpenStdin: r.Stdin, StdinOnce: r.Stdin,
		AttachStdin: r.Stdin, AttachStdout: r.Stdin, AttachStderr: r.Stdin,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopTimeout: &stopNow,
	}
	noInit := false
	host := &container.HostConfig{
		AutoRemove:     r.AutoRemove,
		ReadonlyRootfs: r.ReadOnly,
		NetworkMode:    container.NetworkMode(r.Network),
		Runtime:        r.Runtime,
		CapDrop:        r.CapDrop,
		CapAdd:         r.CapAdd,
		SecurityOpt:    r.SecurityOpt,
		IpcMode:        container.IPCModePrivate,
		LogConfig:      container.LogConfig{Type: "none"},
		Init:           &noInit,
		OomScoreAdj:    r.OOMScoreAdj,
		Resources: container.Resources{
			Memory: r.Memory, MemorySwap: r.Memory, NanoCPUs: r.NanoCPUs,
			Ulimits: []*container.Ulimit{{Name: "core"}},
		},
	}
	if r.Seccomp != "" {
		host.SecurityOpt = append(slices.Clone(host.SecurityOpt), "seccomp="+r.Seccomp)
	}
	if r.PIDs > 0 {
		host.PidsLimit = &r.PIDs
	}
	if r.Storage > 0 {
		host.StorageOpt = map[string]string{"size": strconv.FormatInt(r.Storage, 10)}
	}
	if versions.GreaterThanOrEqualTo(api, "1.41") {
		host.CgroupnsMode = container.CgroupnsModePrivate
	}
	if r.Network == execution.NetworkNone {
		// Otherwise the engine writes the host's own name servers and domains
		// into the container, which tells where it is and helps nobody.
		host.DNS, host.DNSSearch = []string{"127.0.0.1"}, []string{"."}
	}
	for _, m := range r.Mounts {
		if m.Bind {
			host.Mounts = append(host.Mounts, m.bind())
			continue
		}
		if host.Tmpfs == nil {
			host.Tmpfs = map[string]string{}
		}
		host.Tmpfs[m.Target] = m.tmpfs()
	}
	return config, host, parsePlatform(r.Platform, api)
}

func (m mountRequest) bind() mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
		BindOptions: &mount.BindOptions{
			Propagation:  mount.PropagationRPrivate,
			NonRecursive: m.NonRecursive, ReadOnlyForceRecursive: m.RecursiveRO,
		},
	}
}

// tmpfs is the options of a tmpfs. The API's newer way to say it has no
// nr_inodes.
func (m mountRequest) tmpfs() string {
	access := "rw"
	if m.ReadOnly {
		access = "ro"
	}
	options := fmt.Sprintf("%s,exec,nosuid,nodev,size=%d,mode=%o", access, m.Size, m.Mode)
	if m.MaxInodes > 0 {
		options += fmt.Sprintf(",nr_inodes=%d", m.MaxInodes)
	}
	if m.Owner != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", m.Owner.UID, m.Owner.GID)
	}
	return options
}

// parsePlatform reads "os/arch/variant". Engines before API 1.41 take none;
// there the image's own platform is checked instead.
func parsePlatform(text, api string) *ocispec.Platform {
	if text == "" || versions.LessThan(api, "1.41") {
		return nil
	}
	parts := strings.SplitN(text, "/", 3)
	platform := &ocispec.Platform{OS: parts[0]}
	if len(parts) > 1 {
		platform.Architecture = parts[1]
	}
	if len(parts) > 2 {
		platform.Variant = parts[2]
	}
	return platform
}

func newState(got container.InspectResponse) containerState {
	s := containerState{}
	if got.ContainerJSONBase != nil {
		s.ID, s.Name, s.Image = got.ID, strings.TrimPrefix(got.Name, "/"), got.Image
		s.Created, _ = time.Parse(time.RFC3339Nano, got.Created)
		if st := got.State; st != nil {
			s.Status, s.Running, s.Paused = st.Status, st.Running, st.Paused
			s.OOMKilled, s.ExitCode, s.Error = st.OOMKilled, st.ExitCode, st.Error
		}
	}
	if got.Config != nil {
		s.Labels = got.Config.Labels
	}
	return s
}

func newEvent(msg events.Message) engineEvent {
	e := engineEvent{
		ID: msg.Actor.ID, Action: string(msg.Action), ExitCode: -1,
		Signal: msg.Actor.Attributes["signal"], Time: time.Unix(0, msg.TimeNano),
	}
	for _, key := range []string{"exitCode", "containerExitCode"} {
		if code, err := strconv.Atoi(msg.Actor.Attributes[key]); err == nil {
			e.ExitCode = code
		}
	}
	// Podman has its own words for two of them.
	switch e.Action {
	case "died":
		e.Action = "die"
	case "remove":
		e.Action = "destroy"
	}
	return e
}

func newInfo(info system.Info, version types.Version) engineInfo {
	e := engineInfo{
		ID: info.ID, Name: info.Name, Version: info.ServerVersion, System: info.OSType, OS: info.OperatingSystem,
		Kernel: info.KernelVersion, CPUs: info.NCPU, Memory: info.MemTotal,
		Driver: info.Driver, RootDir: info.DockerRootDir,
		CgroupVersion: info.CgroupVersion, CgroupDriver: info.CgroupDriver,
		MemoryLimit: info.MemoryLimit, SwapLimit: info.SwapLimit, PIDsLimit: info.PidsLimit, CPUQuota: info.CPUCfsQuota,
		DefaultRuntime: info.DefaultRuntime, LiveRestore: info.LiveRestoreEnabled, Warnings: info.Warnings,
		Components: map[string]string{},
	}
	if now, err := time.Parse(time.RFC3339Nano, info.SystemTime); err == nil {
		e.Ahead = time.Until(now)
	}
	e.Arch, e.Variant = normalArch(info.Architecture)
	for name := range info.Runtimes {
		e.Runtimes = append(e.Runtimes, name)
	}
	for _, status := range info.DriverStatus {
		if status[0] == "Backing Filesystem" {
			e.BackingFS = status[1]
		}
	}
	for _, opt := range info.SecurityOptions {
		switch name, _, _ := strings.Cut(strings.TrimPrefix(opt, "name="), ","); name {
		case "rootless":
			e.Rootless = true
		case "userns":
			e.UserRemap = true
		case "seccomp":
			e.Seccomp = true
		case "apparmor":
			e.AppArmor = true
		case "selinux":
			e.SELinux = true
		}
	}
	for _, c := range version.Components {
		e.Components[strings.ToLower(c.Name)] = c.Version
		if strings.Contains(strings.ToLower(c.Name), "podman") {
			e.Podman = true
		}
	}
	return e
}

// normalArch says as Go does what an engine takes from uname.
func normalArch(arch string) (goarch, variant string) {
	switch arch {
	case "x86_64":
		return "amd64", ""
	case "aarch64":
		return "arm64", ""
	case "armv7l":
		return "arm", "v7"
	case "armv6l":
		return "arm", "v6"
	case "i386", "i686":
		return "386", ""
	}
	return arch, ""
}

// recursiveROAPI has mounts that are read-only all the way down.
const recursiveROAPI = "1.44"

func atLeast(api, version string) bool { return versions.GreaterThanOrEqualTo(api, version) }
