package executiontest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

func cwdEnvCases() []check {
	return []check{
		{"default_directory", cwdDefault},
		{"relative_directory", cwdRelative},
		{"absolute_directory", cwdAbsolute},
		{"missing_directory", cwdMissing},
		{"directory_is_a_file", cwdFile},
		{"spawn_in_another_directory", cwdSpawn},
		{"spawn_in_a_missing_directory", cwdSpawnMissing},
		{"env_of_the_command", envCommand},
		{"env_of_the_sandbox", envSandbox},
		{"env_of_the_host_stays_out", envHost},
		{"invalid_env", envInvalid},
	}
}

// dir asks a command where it is.
func (e *env) dir(ctx context.Context, h execution.Handle, dir string) string {
	e.Helper()
	cmd := e.command(PrintDir)
	cmd.Dir = dir
	result := e.exec(ctx, h, cmd)
	e.wantExit(result.ExitStatus, 0)
	return strings.TrimSuffix(string(result.Stdout), "\n")
}

func cwdDefault(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	if !strings.HasPrefix(h.Dir(), "/") {
		e.Errorf("Dir is %q, which is not absolute", h.Dir())
	}
	for _, dir := range []string{"", ".", h.Dir()} {
		if got := e.dir(ctx, h, dir); got != h.Dir() {
			e.Errorf("with the directory %q a command is in %q, want %q", dir, got, h.Dir())
		}
	}
	e.write(ctx, h, "here", "content")
	if got := e.run(ctx, h, Load, h.Dir()+"/here"); got != "content" {
		e.Errorf("a file of the working directory reads as %q", got)
	}
}

func cwdRelative(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, dir := range []string{"sub", "a b/$(c)/'d'", "-dash", "\xff\xfe"} {
		e.write(ctx, h, dir+"/file", "")
		if got, want := e.dir(ctx, h, dir), h.Dir()+"/"+dir; got != want {
			e.Errorf("with the directory %q a command is in %q, want %q", dir, got, want)
		}
	}
	if got := e.dir(ctx, h, "sub/.."); got != h.Dir() {
		e.Errorf("with the directory sub/.. a command is in %q, want %q", got, h.Dir())
	}
}

func cwdAbsolute(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	if got := e.dir(ctx, h, "/"); got != "/" {
		e.Errorf("with the directory / a command is in %q", got)
	}
}

func cwdMissing(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, dir := range []string{"no/such dir", h.Dir() + "/neither", "/no-such-root"} {
		cmd := e.command(PrintDir)
		cmd.Dir = dir
		err := startError(ctx, e, h, cmd)
		e.wantError(err, execution.ErrDirNotFound, "Start in a missing directory")
		if !strings.Contains(err.Error(), dir) {
			e.Errorf("the error %q does not name the directory %q", err, dir)
		}
	}
	e.run(ctx, h, Print, "", "", "0")
}

func cwdFile(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "content")
	cmd := e.command(PrintDir)
	cmd.Dir = "file"
	err := startError(ctx, e, h, cmd)
	if !errors.Is(err, execution.ErrDirNotFound) && !errors.Is(err, execution.ErrNotDir) {
		e.Errorf("Start in a file: error %q is neither %q nor %q", err, execution.ErrDirNotFound, execution.ErrNotDir)
	}
}

func cwdSpawn(ctx context.Context, e *env) {
	spec := e.spec()
	spec.Dir = "/"
	h := e.spawn(ctx, spec)
	if h.Dir() != "/" || h.Spec().Dir != "/" {
		e.Errorf("asked for /, got Dir %q and Spec().Dir %q", h.Dir(), h.Spec().Dir)
	}
	if got := e.dir(ctx, h, ""); got != "/" {
		e.Errorf("a command is in %q, want /", got)
	}
}

func cwdSpawnMissing(ctx context.Context, e *env) {
	spec := e.spec()
	spec.Dir = "/no/such dir"
	_, err := e.trySpawn(ctx, spec)
	e.wantError(err, execution.ErrDirNotFound, "Spawn in a missing directory")
	if !strings.Contains(err.Error(), spec.Dir) {
		e.Errorf("the error %q does not name the directory", err)
	}
	e.run(ctx, e.sandbox(ctx), Print, "", "", "0")
}

// hostileValues are what an environment variable may hold.
var hostileValues = []string{
	"", "plain", "two words", "a=b=c", "new\nline", "$(touch pwned)", "`x`", `quotes ' and "`, "\xff\xfe", "\\", "-n",
}

func envCommand(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, value := range hostileValues {
		cmd := e.command(PrintEnv, "NAME")
		cmd.Env = append(cmd.Env, "NAME=earlier", "OTHER=x", "NAME="+value)
		result := e.exec(ctx, h, cmd)
		e.wantExit(result.ExitStatus, 0)
		if string(result.Stdout) != value+"\n" {
			e.Errorf("the value %q arrived as %q", value, result.Stdout)
		}
	}
	e.wantExit(e.exec(ctx, h, e.command(PrintEnv, "NAME")).ExitStatus, 1)
}

func envSandbox(ctx context.Context, e *env) {
	spec := e.spec()
	spec.Env = append(slices.Clip(spec.Env), "FIRST=of sandbox", "SECOND=first", "SECOND=of $(sandbox)")
	h := e.spawn(ctx, spec)
	if env := h.Spec().Env; len(env) > 0 {
		e.Errorf("Spec() tells the environment %q, which may hold secrets", env)
	}
	for name, want := range map[string]string{"FIRST": "of sandbox", "SECOND": "of $(sandbox)"} {
		if got := e.run(ctx, h, PrintEnv, name); got != want+"\n" {
			e.Errorf("%s is %q in a command, want %q", name, got, want)
		}
	}
	cmd := e.command(PrintEnv, "FIRST")
	cmd.Env = append(cmd.Env, "FIRST=of command")
	if result := e.exec(ctx, h, cmd); string(result.Stdout) != "of command\n" {
		e.Errorf("a command's own variable is %q", result.Stdout)
	}
}

func envHost(ctx context.Context, e *env) {
	name := e.hostCanary()
	h := e.sandbox(ctx)
	result := e.exec(ctx, h, e.command(PrintEnv, name))
	if result.Code != 1 || len(result.Stdout) > 0 {
		e.Errorf("the host's environment got in: %q", result.Stdout)
	}
}

func envInvalid(ctx context.Context, e *env) {
	for _, entry := range []string{"NAME", "=value", "", "NAME=\x00"} {
		spec := e.spec()
		spec.Env = []string{entry}
		_, err := e.trySpawn(ctx, spec)
		e.wantError(err, execution.ErrInvalid, "Spawn with a bad environment entry")
	}
}
