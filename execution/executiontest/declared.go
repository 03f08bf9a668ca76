package executiontest

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func declaredCases() []check {
	cases := []check{
		{"absurd_limits_are_refused", declaredAbsurd},
		{"senseless_mounts_are_refused", declaredMounts},
		{"spec_with_several_fields", declaredSeveral},
	}
	for _, f := range fields() {
		cases = append(cases, check{"undeclared_" + f.name, func(ctx context.Context, e *env) { declaredField(ctx, e, f) }})
	}
	return cases
}

// A field is a part of a Spec that needs a capability.
type field struct {
	name string // of the case
	word string // that an error about it must hold
	can  func(execution.Capabilities) bool
	set  func(*execution.Spec)
}

func fields() []field {
	type caps = execution.Capabilities
	type spec = execution.Spec
	return []field{
		{"image", "image", func(c caps) bool { return c.Images }, func(s *spec) { s.Image = "debian:12" }},
		{"platform", "platform", func(c caps) bool { return c.Images }, func(s *spec) { s.Platform = "linux/amd64" }},
		{"pull", "pull", func(c caps) bool { return c.Images }, func(s *spec) { s.Pull = execution.PullNever }},
		{"name", "name", func(c caps) bool { return c.Names }, func(s *spec) { s.Name = "executiontest" }},
		{"user", "user", func(c caps) bool { return c.Users }, func(s *spec) { s.User = "1000:1000" }},
		{"mounts", "mount", func(c caps) bool { return c.Mounts }, func(s *spec) {
			s.Mounts = []execution.Mount{{Type: execution.MountTmpfs, Target: "/mnt/executiontest"}}
		}},
		{"readonly_root", "read-only", func(c caps) bool { return c.ReadOnlyRoot }, func(s *spec) { s.ReadOnly = true }},
		{"network", "network", func(c caps) bool { return c.Networks }, func(s *spec) { s.Network = execution.NetworkNone }},
		{"runtime", "runtime", func(c caps) bool { return c.Runtimes }, func(s *spec) { s.Runtime = "runsc" }},
		{"profile", "profile", func(c caps) bool { return c.Profiles }, func(s *spec) { s.Profile = execution.ProfileDefault }},
		{"relax", "relax", func(c caps) bool { return c.Profiles }, func(s *spec) {
			s.Relax = []execution.Relaxation{execution.RelaxSeccomp}
		}},
		{"labels", "label", func(c caps) bool { return c.Labels }, func(s *spec) { s.Labels = map[string]string{"a": "b"} }},
		{"detach", "detach", func(c caps) bool { return c.Attach }, func(s *spec) { s.Detach, s.Lifetime = true, time.Hour }},
		{"lifetime", "lifetime", func(c caps) bool { return c.Lifetimes }, func(s *spec) { s.Lifetime = time.Hour }},
		{"idle_timeout", "idle", func(c caps) bool { return c.Lifetimes }, func(s *spec) { s.IdleTimeout = time.Hour }},
		{"memory_limit", "memory", func(c caps) bool { return c.MemoryLimit }, func(s *spec) { s.Limits.Memory = 1 << 30 }},
		{"cpu_limit", "cpu", func(c caps) bool { return c.CPULimit }, func(s *spec) { s.Limits.CPUs = 1 }},
		{"pid_limit", "pid", func(c caps) bool { return c.PIDLimit }, func(s *spec) { s.Limits.PIDs = 100 }},
		{"storage_limit", "storage", func(c caps) bool { return c.StorageLimit }, func(s *spec) { s.Limits.Storage = 1 << 30 }},
	}
}

// declaredField checks that a field which the backend does not declare is
// refused by name. That declared ones hold is checked under "limits".
func declaredField(ctx context.Context, e *env, f field) {
	if f.can(e.can()) {
		e.Skip("the backend declares it")
	}
	spec := e.spec()
	f.set(&spec)
	_, err := e.trySpawn(ctx, spec)
	e.wantError(err, execution.ErrUnsupported, "Spawn with an undeclared "+f.name)
	if !errors.Is(err, errors.ErrUnsupported) {
		e.Errorf("the error %q does not match errors.ErrUnsupported", err)
	}
	if !strings.Contains(strings.ToLower(err.Error()), f.word) {
		e.Errorf("the error %q does not name the field %q", err, f.name)
	}
}

// declaredSeveral checks that an undeclared field is also refused in company.
func declaredSeveral(ctx context.Context, e *env) {
	can := e.can()
	var undeclared []field
	for _, f := range fields() {
		if !f.can(can) {
			undeclared = append(undeclared, f)
		}
	}
	if len(undeclared) == 0 {
		e.Skip("the backend declares everything")
	}
	for _, f := range undeclared {
		spec := e.spec()
		for _, other := range undeclared {
			other.set(&spec)
		}
		f.set(&spec)
		_, err := e.trySpawn(ctx, spec)
		e.wantError(err, execution.ErrUnsupported, "Spawn with several undeclared fields")
	}
}

// refused fails the case unless Spawn refuses a spec as senseless, or as not
// supported where the backend does not declare the field.
func (e *env) refused(ctx context.Context, spec execution.Spec, declared bool, what string) {
	e.Helper()
	_, err := e.trySpawn(ctx, spec)
	if !declared && errors.Is(err, execution.ErrUnsupported) {
		return
	}
	e.wantError(err, execution.ErrInvalid, "Spawn with "+what)
}

func declaredAbsurd(ctx context.Context, e *env) {
	can := e.can()
	for what, limits := range map[string]execution.Limits{
		"negative memory":        {Memory: -1},
		"a byte of memory":       {Memory: 1},
		"memory beyond measure":  {Memory: math.MaxInt64},
		"negative processors":    {CPUs: -1},
		"no number of them":      {CPUs: math.NaN()},
		"infinite processors":    {CPUs: math.Inf(1)},
		"a trace of a processor": {CPUs: 1e-9},
		"negative processes":     {PIDs: -1},
		"one process":            {PIDs: 1},
		"endless processes":      {PIDs: math.MaxInt64},
		"negative storage":       {Storage: -1},
		"endless storage":        {Storage: math.MaxInt64},
	} {
		spec := e.spec()
		spec.Limits = limits
		declared := limits.Memory != 0 && can.MemoryLimit || limits.CPUs != 0 && can.CPULimit ||
			limits.PIDs != 0 && can.PIDLimit || limits.Storage != 0 && can.StorageLimit
		e.refused(ctx, spec, declared, what)
	}
	spec := e.spec()
	spec.Limits.Memory = 1 << 30
	spec.Relax = []execution.Relaxation{execution.RelaxMemory}
	e.refused(ctx, spec, can.MemoryLimit && can.Profiles, "a limit that is relaxed")
}

func declaredMounts(ctx context.Context, e *env) {
	for what, mount := range map[string]execution.Mount{
		"a mount of no type":          {Target: "/mnt"},
		"a mount of an unknown type":  {Type: "cloud", Target: "/mnt"},
		"a mount without a target":    {Type: execution.MountTmpfs},
		"a mount on a relative path":  {Type: execution.MountTmpfs, Target: "mnt"},
		"a mount over everything":     {Type: execution.MountTmpfs, Target: "/mnt/.."},
		"a tmpfs of a negative size":  {Type: execution.MountTmpfs, Target: "/mnt", Size: -1},
		"a tmpfs with a source":       {Type: execution.MountTmpfs, Target: "/mnt", Source: "/tmp"},
		"a bind without a source":     {Type: execution.MountBind, Target: "/mnt"},
		"a bind of a relative source": {Type: execution.MountBind, Target: "/mnt", Source: "tmp"},
		"a bind with a size":          {Type: execution.MountBind, Target: "/mnt", Source: "/", Size: 1},
		"a NUL in a target":           {Type: execution.MountTmpfs, Target: "/mnt\x00"},
	} {
		spec := e.spec()
		spec.Mounts = []execution.Mount{mount}
		e.refused(ctx, spec, e.can().Mounts, what)
	}
}
