package docker

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

var testInfo = engineInfo{CPUs: 8, DefaultRuntime: "runc", Arch: "amd64"}

func requestFor(spec execution.Spec) createRequest {
	spec = withDefaults(spec, "base", testInfo)
	return request(spec, "derived", identity{1000, 1000}, map[string]string{"a": "b"}, "1.44")
}

// The default profile, control by control, in the engine's own words.
func TestDefaultProfile(t *testing.T) {
	config, host, _ := requestFor(execution.Spec{}).translate("1.44")
	seccomp := func() string {
		for _, opt := range host.SecurityOpt {
			if profile, ok := strings.CutPrefix(opt, "seccomp="); ok {
				return profile
			}
		}
		return ""
	}
	for name, holds := range map[string]bool{
		"user":                  config.User == "1000:1000",
		"no capabilities":       slices.Equal(host.CapDrop, []string{"ALL"}) && len(host.CapAdd) == 0,
		"no-new-privileges":     slices.Contains(host.SecurityOpt, "no-new-privileges"),
		"own seccomp profile":   seccomp() == seccompProfile,
		"not privileged":        !host.Privileged,
		"no network":            host.NetworkMode == "none",
		"host's DNS not told":   slices.Equal(host.DNS, []string{"127.0.0.1"}) && slices.Equal(host.DNSSearch, []string{"."}),
		"memory":                host.Memory == 2<<30,
		"no swap":               host.MemorySwap == host.Memory,
		"processes":             host.PidsLimit != nil && *host.PidsLimit == 512,
		"processors":            host.NanoCPUs == 2e9,
		"private IPC":           host.IpcMode == "private",
		"private cgroups":       host.CgroupnsMode == "private",
		"own process space":     host.PidMode == "",
		"own UTS":               host.UTSMode == "",
		"user namespace kept":   host.UsernsMode == "",
		"no devices":            len(host.Devices)+len(host.DeviceRequests)+len(host.DeviceCgroupRules) == 0,
		"default masked paths":  host.MaskedPaths == nil && host.ReadonlyPaths == nil,
		"no health check":       slices.Equal(config.Healthcheck.Test, []string{"NONE"}),
		"no log":                host.LogConfig.Type == "none",
		"no init":               host.Init != nil && !*host.Init,
		"no core files":         len(host.Ulimits) == 1 && host.Ulimits[0].Name == "core" && host.Ulimits[0].Hard == 0,
		"goes by itself":        host.AutoRemove,
		"no ten-second stop":    config.StopTimeout != nil && *config.StopTimeout == 0,
		"hostname tells naught": config.Hostname == "pinfold",
		"only the guest":        slices.Equal(config.Entrypoint, []string{"/.pinfold/guest", "serve"}) && len(config.Cmd) == 0,
		"nothing in the env":    len(config.Env) == 0,
		"stdin for one attach":  config.OpenStdin && config.StdinOnce && !config.Tty,
		"picked before host":    host.OomScoreAdj > 0,
		"directory exists":      config.WorkingDir == "/",
	} {
		if !holds {
			t.Errorf("%s: does not hold", name)
		}
	}
}

func TestDevProfileRelaxesRootOnly(t *testing.T) {
	plain, dev := requestFor(execution.Spec{}), requestFor(execution.Spec{Profile: execution.ProfileDev})
	if want := []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL"}; !slices.Equal(dev.CapAdd, want) {
		t.Errorf("capabilities are %v, want %v", dev.CapAdd, want)
	}
	if user := profileControls(execution.Spec{Profile: execution.ProfileDev}).User; user != "0:0" {
		t.Errorf("user is %s", user)
	}
	dev.CapAdd = nil
	if a, b := toJSON(t, plain), toJSON(t, dev); a != b {
		t.Errorf("something else differs:\n%s\n%s", a, b)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRelaxationsLiftOneControlEach(t *testing.T) {
	all := requestFor(execution.Spec{})
	for relax, lifted := range map[execution.Relaxation]func(*createRequest){
		execution.RelaxMemory:  func(r *createRequest) { r.Memory = 0 },
		execution.RelaxPIDs:    func(r *createRequest) { r.PIDs = 0 },
		execution.RelaxCPUs:    func(r *createRequest) { r.NanoCPUs = 0 },
		execution.RelaxSeccomp: func(r *createRequest) { r.Seccomp = seccompOff },
	} {
		want := all
		lifted(&want)
		if got := requestFor(execution.Spec{Relax: []execution.Relaxation{relax}}); toJSON(t, got) != toJSON(t, want) {
			t.Errorf("%s: lifts something else", relax)
		}
	}
}

func TestLimitsInTheEnginesUnits(t *testing.T) {
	_, host, _ := requestFor(execution.Spec{Limits: execution.Limits{
		Memory: 64 << 20, CPUs: 0.33, PIDs: 99, Storage: 5 << 30,
	}}).translate("1.41")
	if host.Memory != 64<<20 || host.MemorySwap != 64<<20 || host.NanoCPUs != 330_000_000 ||
		*host.PidsLimit != 99 || host.StorageOpt["size"] != "5368709120" {
		t.Errorf("got %+v", host.Resources)
	}
	few := engineInfo{CPUs: 1}
	if got := withDefaults(execution.Spec{}, "", few).Limits.CPUs; got != 1 {
		t.Errorf("%v processors where the engine has one", got)
	}
}

func TestMountsInTheEnginesWords(t *testing.T) {
	dir := t.TempDir()
	spec := withDefaults(execution.Spec{Mounts: []execution.Mount{
		{Type: execution.MountBind, Source: dir, Target: "/a/../b"},
		{Type: execution.MountBind, Source: dir, Target: "/c", ReadOnly: true},
		{Type: execution.MountTmpfs, Target: "/d"},
		{Type: execution.MountTmpfs, Target: "/e", Size: 1 << 20, Mode: 0o700, ReadOnly: true},
		{Type: execution.MountTmpfs, Target: "/f", Size: 1 << 20, Mode: fs.ModeSetgid | 0o770},
		{Type: execution.MountTmpfs, Target: "/g", Size: 1 << 20, Mode: 0o5775},
	}}, "base", testInfo)
	for _, row := range []struct {
		api          string
		nonRecursive bool
	}{{"1.41", true}, {"1.44", false}} {
		_, host, _ := request(spec, "derived", identity{}, nil, row.api).translate(row.api)
		writable, readOnly := host.Mounts[0], host.Mounts[1]
		if writable.Source != dir || writable.Target != "/b" || writable.ReadOnly || writable.BindOptions.Propagation != "rprivate" {
			t.Errorf("%s: writable mount is %+v", row.api, writable)
		}
		if !readOnly.ReadOnly || readOnly.BindOptions.NonRecursive != row.nonRecursive ||
			readOnly.BindOptions.ReadOnlyForceRecursive == row.nonRecursive {
			t.Errorf("%s: what is mounted below a read-only mount stays writable: %+v", row.api, readOnly.BindOptions)
		}
		if got := host.Tmpfs["/d"]; got != "rw,exec,nosuid,nodev,size=1073741824,mode=1777,nr_inodes=262144" {
			t.Errorf("tmpfs is %s", got)
		}
		if got := host.Tmpfs["/e"]; got != "ro,exec,nosuid,nodev,size=1048576,mode=700,nr_inodes=1024" {
			t.Errorf("tmpfs is %s", got)
		}
	}
	_, host, _ := request(spec, "derived", identity{}, nil, "1.44").translate("1.44")
	for target, want := range map[string]string{"/f": "2770", "/g": "5775"} {
		if got := host.Tmpfs[target]; !strings.Contains(got, ",mode="+want+",") {
			t.Errorf("tmpfs on %s is %s, want the mode %s", target, got, want)
		}
	}
	if spec.Mounts[2].Size != 1<<30 || spec.Mounts[2].Mode != 0o1777 {
		t.Errorf("the spec in force does not tell the tmpfs's defaults: %+v", spec.Mounts[2])
	}
}

func TestAnImagesVolumeDoesNotHideTheWorkspace(t *testing.T) {
	base := images.Image{Volumes: []string{"/data", "/workspace"}}
	cover := volumeCover(execution.Spec{}, base, identity{7, 8})
	if len(cover) != 1 || cover[0].Target != "/workspace" || !strings.Contains(cover[0].tmpfs(), "uid=7,gid=8") {
		t.Errorf("got %+v", cover)
	}
	mounted := execution.Spec{Mounts: []execution.Mount{{Type: execution.MountTmpfs, Target: "/workspace/"}}}
	if cover := volumeCover(mounted, base, identity{}); cover != nil {
		t.Errorf("covers a mount: %+v", cover)
	}
}

func TestSecretsStayOutOfLabels(t *testing.T) {
	c := &Context{}
	spec := execution.Spec{Env: []string{"TOKEN=canary"}, Labels: map[string]string{"mine": "1"}}
	labels := c.containerLabels(spec)
	if labels["mine"] != "1" || strings.Contains(toJSON(t, labels), "canary") {
		t.Errorf("got %v", labels)
	}
	other := spec
	other.Env = nil
	if specDigest(spec) != specDigest(other) {
		t.Error("the digest depends on the environment, so that a short secret could be guessed from it")
	}
}
