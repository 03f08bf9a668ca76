// Package fakekit lets executiontest check the fake backend: the vocabulary of
// the kit as programs of the fake, and a harness around them. It is apart
// because the tests of both packages use it.
package fakekit

import (
	"sync"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// bindDir is the one folder of the host that can be bound.
const bindDir = "/home/user/project"

// Options are opts with the kit's vocabulary added.
func Options(opts fake.Options) fake.Options {
	opts.Programs = map[string]fake.Program{}
	for script, program := range programs() {
		opts.Programs[string(script)] = program
	}
	opts.Shell = shell
	opts.Binds = []string{bindDir}
	return opts
}

// Command is the executiontest.Harness.Command of the fake: the script is the
// name of a program, or a shell line where it has no arguments.
func Command(script executiontest.Script, args ...string) execution.Command {
	if len(args) == 0 {
		return execution.Command{Shell: string(script)}
	}
	return execution.Command{Args: append([]string{string(script)}, args...)}
}

// Harness is one for fakes with opts, each of them handed to wrap first.
func Harness(opts fake.Options, wrap func(execution.Context) execution.Context) executiontest.Harness {
	var mu sync.Mutex
	var made []*fake.Backend
	return executiontest.Harness{
		Command:   Command,
		FakeClock: true,
		NoShell:   &execution.Spec{Image: fake.NoShellImage},
		New: func(testing.TB) execution.Context {
			backend := fake.New(Options(opts))
			mu.Lock()
			defer mu.Unlock()
			made = append(made, backend)
			return wrap(backend)
		},
		Kill: func(_ testing.TB, h execution.Handle) { Unwrap(h).Die("shot by the test") },
		Alive: func(_ testing.TB, h execution.Handle, pid int) bool {
			for _, p := range Unwrap(h).Processes() {
				if p.PID == pid {
					return true
				}
			}
			return false
		},
		Inventory: func(testing.TB) (items []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, backend := range made {
				for _, h := range backend.Handles() {
					items = append(items, "sandbox "+h.ID())
				}
			}
			return items
		},
		BindDir: func(testing.TB) string {
			return bindDir
		},
	}
}

// Unwrap is the fake's own handle behind those that wrap it.
func Unwrap(h execution.Handle) *fake.Handle {
	for {
		if own, ok := h.(*fake.Handle); ok {
			return own
		}
		wrapper, ok := h.(interface{ Unwrap() execution.Handle })
		if !ok {
			panic("fakekit: no handle of the fake")
		}
		h = wrapper.Unwrap()
	}
}
