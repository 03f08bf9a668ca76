// Package tasks keeps track of the background tasks of a handle: what runs,
// what it wrote, and how it ended. It is for authors of backends, who get the
// methods of execution.Handle that are about tasks from it.
//
// # The life of a task
//
// A handle has one [Registry], made with a function that starts a command as
// the handle's Start does. A registry without tasks holds no file, no goroutine
// and hardly any memory.
//
// [Registry.StartTask] starts the command with two writers of the registry's
// own, gives it the next number, and leaves one goroutine behind that waits for
// its end. What comes to the writers is kept in the spool: a single file for
// all tasks of the handle, which on Linux lives in memory and has no name. The
// first bytes of a stream stay in the heap, so that a task which writes a line
// takes no block of it; then blocks are filled, at the start of the stream for
// good, at its end in a ring. Readers copy out of the spool, and wait at its
// end where they follow. A task takes no descriptor.
//
// When Process.Wait returns, the status is final and all output is in the
// spool. The task gets the next number in the order of endings, waiters and
// followers return, and whoever asks for events is told. Its goroutine ends,
// and unless it has left processes behind, nothing remains but a record of some
// hundred bytes and its output. Of both there are bounds: the output of those
// that ended first goes beyond execution.MaxEndedOutput, and they are forgotten
// beyond execution.MaxEndedTasks. A task that was forgotten before anybody was
// told of its ending is not told of.
//
// [Registry.End] is for the end of the handle, of whatever kind. Everything
// that waits returns with the handle's error, and the spool is released. The
// processes are the handle's: it ends them as it does those in the foreground.
package tasks
