//go:build linux && (amd64 || arm64)

// Package warden is the code of the processes that stand between a host program
// and the commands that it runs: the nursery, the supervisors, and the leaders
// until they have become their programs. Package process says what they are
// for; this package says how they are made.
//
// # Why a bare fork
//
// Each command needs a small process of its own above it. To run a Go binary
// for that would cost five threads and megabytes per command, and there would
// have to be such a binary beside every program that imports this module. A
// fork of the running program needs neither: one thread, a few pages, and the
// code is already there.
//
// # What makes it safe
//
// After a fork without exec only the forking thread exists in the child, so that
// the Go runtime is dead there: no scheduler, no garbage collector, no stack
// growth, maybe a lock that nobody will ever release. Between fork and exec,
// package syscall keeps to rules for that; here the same rules hold for good.
// All code that runs in a forked process is in the files whose names start with
// raw, and
//
//   - is go:nosplit: no stack is ever grown. The linker proves that all calls
//     together stay within what a goroutine would have left; in truth there is
//     a stack of 64 KiB (see clone).
//   - is go:norace and go:nocheckptr: no calls into the race detector, or to
//     what checks pointers beside it.
//   - does nothing but system calls and arithmetic on one workspace, which was
//     mapped for it: no allocation, no maps, no interfaces, no strings, and no Go
//     pointer stored anywhere, since that would be a write barrier.
//   - runs with all signals blocked, so that no handler of the runtime ever does.
//
// Everything that can be decided in ordinary Go is decided before the fork, or
// on the other side of the control socket.
//
// That go:norace does not keep out is counters of test coverage. They do no harm
// where they are plain additions. In a test binary of this very package, or one
// with -coverpkg that reaches it, built with -race and -covermode=atomic, they
// are calls into the race detector, and no nursery comes up. Hence this package
// is apart from package process, and has no tests that fork.
//
// # Roles
//
// The first fork is the nursery. It gives up everything that it has of the host,
// memory, files and signals, and then forks supervisors when asked,
// which is cheap because it is tiny, however large the host is. A supervisor
// starts leaders, one after the other, and reports how they end and when nothing
// is left of what they started.
package warden
