// Package executiontest checks a backend against the contract of package
// execution. A backend's whole test is a call:
//
//	func TestConformance(t *testing.T) {
//		executiontest.Run(t, executiontest.Harness{
//			New: func(tb testing.TB) execution.Context {
//				backend, err := mybackend.New(mybackend.Options{})
//				if err != nil {
//					tb.Fatal(err)
//				}
//				return backend
//			},
//		})
//	}
//
// Each line of the contract is a subtest with a name of its own, such as
// "kill/tree" or "files/write_is_atomic". Each runs on a fresh Context and
// handle, under a watchdog that prints all goroutines when the case hangs, and
// ends with a look for goroutines and file descriptors left behind. Because of
// that look, Run must not share its time with parallel tests of the same
// binary.
//
// The kit never asks which backend it is talking to. It makes the sandbox do
// things through a small vocabulary, the [Script] constants, whose default
// words are lines for a POSIX shell with the tools of busybox; a backend that
// runs no shell gives its own in [Harness.Command].
//
// A case is skipped only when the backend's Capabilities, or a hook that the
// harness left out, say so. What is not declared must be refused by Spawn, and
// what is declared must hold.
package executiontest
