package docker

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// verify compares what holds inside with what was asked of the engine. Nothing
// untrusted has run yet, and the guest is our own program, so that what it
// tells can be believed now, and only now.
func (c *Context) verify(ctx context.Context, h *handle) error {
	who, _ := parseIdentity(h.spec.User)
	facts := h.client.Facts()
	own, version := c.ownKernel(ctx, h)
	h.gvisor = own && isGVisor(version)
	seen := surroundings{facts: facts, ownKernel: own}
	if h.spec.Limits.Memory > 0 && facts.Limits.Swap != 0 {
		seen.noSwapAtAll = hostHasNoSwap(ctx, h.client)
	}
	return checkControls(h.spec, who, seen)
}

// surroundings is what was found inside.
type surroundings struct {
	facts       guest.Facts
	ownKernel   bool // the runtime brings a kernel of its own, as gVisor does
	noSwapAtAll bool // the machine has no swap
}

// capabilities are all that are in any of the sets. A kernel of the runtime's
// own does not tell all of them.
func (s surroundings) capabilities() uint64 {
	const unknown = math.MaxUint64
	f := s.facts
	var all uint64
	for _, set := range []uint64{f.CapBounding, f.CapPermitted, f.CapEffective, f.CapInheritable, f.CapAmbient} {
		if set == unknown && s.ownKernel {
			continue
		}
		all |= set
	}
	return all
}

// checkControls reports the first control that does not hold, with
// ErrUnsupported. A runtime with a kernel of its own stands under the engine's
// limits itself and filters by its own means, which does not show inside; what
// does not show is then taken as kept, but what shows otherwise is not. A limit
// on processes must show: round such a kernel it counts that kernel's threads.
func checkControls(spec execution.Spec, who identity, seen surroundings) error {
	facts, profile := seen.facts, profileControls(spec)
	caps := capabilityBits(profile.CapAdd)
	fail := func(control, format string, args ...any) error {
		return fmt.Errorf("%s: %w: the engine took it but it does not hold inside: %s",
			control, execution.ErrUnsupported, fmt.Sprintf(format, args...))
	}
	switch {
	case facts.PID != 1:
		return fail("own process space", "the guest is process %d", facts.PID)
	case int(facts.UID) != who.UID || int(facts.GID) != who.GID:
		return fail("user", "it is %d:%d instead of %s", facts.UID, facts.GID, who)
	case seen.capabilities()&^caps != 0:
		return fail("capabilities", "there are %x, allowed are %x", seen.capabilities(), caps)
	case !facts.NoNewPrivs && !seen.ownKernel:
		return fail("no-new-privileges", "it is off")
	case profile.Seccomp && facts.Seccomp != seccompFilter && !seen.ownKernel:
		return fail("system call filter", "it is off (mode %d); the relaxation %q does without", facts.Seccomp, execution.RelaxSeccomp)
	}
	return checkLimits(spec.Limits, seen, fail)
}

// seccompFilter is the mode in which a filter decides.
const seccompFilter = 2

func checkLimits(want execution.Limits, seen surroundings, fail func(control, format string, args ...any) error) error {
	got := seen.facts.Limits
	// A limit may be read as a little less: kernels round down to pages. It
	// must be known, unless the runtime hides it.
	holds := func(limit, got int64) bool {
		return (got > 0 && got <= limit) || (got == guest.UnknownLimit && seen.ownKernel)
	}
	if want.Memory > 0 && !holds(want.Memory, got.Memory) {
		return fail("memory limit", "%s instead of %d bytes; the relaxation %q does without",
			limitText(got.Memory), want.Memory, execution.RelaxMemory)
	}
	if want.Memory > 0 && got.Swap != 0 && !seen.noSwapAtAll && !seen.ownKernel {
		return fail("memory limit", "swap comes on top of it; turn swap accounting on (swapaccount=1) or swap off, "+
			"or use the relaxation %q", execution.RelaxMemory)
	}
	if want.PIDs > 0 && got.PIDs == guest.UnknownLimit && seen.ownKernel {
		return fail("pid limit", "it counts the threads of the runtime's own kernel, and at the limit the whole sandbox dies; "+
			"the relaxation %q does without, and the memory limit still bounds them", execution.RelaxPIDs)
	}
	if want.PIDs > 0 && !holds(want.PIDs, got.PIDs) {
		return fail("pid limit", "%s instead of %d; the relaxation %q does without", limitText(got.PIDs), want.PIDs, execution.RelaxPIDs)
	}
	if want.CPUs > 0 {
		quota := got.CPUQuota
		if quota > 0 && got.CPUPeriod > 0 {
			quota = int64(math.Round(float64(quota) / float64(got.CPUPeriod) * 1000))
		}
		// To a thousandth, since quotas are in whole microseconds.
		if !holds(int64(math.Ceil(want.CPUs*1000)), quota) {
			return fail("cpu limit", "%s/%d us instead of %v processors; the relaxation %q does without",
				limitText(got.CPUQuota), got.CPUPeriod, want.CPUs, execution.RelaxCPUs)
		}
	}
	return nil
}

func limitText(n int64) string {
	switch {
	case n == guest.Unlimited:
		return "unlimited"
	case n < 0:
		return "unknown"
	}
	return fmt.Sprint(n)
}

// ownKernel reports whether the runtime brings its own kernel, and which: the
// release inside is then not the engine's. For runc and crun it is not looked
// at, so that it costs nothing where it matters.
func (c *Context) ownKernel(ctx context.Context, h *handle) (own bool, version string) {
	if h.spec.Runtime == "runc" || h.spec.Runtime == "crun" || c.info.Kernel == "" {
		return false, ""
	}
	version, err := readSmall(ctx, h.client, "/proc/version")
	return err == nil && !strings.Contains(version, c.info.Kernel), version
}

// isGVisor knows gVisor's kernel by what it says of itself: for years the same
// build of Linux 4.4, later its name.
func isGVisor(version string) bool {
	return strings.Contains(version, "#1 SMP Sun Jan 10 15:06:54 PST 2016") || strings.Contains(version, "gvisor")
}

// hostHasNoSwap reads what the kernel tells of the whole machine.
func hostHasNoSwap(ctx context.Context, client *guest.Client) bool {
	text, err := readSmall(ctx, client, "/proc/meminfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "SwapTotal:" {
			return fields[1] == "0"
		}
	}
	return false
}
