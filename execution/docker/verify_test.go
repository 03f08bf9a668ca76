package docker

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
)

// goodFacts are what the default profile is to look like inside.
func goodFacts() guest.Facts {
	return guest.Facts{
		PID: 1, UID: 1000, GID: 1000, NoNewPrivs: true, Seccomp: 2,
		Limits: guest.CgroupLimits{Memory: 2 << 30, Swap: 0, PIDs: 512, CPUQuota: 200_000, CPUPeriod: 100_000},
	}
}

// A control that the engine took and dropped fails Spawn and is named.
func TestControlsThatDoNotHold(t *testing.T) {
	for _, row := range []struct {
		name   string
		spoil  func(*guest.Facts)
		relax  execution.Relaxation // does without it
		hidden bool                 // may be hidden by a kernel of its own
	}{
		{"own process space", func(f *guest.Facts) { f.PID = 17 }, "", false},
		{"user", func(f *guest.Facts) { f.UID = 0 }, "", false},
		{"user", func(f *guest.Facts) { f.GID = 0 }, "", false},
		{"capabilities", func(f *guest.Facts) { f.CapEffective = 1 }, "", false},
		{"capabilities", func(f *guest.Facts) { f.CapAmbient = 1 << 21 }, "", false},
		{"capabilities", func(f *guest.Facts) { f.CapBounding = 1 << 12 }, "", false},
		{"capabilities", func(f *guest.Facts) { f.CapAmbient = math.MaxUint64 }, "", true},
		{"no-new-privileges", func(f *guest.Facts) { f.NoNewPrivs = false }, "", true},
		{"system call filter", func(f *guest.Facts) { f.Seccomp = 0 }, execution.RelaxSeccomp, true},
		{"system call filter", func(f *guest.Facts) { f.Seccomp = -1 }, execution.RelaxSeccomp, true},
		{"memory limit", func(f *guest.Facts) { f.Limits.Memory = guest.Unlimited }, execution.RelaxMemory, false},
		{"memory limit", func(f *guest.Facts) { f.Limits.Memory = guest.UnknownLimit }, execution.RelaxMemory, true},
		{"memory limit", func(f *guest.Facts) { f.Limits.Memory = 2<<30 + 4096 }, execution.RelaxMemory, false},
		{"memory limit", func(f *guest.Facts) { f.Limits.Swap = guest.Unlimited }, execution.RelaxMemory, true},
		{"pid limit", func(f *guest.Facts) { f.Limits.PIDs = guest.Unlimited }, execution.RelaxPIDs, false},
		{"pid limit", func(f *guest.Facts) { f.Limits.PIDs = guest.UnknownLimit }, execution.RelaxPIDs, false},
		{"cpu limit", func(f *guest.Facts) { f.Limits.CPUQuota = guest.Unlimited }, execution.RelaxCPUs, false},
		{"cpu limit", func(f *guest.Facts) { f.Limits.CPUQuota = 210_000 }, execution.RelaxCPUs, false},
		{"cpu limit", func(f *guest.Facts) { f.Limits.CPUQuota = guest.UnknownLimit }, execution.RelaxCPUs, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			facts := goodFacts()
			row.spoil(&facts)
			check := func(ownKernel bool, relax ...execution.Relaxation) error {
				spec := withDefaults(execution.Spec{Relax: relax}, "", testInfo)
				return checkControls(spec, identity{1000, 1000}, surroundings{facts: facts, ownKernel: ownKernel})
			}
			err := check(false)
			if !errors.Is(err, execution.ErrUnsupported) || !strings.HasPrefix(err.Error(), row.name+":") {
				t.Errorf("got %v, want ErrUnsupported for %s", err, row.name)
			}
			if err := check(true); (err == nil) != row.hidden {
				t.Errorf("with a kernel of its own: got %v", err)
			}
			if row.relax == "" {
				return
			}
			if err := check(false, row.relax); err != nil {
				t.Errorf("relaxed: %v", err)
			}
			if !strings.Contains(err.Error(), string(row.relax)) {
				t.Errorf("the error does not name the relaxation: %v", err)
			}
		})
	}
}

func TestControlsThatHold(t *testing.T) {
	who := identity{1000, 1000}
	spec := withDefaults(execution.Spec{}, "", testInfo)
	if err := checkControls(spec, who, surroundings{facts: goodFacts()}); err != nil {
		t.Error(err)
	}
	t.Run("limits in whole pages", func(t *testing.T) {
		facts := goodFacts()
		facts.Limits.Memory -= 4095
		if err := checkControls(spec, who, surroundings{facts: facts}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a machine without swap needs no limit on it", func(t *testing.T) {
		facts := goodFacts()
		facts.Limits.Swap = guest.UnknownLimit
		if err := checkControls(spec, who, surroundings{facts: facts, noSwapAtAll: true}); err != nil {
			t.Error(err)
		}
	})
	t.Run("dev", func(t *testing.T) {
		facts := goodFacts()
		facts.UID, facts.GID = 0, 0
		const dev = 0b11111011 // without DAC_READ_SEARCH
		facts.CapBounding, facts.CapPermitted, facts.CapEffective = dev, dev, dev
		spec := withDefaults(execution.Spec{Profile: execution.ProfileDev}, "", testInfo)
		if err := checkControls(spec, identity{}, surroundings{facts: facts}); err != nil {
			t.Error(err)
		}
		facts.CapBounding |= 1 << 27 // MKNOD
		if err := checkControls(spec, identity{}, surroundings{facts: facts}); !errors.Is(err, execution.ErrUnsupported) {
			t.Errorf("a capability too many: got %v", err)
		}
	})
}
