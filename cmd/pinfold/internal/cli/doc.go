// Package cli is the pinfold command without its main function.
//
// [Main] parses the arguments and runs one subcommand. Everything that comes
// out of a sandbox or an engine is untrusted here: it goes to a terminal only
// through a [displayWriter], and into messages and tables only through
// [printable].
//
// The life of `pinfold run`: the flags become a plan ([runFlags.plan]); a
// [session] opens the backend, spawns the sandbox and starts the command while
// it listens for signals; it attends to the command until it ends; it puts the
// terminal back, destroys the sandbox on a deadline of its own, and says what
// happened with an exit code. `pinfold exec` and `shell` are sessions too, which
// attach to a sandbox instead, and leave it in the end.
package cli
