package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-dev/pinfold/execution"
)

// planOf is what the arguments of `pinfold run` amount to.
func planOf(args ...string) (*plan, error) {
	var f runFlags
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	f.register(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return f.plan(flags.Args(), flags.Changed, hostEnv)
}

// Each flag ends up where the contract has its place for it, and nothing else
// is set.
func TestFlagsBecomeAPlan(t *testing.T) {
	t.Parallel()
	echo := execution.Command{Args: []string{"echo"}}
	for _, row := range []struct {
		flags   string
		backend string
		spec    execution.Spec
		command execution.Command
	}{
		{flags: ""},
		{flags: "--backend process", backend: backendProcess},
		{flags: "--image debian:12 --pull never --platform linux/arm64", spec: execution.Spec{
			Image: "debian:12", Pull: execution.PullNever, Platform: "linux/arm64",
		}},
		{flags: "-e A=1 --env B=2 -e HOME", command: execution.Command{Env: []string{"A=1", "B=2", "HOME=/home/me"}}},
		{flags: "-w /src", spec: execution.Spec{Dir: "/src"}},
		{flags: "--workdir sub/dir", command: execution.Command{Dir: "sub/dir"}},
		{flags: "-u 0:0", spec: execution.Spec{User: "0:0"}},
		{flags: "-m 512m --cpus 1.5 --pids-limit 64", spec: execution.Spec{
			Limits: execution.Limits{Memory: 512 << 20, CPUs: 1.5, PIDs: 64},
		}},
		{flags: "--network bridge --runtime runsc --read-only", spec: execution.Spec{
			Network: "bridge", Runtime: "runsc", ReadOnly: true,
		}},
		{flags: "--name a -l k=v --label x --label u=1=2", spec: execution.Spec{
			Name: "a", Labels: map[string]string{"k": "v", "x": "", "u": "1=2"},
		}},
		{flags: "--profile dev --relax memory,pids --relax pids", spec: execution.Spec{
			Profile: execution.ProfileDev, Relax: []execution.Relaxation{execution.RelaxMemory, execution.RelaxPIDs},
		}},
		{flags: "-v /a:/b:ro --tmpfs /c", spec: execution.Spec{Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: "/a", Target: "/b", ReadOnly: true}, {Type: execution.MountTmpfs, Target: "/c"},
		}}},
		{flags: "--timeout 90 --output-limit 1m --grace 2s", command: execution.Command{
			Timeout: 90 * time.Second, OutputLimit: 1 << 20, Grace: 2 * time.Second,
		}},
		{flags: "--grace 0", command: execution.Command{Grace: -1}},
		{flags: "-t -e TERM=dumb", command: execution.Command{Env: []string{"TERM=xterm", "TERM=dumb"}}},
	} {
		p, err := planOf(append(strings.Fields(row.flags), "echo")...)
		if err != nil {
			t.Errorf("%q: %v", row.flags, err)
			continue
		}
		row.command.Args = echo.Args
		if row.backend == "" {
			row.backend = backendDocker
		}
		if p.backend != row.backend || !reflect.DeepEqual(p.spec, row.spec) || !reflect.DeepEqual(p.command, row.command) {
			t.Errorf("%q is planned as %s\n%+v\n%+v", row.flags, p.backend, p.spec, p.command)
		}
	}
}

// Flags end at the first word of the command, as docker's do.
func TestFlagsEndAtTheCommand(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, command []string }{
		{[]string{"ls", "-it", "--json"}, []string{"ls", "-it", "--json"}},
		{[]string{"--", "ls", "-l"}, []string{"ls", "-l"}},
		{[]string{"-i", "--", "--odd"}, []string{"--odd"}},
		{[]string{"ls", "--", "-l"}, []string{"ls", "--", "-l"}},
	} {
		p, err := planOf(row.args...)
		if err != nil || !reflect.DeepEqual(p.command.Args, row.command) || p.json {
			t.Errorf("%q: %+v, %v", row.args, p, err)
		}
	}
	p, err := planOf("-itq", "-c", "a && b")
	if err != nil || p.command.Shell != "a && b" || len(p.command.Args) > 0 || !p.interactive || !p.tty || !p.quiet {
		t.Errorf("-itq -c: %+v, %v", p, err)
	}
}

// An image of ours may be called by its short name.
func TestImagesOfOursByName(t *testing.T) {
	t.Parallel()
	p, err := planOf("--image", "minimal", "true")
	if err != nil || !strings.Contains(p.spec.Image, "/minimal:") {
		t.Errorf("--image minimal is planned as %+v, %v", p, err)
	}
}

// What makes no sense is an error that says what would.
func TestUsageMistakes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		says string
	}{
		{nil, "run [flags] -- CMD"},
		{[]string{""}, "name is empty"},
		{[]string{"-c", ""}, "want a shell line"},
		{[]string{"-c", "echo", "hi"}, "put the line in quotes"},
		{[]string{"--json", "-t", "x"}, "exclude each other"},
		{[]string{"--keep", "--backend", "process", "x"}, "needs --backend docker"},
		{[]string{"-m", "0", "x"}, "--relax memory"},
		{[]string{"-m", "-1", "x"}, "negative"},
		{[]string{"-m", "1", "x"}, "at least"},
		{[]string{"-m", "lots", "x"}, "512m"},
		{[]string{"-m", "9999999g", "x"}, "memory limit"},
		{[]string{"--cpus", "0", "x"}, "--relax cpus"},
		{[]string{"--cpus", "-1", "x"}, "--relax cpus"},
		{[]string{"--cpus", "NaN", "x"}, "--relax cpus"},
		{[]string{"--cpus", "1e9", "x"}, "processors"},
		{[]string{"--pids-limit", "-1", "x"}, "--relax pids"},
		{[]string{"--pids-limit", "1", "x"}, "at least"},
		{[]string{"-m", "1g", "--relax", "memory", "x"}, "choose one"},
		{[]string{"--relax", "everything", "x"}, "seccomp"},
		{[]string{"--timeout", "-1s", "x"}, "negative"},
		{[]string{"--timeout", "soon", "x"}, "90s"},
		{[]string{"--output-limit", "-1", "x"}, "negative"},
		{[]string{"--backend", "podman", "x"}, "docker or process"},
		{[]string{"--profile", "root", "x"}, "default or dev"},
		{[]string{"--pull", "often", "x"}, "missing, always or never"},
		{[]string{"--label", "dev.pinfold.owner=me", "x"}, "reserved"},
		{[]string{"--label", "=v", "x"}, "want key=value"},
		{[]string{"-e", "=v", "x"}, "want NAME=value"},
		{[]string{"--env-file", "/does/not/exist", "x"}, "--env-file"},
		{[]string{"-v", "/a:b", "x"}, "absolute path"},
		{[]string{"--tmpfs", "/", "x"}, "other than /"},
		{[]string{"-w", "/a\x00b", "x"}, "NUL"},
		{[]string{"a\x00b"}, "NUL"},
	} {
		p, err := planOf(row.args...)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q: plan %+v, error %v; want one that says %q", row.args, p, err, row.says)
		}
	}
}

// A flag of docker's that has no place here is answered with what to do.
func TestDockerFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--rm", "--privileged", "--cap-add", "--entrypoint", "-p", "--net", "--memory-swap", "--gpus"} {
		_, err := planOf(flag, "x")
		if err == nil {
			t.Errorf("%s is accepted", flag)
			continue
		}
		if text := dockerHint(err).Error(); !strings.HasSuffix(text, ")") {
			t.Errorf("%s: no hint in %q", flag, text)
		}
	}
}

func TestRelaxedSaysEverythingThatIs(t *testing.T) {
	t.Parallel()
	if list := relaxed(execution.Spec{Network: execution.NetworkNone, Profile: execution.ProfileDefault, User: "1000"}); len(list) != 0 {
		t.Errorf("the default profile is said to be relaxed: %q", list)
	}
	list := relaxed(execution.Spec{
		Profile: execution.ProfileDev, Network: "bridge", User: "root:root",
		Relax: []execution.Relaxation{execution.RelaxMemory, execution.RelaxPIDs, execution.RelaxCPUs, execution.RelaxSeccomp},
		Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: "/src", Target: "/dst"},
			{Type: execution.MountBind, Source: "/safe", Target: "/safe", ReadOnly: true},
			{Type: execution.MountTmpfs, Target: "/tmp"},
		},
		Limits: execution.Limits{Memory: 64 << 30, PIDs: 9999, CPUs: 64},
	})
	text := strings.Join(list, "; ")
	for _, part := range []string{"profile dev", "bridge", "user root", "no memory limit", "processes", "processors", "system call", "/src", "64 GiB", "9999 processes", "64 processors"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not tell of %s", text, part)
		}
	}
	if strings.Contains(text, "/safe") || strings.Contains(text, "tmp") {
		t.Errorf("%q tells of what is not relaxed", text)
	}
}
