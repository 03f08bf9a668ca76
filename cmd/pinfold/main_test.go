package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pinfold-dev/pinfold/cmd/pinfold/internal/cli"
)

// asPinfold makes the test binary be pinfold.
const asPinfold = "PINFOLD_TEST_AS_PINFOLD"

func TestMain(m *testing.M) {
	if os.Getenv(asPinfold) != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
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

type command = func(ts *testscript.TestScript, neg bool, args []string)

func commands() map[string]command {
	return map[string]command{"exits": exits, "is": is, "repeat": repeat}
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

// pinfold is a command that runs this test binary as pinfold.
func pinfold(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
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
