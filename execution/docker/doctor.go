package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

// A Report says whether sandboxes can run here, and how well.
type Report struct {
	Runnable bool      `json:"runnable"` // no finding is a failure
	Findings []Finding `json:"findings"` // in the order in which they were looked at
}

// A Finding is one thing that was looked at.
type Finding struct {
	Name   string       `json:"name"`          // "engine", "memory limit", …
	State  FindingState `json:"state"`         //
	Detail string       `json:"detail"`        // what was found; one line, or a list of lines
	Fix    string       `json:"fix,omitempty"` // what to do about it
}

// A FindingState says how good or bad a finding is.
type FindingState string

// The states of a finding.
const (
	FindingOK   FindingState = "ok"
	FindingWarn FindingState = "warn" // sandboxes run, but something is weaker or missing
	FindingFail FindingState = "fail" // no sandbox can run
)

func (r *Report) add(name string, state FindingState, fix, format string, args ...any) {
	f := Finding{Name: name, State: state, Detail: fmt.Sprintf(format, args...)}
	if state != FindingOK {
		f.Fix = fix
	}
	r.Findings = append(r.Findings, f)
}

// examineLimit bounds one Examine.
const examineLimit = 2 * time.Minute

// Examine looks at the engine, and makes one sandbox of an image that is there
// to see that its controls hold. It pulls and builds no image and leaves
// nothing behind, apart from the derived image.
func Examine(ctx context.Context, opts Options) Report {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	var r Report
	c, err := New(ctx, opts)
	if err != nil {
		r.add("engine", FindingFail, "start an engine that you may use, or choose the process backend, which isolates nothing", "%v", err)
		return r
	}
	r.engine(ctx, c)
	r.limits(c)
	r.protections(c.info)
	r.versions(c.info)
	r.disk(c)
	present := r.images(ctx, c)
	r.leftovers(ctx, c)
	r.trial(ctx, c, present)
	if err := c.Close(); err != nil { //nolint:contextcheck // Close bounds its own time, as the contract has it.
		r.add("clean-up", FindingWarn, "look for containers with `docker ps -a`", "%v", err)
	}
	r.Runnable = !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.State == FindingFail })
	return r
}

func (r *Report) engine(ctx context.Context, c *Context) {
	i := c.info
	r.add("engine", FindingOK, "", "%s on %s, kernel %s, %s/%s, %d processors, %s of memory",
		c.Engine(), i.OS, i.Kernel, i.System, i.Arch, i.CPUs, bytesText(i.Memory))
	r.add("api version", FindingOK, "", "%s (%s or later is needed)", c.engine.apiVersion(), minAPI)
	if i.Rootless {
		r.add("rootless", FindingOK, "", "yes: root inside is an ordinary user outside")
	} else {
		r.add("rootless", FindingOK, "", "no: the engine runs as root, so an escape would be root's")
	}
	slices.Sort(i.Runtimes)
	r.add("runtimes", FindingOK, "", "%s (default %s)", strings.Join(i.Runtimes, ", "), i.DefaultRuntime)
	if !c.engine.local() {
		r.add("mounts", FindingWarn, "use an engine on this machine to mount its folders",
			"the engine is on another machine: folders of this one cannot be mounted")
	}
	if _, err := c.guestFor(ctx, i.Arch); err != nil {
		r.add("guest", FindingFail, "build pinfold with `make build`, or take a released one", "%v", err)
	} else {
		r.add("guest", FindingOK, "", "built in for %s", i.Arch)
	}
}

// limits reports what the engine says it enforces; trial looks whether it does.
func (r *Report) limits(c *Context) {
	i := c.info
	version := i.CgroupVersion
	if version == "" {
		version = "unknown (1 before Docker 20.10)"
	}
	r.add("cgroups", FindingOK, "", "version %s, driver %s", version, i.CgroupDriver)
	advice := "enable the controller for the engine: cgroup v2 with systemd delegation when rootless (Delegate=cpu memory pids), " +
		"or cgroup_enable=memory swapaccount=1 on the kernel's command line"
	for _, limit := range []struct {
		name string
		can  bool
	}{
		{"memory limit", c.caps.MemoryLimit},
		{"swap limit", i.SwapLimit && c.caps.MemoryLimit},
		{"pid limit", c.caps.PIDLimit},
		{"cpu limit", c.caps.CPULimit},
	} {
		if limit.can {
			r.add(limit.name, FindingOK, "", "enforced, says the engine")
			continue
		}
		r.add(limit.name, FindingWarn, advice, "not enforced; a sandbox is made only when the limit is relaxed by name")
	}
	if c.caps.StorageLimit {
		r.add("storage limit", FindingOK, "", "available (%s)", i.Driver)
	} else {
		r.add("storage limit", FindingWarn, "use overlay2 on xfs mounted with pquota, btrfs or zfs; or a read-only root with sized tmpfs mounts",
			"not available with %s on %s: a sandbox can fill the engine's disk", i.Driver, i.BackingFS)
	}
}

func (r *Report) protections(i engineInfo) {
	if i.Seccomp {
		r.add("seccomp", FindingOK, "", "available; pinfold brings its own filter")
	} else {
		r.add("seccomp", FindingWarn, "use an engine and a kernel built with seccomp", "not available: sandboxes need the relaxation %q", execution.RelaxSeccomp)
	}
	switch {
	case i.AppArmor:
		r.add("mandatory access control", FindingOK, "", "AppArmor")
	case i.SELinux:
		r.add("mandatory access control", FindingOK, "", "SELinux")
	default:
		r.add("mandatory access control", FindingWarn, "install and enable AppArmor or SELinux for a further layer", "neither AppArmor nor SELinux")
	}
}

func (r *Report) versions(i engineInfo) {
	found := vulnerabilities(i)
	if len(found) == 0 {
		r.add("known vulnerabilities", FindingOK, "", "none of those pinfold knows of, by the versions the engine tells")
		return
	}
	for _, v := range found {
		r.add("known vulnerabilities", FindingWarn,
			fmt.Sprintf("upgrade %s to %s or later; a distribution may have mended its older version (see its changelog)", v.component, v.fixedIn()),
			"%s %s: %s: %s", v.component, v.has, strings.Join(v.names, ", "), v.effect)
	}
}

func (r *Report) disk(c *Context) {
	if !c.engine.local() || c.info.RootDir == "" {
		return
	}
	free, ok := freeSpace(c.info.RootDir)
	const enough, least = 2 << 30, 200 << 20
	switch {
	case !ok:
	case free < least:
		r.add("disk", FindingFail, "free some: `docker system df` shows what takes it", "%s free at %s", bytesText(free), c.info.RootDir)
	case free < enough:
		r.add("disk", FindingWarn, "free some: `docker system df` shows what takes it", "%s free at %s", bytesText(free), c.info.RootDir)
	default:
		r.add("disk", FindingOK, "", "%s free at %s", bytesText(free), c.info.RootDir)
	}
}

// images reports which of the known images are there, and returns those.
func (r *Report) images(ctx context.Context, c *Context) []string {
	refs := []string{c.opts.Image}
	for _, recipe := range images.Known() {
		if recipe.Ref != c.opts.Image {
			refs = append(refs, recipe.Ref)
		}
	}
	var present []string
	for _, ref := range refs {
		image, err := c.engine.ImageInspect(ctx, ref)
		switch {
		case err == nil:
			present = append(present, ref)
			r.add("image", FindingOK, "", "%s, %s, %s", ref, image.Platform(), bytesText(image.Size))
		case errors.Is(err, execution.ErrNotFound):
			r.add("image", FindingWarn, "it is pulled or built at first use; `pinfold images build` makes it now", "%s is not there yet", ref)
		default:
			r.add("image", FindingFail, "look into the engine's log", "%s: %v", ref, err)
		}
	}
	return present
}

func (r *Report) leftovers(ctx context.Context, c *Context) {
	list, err := c.List(ctx)
	if err != nil {
		r.add("sandboxes", FindingFail, "look into the engine's log", "%v", err)
		return
	}
	r.add("sandboxes", FindingOK, "", "%d on this engine", len(list))
}

// trial makes a sandbox and runs nothing in it: greeting the guest is enough to
// read back what holds.
func (r *Report) trial(ctx context.Context, c *Context, present []string) {
	if len(present) == 0 {
		r.add("sandbox", FindingWarn, "get an image, then look again", "not tried: no image to make one of")
		return
	}
	begun := time.Now()
	h, err := c.Spawn(ctx, execution.Spec{Image: present[0], Pull: execution.PullNever})
	if err != nil {
		r.add("sandbox", FindingFail, "mend what the error names", "%v", err)
		return
	}
	took := time.Since(begun)
	limits := h.Spec().Limits
	if err := h.Destroy(ctx); err != nil {
		r.add("sandbox", FindingFail, "look into the engine's log", "%v", err)
		return
	}
	r.add("sandbox", FindingOK, "", "made one of %s in %v; read back inside: %s of memory without swap, %d processes, %v processors, "+
		"no capabilities, no-new-privileges, system call filter", present[0], took.Round(time.Millisecond),
		bytesText(limits.Memory), limits.PIDs, limits.CPUs)
}

// bytesText says a number of bytes for people.
func bytesText(n int64) string {
	const step = 1024
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	if unit == "B" || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
