package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/pinfold-dev/pinfold/execution"
)

// buildProbe compiles testdata/probe, which tries things from inside.
func buildProbe(t *testing.T, goarch string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "probe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// probe runs it in a sandbox: what was tried, and how it went.
func probe(t *testing.T, h execution.Handle, program []byte) map[string]string {
	t.Helper()
	err := h.WriteFile(t.Context(), "/workspace/probe", bytes.NewReader(program), execution.WriteOptions{Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"/workspace/probe"}, Timeout: time.Minute})
	if err != nil || !result.Success() {
		t.Fatalf("%v, %v, %s", result.ExitStatus, err, result.Stderr)
	}
	tried := map[string]string{}
	for line := range strings.Lines(string(result.Stdout)) {
		name, outcome, _ := strings.Cut(strings.TrimSpace(line), "\t")
		tried[name] = outcome
	}
	return tried
}

// mustWork are what developers need; all else that the probe tries must fail.
// The guest ignores the two signals, so that sending them "works".
var mustWork = []string{
	"socket AF_UNIX", "socket AF_INET", "socket AF_INET6", "socket AF_NETLINK",
	"own file", "ptrace own child", "interfaces", "loopback", "kill guest", "stop guest",
}

// ofRoot are what only the dev profile's root can do, within its own container.
var ofRoot = []string{"remove the guest", "rename the guest's folder", "write the guest", "list /proc/1/fd", "readlink /proc/1/exe", "list /proc/1/root"}

// Each attack of the threat model that a program can try from inside, tried.
func TestAttacksFromInside(t *testing.T) {
	c := newBackend(t)
	native := buildProbe(t, runtime.GOARCH)
	for _, profile := range []execution.Profile{execution.ProfileDefault, execution.ProfileDev} {
		t.Run(string(profile), func(t *testing.T) {
			h := spawn(t, c, execution.Spec{Profile: profile})
			tried := probe(t, h, native)
			if len(tried) < 50 && runtime.GOARCH == "amd64" {
				t.Errorf("only %d things were tried", len(tried))
			}
			for name, outcome := range tried {
				works := outcome == "ok"
				switch {
				case slices.Contains(mustWork, name):
					if !works {
						t.Errorf("%s must work: %s", name, outcome)
					}
				case profile == execution.ProfileDev && slices.Contains(ofRoot, name):
				case works:
					t.Errorf("%s must fail and works", name)
				}
			}
			if tried["clone3"] != "function not implemented" && tried["clone3"] != "" {
				t.Errorf("clone3: %s; libraries fall back only on ENOSYS", tried["clone3"])
			}
			// The guest has survived all of it.
			if got := shell(t, h, "echo alive"); got != "alive\n" {
				t.Errorf("the sandbox: %q", got)
			}
		})
	}
}

// A 64-bit kernel has 32-bit ways to the same things.
func TestAttacksByThe32BitWay(t *testing.T) {
	c := newBackend(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has them")
	}
	h := spawn(t, c, execution.Spec{})
	for name, outcome := range probe(t, h, buildProbe(t, "386")) {
		works := outcome == "ok"
		if slices.Contains(mustWork, name) || name == "loopback" {
			continue // Whether 32-bit programs run well is another matter.
		}
		if works {
			t.Errorf("%s must fail and works", name)
		}
	}
}

// The relaxation lifts the filter, which shows that it is the filter that
// refuses, and nothing else about the sandbox.
func TestRelaxedFilter(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{Relax: []execution.Relaxation{execution.RelaxSeccomp}})
	if got := shell(t, h, "grep -E '^(Seccomp|NoNewPrivs|CapBnd):' /proc/self/status"); !strings.Contains(got, "Seccomp:\t0") ||
		!strings.Contains(got, "NoNewPrivs:\t1") || !strings.Contains(got, "CapBnd:\t0000000000000000") {
		t.Errorf("got %q", got)
	}
}

// A secret in the sandbox's or a command's environment shows in nothing that
// the engine tells, and in no other command.
func TestSecretsDoNotShow(t *testing.T) {
	c := newBackend(t)
	const canary = "canary-8f14e45f"
	begun := time.Now()
	h := spawn(t, c, execution.Spec{Env: []string{"SANDBOX_SECRET=" + canary + "-1"}})
	if got := shell(t, h, "echo $SANDBOX_SECRET"); got != canary+"-1\n" {
		t.Errorf("the command sees %q", got)
	}
	secret := execution.Command{Shell: "echo $COMMAND_SECRET; sleep 1000", Env: []string{"COMMAND_SECRET=" + canary + "-2"}}
	proc, err := h.Start(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	info, err := world.plain.ContainerInspect(t.Context(), h.ID())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]any{"inspect": info, "Spec": h.Spec(), "List": list} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("the secret shows in %s", what)
		}
	}
	if got := shell(t, h, "cat /proc/1/cmdline /proc/1/environ 2>/dev/null; env"); strings.Contains(got, canary+"-2") {
		t.Error("the command's secret shows to another command")
	}
	if err := proc.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if told := eventsSince(t, begun); strings.Contains(told, canary) || !strings.Contains(told, h.ID()) {
		t.Errorf("the engine's events: %s", told)
	}
}

// eventsSince is all that the engine told of our containers.
func eventsSince(t *testing.T, begun time.Time) string {
	t.Helper()
	var told strings.Builder
	messages, errs := world.plain.Events(t.Context(), events.ListOptions{
		Since: begun.Add(-time.Second).Format(time.RFC3339Nano), Until: time.Now().Add(time.Second).Format(time.RFC3339Nano),
		Filters: filters.NewArgs(filters.Arg("label", labelProcess+"="+processID())),
	})
	for {
		select {
		case m := <-messages:
			data, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			told.Write(data)
		case err := <-errs:
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return told.String()
		}
	}
}

// Filling a tmpfs with bytes or with files ends at its size.
func TestTmpfsIsBounded(t *testing.T) {
	c := newBackend(t)
	h := spawn(t, c, execution.Spec{ReadOnly: true, Mounts: []execution.Mount{
		{Type: execution.MountTmpfs, Target: "/small", Size: 4 << 20},
	}})
	err := h.WriteFile(t.Context(), "/small/file", bytes.NewReader(make([]byte, 8<<20)), execution.WriteOptions{})
	if !errors.Is(err, execution.ErrNoSpace) {
		t.Errorf("bytes: got %v, want ErrNoSpace", err)
	}
	got := shell(t, h, `i=0; while touch /small/$i 2>/dev/null; do i=$((i+1)); [ $i -gt 5000 ] && break; done; echo $i`)
	if strings.TrimSpace(got) == "5001" {
		t.Error("there is no bound on the number of files")
	}
	// Programs in it can be run: it stands for a disk.
	if got := shell(t, h, `rm -rf /small/*; printf '#!/bin/sh\necho ran\n' >/small/x; chmod +x /small/x; /small/x`); got != "ran\n" {
		t.Errorf("a program in it: %q", got)
	}
}

// One sandbox cannot see, signal or share memory with another.
func TestNeighboursDoNotMeet(t *testing.T) {
	c := newBackend(t)
	a, b := spawn(t, c, execution.Spec{}), spawn(t, c, execution.Spec{})
	if _, err := a.Start(t.Context(), execution.Command{Args: []string{"sleep", "424242"}}); err != nil {
		t.Fatal(err)
	}
	shell(t, a, "echo secret >/dev/shm/shared; echo secret >/tmp/shared")
	if got := shell(t, b, "ps | grep -c '[4]24242' ; ls /dev/shm /tmp; hostname"); strings.Contains(got, "shared") || !strings.HasPrefix(got, "0\n") {
		t.Errorf("got %q", got)
	}
}
