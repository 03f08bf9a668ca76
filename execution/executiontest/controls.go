package executiontest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func limitUser(ctx context.Context, e *env) {
	e.declares(e.can().Users)
	spec := e.spec()
	spec.User = "1234:2345"
	h := e.spawn(ctx, spec)
	if got := e.run(ctx, h, PrintUser); got != "1234:2345\n" {
		e.Errorf("commands run as %q, want 1234:2345", got)
	}
	if got := h.Spec().User; got != spec.User {
		e.Errorf("Spec() tells the user %q, want %q", got, spec.User)
	}
}

func limitUserUnknown(ctx context.Context, e *env) {
	e.declares(e.can().Users)
	spec := e.spec()
	spec.User = "executiontest-no-such-user"
	_, err := e.trySpawn(ctx, spec)
	e.wantError(err, execution.ErrUserNotFound, "Spawn with an unknown user")
	if !strings.Contains(err.Error(), spec.User) {
		e.Errorf("the error %q does not name the user", err)
	}
}

func limitNetwork(ctx context.Context, e *env) {
	e.declares(e.can().Networks)
	for _, network := range []string{"", execution.NetworkNone} {
		spec := e.spec()
		spec.Network = network
		h := e.spawn(ctx, spec)
		if got := h.Spec().Network; got != execution.NetworkNone {
			e.Errorf("with the network %q, Spec() tells %q", network, got)
		}
		if got := e.run(ctx, h, Routes); got != "" {
			e.Errorf("with the network %q there are routes: %q", network, got)
		}
	}
}

func limitName(ctx context.Context, e *env) {
	e.declares(e.can().Names)
	first := e.sandbox(ctx)
	name := first.Spec().Name
	if name == "" {
		e.Fatal("Spec() does not tell the name that was made up")
	}
	if second := e.sandbox(ctx); second.Spec().Name == name {
		e.Errorf("two sandboxes are both called %q", name)
	}
	spec := e.spec()
	spec.Name = name + "-taken"
	h := e.spawn(ctx, spec)
	if got := h.Spec().Name; got != spec.Name {
		e.Errorf("Spec() tells the name %q, want %q", got, spec.Name)
	}
	_, err := e.trySpawn(ctx, spec)
	e.wantError(err, execution.ErrConflict, "Spawn with a name that is taken")
	e.run(ctx, h, Print, "", "", "0")
	if err := h.Destroy(ctx); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.spawn(ctx, spec) // the name is free again
}

func limitLabels(ctx context.Context, e *env) {
	e.declares(e.can().Labels)
	spec := e.spec()
	spec.Labels = map[string]string{"executiontest": "a value = \"with\" everything"}
	h := e.spawn(ctx, spec)
	for name, want := range spec.Labels {
		if got := h.Spec().Labels[name]; got != want {
			e.Errorf("Spec() tells the label %q, want %q", got, want)
		}
	}
	for _, name := range []string{"", execution.LabelPrefix + "owner"} {
		spec.Labels = map[string]string{name: "x"}
		_, err := e.trySpawn(ctx, spec)
		e.wantError(err, execution.ErrInvalid, "Spawn with a label that is not the host's")
	}
}

func limitProfiles(ctx context.Context, e *env) {
	e.declares(e.can().Profiles)
	if got := e.sandbox(ctx).Spec().Profile; got == "" {
		e.Error("Spec() does not tell the profile that is in force")
	}
	for _, profile := range []execution.Profile{execution.ProfileDefault, execution.ProfileDev} {
		spec := e.spec()
		spec.Profile = profile
		h := e.spawn(ctx, spec)
		if got := h.Spec().Profile; got != profile {
			e.Errorf("Spec() tells the profile %q, want %q", got, profile)
		}
		e.run(ctx, h, Print, "", "", "0")
	}
	spec := e.spec()
	spec.Relax = []execution.Relaxation{execution.RelaxMemory, execution.RelaxPIDs, execution.RelaxCPUs, execution.RelaxSeccomp}
	h := e.spawn(ctx, spec)
	if limits := h.Spec().Limits; limits.Memory != 0 || limits.PIDs != 0 || limits.CPUs != 0 {
		e.Errorf("all limits were lifted, and Spec() tells %+v", limits)
	}
	e.run(ctx, h, Print, "", "", "0")
}

func limitImage(ctx context.Context, e *env) {
	e.declares(e.can().Images)
	if got := e.sandbox(ctx).Spec().Image; got == "" {
		e.Error("Spec() does not tell the image that is in force")
	}
	spec := e.spec()
	spec.Image, spec.Pull = "executiontest.invalid/no/such-image:1", execution.PullNever
	_, err := e.trySpawn(ctx, spec)
	e.wantError(err, execution.ErrImage, "Spawn of an unknown image")
	if !strings.Contains(err.Error(), spec.Image) {
		e.Errorf("the error %q does not name the image", err)
	}
}

func limitRuntime(ctx context.Context, e *env) {
	e.declares(e.can().Runtimes)
	spec := e.spec()
	spec.Runtime = "executiontest-no-such-runtime"
	_, err := e.trySpawn(ctx, spec)
	if _, ok := errors.AsType[*execution.Error](err); !ok {
		e.Fatalf("Spawn with an unknown runtime: got %v, want an *execution.Error", err)
	}
	if !strings.Contains(err.Error(), spec.Runtime) {
		e.Errorf("the error %q does not name the runtime", err)
	}
}

func limitIsolation(ctx context.Context, e *env) {
	e.declares(e.can().Isolation)
	secret := filepath.Join(e.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil { //nolint:gosec // it is to be readable
		e.Fatal(err)
	}
	h := e.sandbox(ctx)
	if _, err := h.Stat(ctx, secret); !errors.Is(err, execution.ErrNotFound) {
		e.Errorf("the sandbox sees a file of the host (Stat: %v)", err)
	}
	if result := e.exec(ctx, h, e.command(Load, secret)); result.Success() {
		e.Errorf("a command reads %q from the host", result.Stdout)
	}
}
