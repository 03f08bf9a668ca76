package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pinfold-dev/pinfold/cmd/pinfold/internal/cli"
)

// asPinfold makes the test binary be pinfold.
const asPinfold = "PINFOLD_TEST_AS_PINFOLD"

func TestMain(m *testing.M) {
	if os.Getenv(asPinfold) != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
	// Whoever runs the tests may ignore it, as nohup does. What is received is
	// not ignored in the programs that are started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	testscript.Main(m, map[string]func(){
		"pinfold": func() { os.Exit(cli.Main(os.Args[1:])) },
	})
}

// The scripts in testdata/process run pinfold on the process backend, so they
// need no engine.
func TestProcessScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/process",
		RequireExplicitExec: true,
		Cmds:                commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("DOCKER_HOST", "unix://"+env.WorkDir+"/no-engine.sock")
			return nil
		},
	})
}

// The scripts in testdata/docker run pinfold on an engine.
func TestDockerScripts(t *testing.T) {
	requireEngine(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/docker",
		RequireExplicitExec: true,
		Cmds:                commands(),
		Setup: func(env *testscript.Env) error {
			// HOME is where the engine's address may be configured.
			for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "HOME"} {
				if value, ok := os.LookupEnv(name); ok {
					env.Setenv(name, value)
				}
			}
			label := fmt.Sprintf("pinfold-cli-%d-%d", os.Getpid(), time.Now().UnixNano())
			env.Setenv("T", label)
			env.Defer(func() { removeLabelled(t, label) })
			return giveAway(env.WorkDir)
		},
	})
}

// removeLabelled removes the sandboxes that a script which failed has left.
func removeLabelled(t *testing.T, label string) {
	t.Helper()
	cleanup := context.WithoutCancel(t.Context())
	out, err := pinfoldUntil(cleanup, "ps", "--json").Output()
	var listed []struct {
		ID     string
		Labels map[string]string
	}
	if err == nil {
		err = json.Unmarshal(out, &listed)
	}
	for _, sandbox := range listed {
		if sandbox.Labels["t"] == label {
			err = errors.Join(err, pinfoldUntil(cleanup, "rm", "-f", sandbox.ID).Run())
		}
	}
	if err != nil {
		t.Errorf("removing what %s has left: %v", label, err)
	}
}

// giveAway makes a folder the sandbox user's where root runs the tests, since
// root's own are refused as writable mounts.
func giveAway(folder string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 1000, 1000))
	})
}

// requireEngine skips a test where no engine has our images, and fails it where
// there must be one.
func requireEngine(t *testing.T) {
	t.Helper()
	out, err := pinfold(t, "images", "list", "--json").CombinedOutput()
	var listed []struct{ Present bool }
	if err == nil {
		err = json.Unmarshal(out, &listed)
	}
	for _, image := range listed {
		if err == nil && !image.Present {
			err = errors.New("the engine lacks our images: run make images")
		}
	}
	switch {
	case err == nil:
	case os.Getenv("PINFOLD_REQUIRE_DOCKER") == "1":
		t.Fatalf("%v\n%s", err, out)
	default:
		t.Skipf("%v\n%s", err, out)
	}
}

type command = func(ts *testscript.TestScript, neg bool, args []string)

func commands() map[string]command {
	return map[string]command{"exits": exits, "is": is, "repeat": repeat, "await": awaitFile}
}

// exits CODE PROGRAM [ARG…] runs a program that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [arg…]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// is PATH VALUE compares one value in the JSON object on standard output. PATH
// is keys with dots between them. Strings are compared as they are, everything
// else as JSON.
func is(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] is path value")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &value); err != nil {
		ts.Fatalf("standard output is not one JSON value: %v", err)
	}
	for key := range strings.SplitSeq(args[0], ".") {
		object, ok := value.(map[string]any)
		if !ok {
			ts.Fatalf("%s: nothing has the key %s", args[0], key)
		}
		value = object[key]
	}
	got, ok := value.(string)
	if !ok {
		text, err := json.Marshal(value)
		ts.Check(err)
		got = string(text)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], got)
	}
}

// repeat N FILE TEXT makes a file of N copies of TEXT.
func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat n file text")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Repeat(args[2], n)), 0o600))
}

// awaitFile FILE waits until a file is there.
func awaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await file")
	}
	if !await(func() bool { _, err := os.Stat(ts.MkAbs(args[0])); return err == nil }) {
		ts.Fatalf("%s has not come", args[0])
	}
}

// hang is how long a test waits for what should come at once. It decides that
// something hangs, and nothing else.
const hang = time.Minute

// await asks again and again, since there is nothing to wait on, and reports
// whether it was so in the end.
func await(so func() bool) bool {
	for began := time.Now(); time.Since(began) < hang; time.Sleep(10 * time.Millisecond) {
		if so() {
			return true
		}
	}
	return false
}

// pinfold is a command that runs this test binary as pinfold.
func pinfold(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return pinfoldUntil(t.Context(), args...)
}

func pinfoldUntil(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPinfold+"=1")
	return cmd
}

// code is the exit code that err tells, in the words of a shell.
func code(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case !errors.As(err, &exit):
		return err.Error()
	case exit.ExitCode() < 0:
		return exit.String()
	}
	return fmt.Sprint(exit.ExitCode())
}
