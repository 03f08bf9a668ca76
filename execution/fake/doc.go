// Package fake is an execution backend that lives in memory, for the tests of
// programs that use sandboxes. It runs no processes and touches no files of the
// host: what a command does is a Go function.
//
//	backend := fake.New(fake.Options{
//		Shell: func(ctx context.Context, p *fake.Proc) int {
//			fmt.Fprintf(p.Stdout, "I was asked to run %q\n", p.Args[0])
//			return 0
//		},
//	})
//	defer backend.Close()
//
// Everything else is as the contract of package execution says, and package
// executiontest checks it: a file tree with modes, links and atomic writes,
// process trees with signals and leftovers, limits, timeouts, terminals.
//
// Faults are scripted with [Options.Fault], which may fail, delay or block any
// call, and with [Handle.Die], [Handle.Pause] and [Handle.Resume].
//
// Nothing in it polls or reads a clock that is not the time package's, so that
// it works within a bubble of testing/synctest.
package fake
