// Package execution says what it means to run untrusted shell somewhere, and
// leaves where to its implementations.
//
// # The life of a handle
//
// A backend is a [Context]. The host makes one, keeps it, and asks it for
// sandboxes:
//
//	backend, err := docker.New(ctx, docker.Options{})
//	defer backend.Close()
//
//	handle, err := backend.Spawn(ctx, execution.Spec{Image: "debian:12"})
//	defer handle.Destroy(context.WithoutCancel(ctx))
//
// From Spawn on, the [Handle] is alive: commands run in it, files are read and
// written in it, from as many goroutines as the host likes. A slow command
// never holds up another.
//
//	result, err := execution.Exec(ctx, handle, execution.Command{Shell: "make test"})
//
// A handle ends in one of two ways. The host calls Destroy, which removes all
// that Spawn made; later calls fail with [ErrClosed]. Or the sandbox dies under
// it (out of memory, removed by somebody, engine gone); then Done is closed and
// every pending and later call fails with one error that matches [ErrLost] and
// says why. Destroy is still owed after a death, and may be called any number
// of times.
//
// # Results and errors
//
// A command that fails is a result: its [ExitStatus] says how it ended, and the
// error is nil. An error means that the machinery could not do what was asked,
// or does not know what happened. It is an [*Error], and is told apart with
// [errors.Is] and the sentinels of this package, never by its text.
//
// # What every backend promises
//
// The comments on [Context], [Handle] and [Process] are the contract. Package
// executiontest checks each line of it against any backend. What a backend
// cannot do, its [Capabilities] leave out; a [Spec] that asks for it anyway
// makes Spawn fail with [ErrUnsupported] and name the field. Nothing is dropped
// in silence.
package execution
