package executiontest

import (
	"fmt"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Script names something that the kit makes a sandbox do. Its arguments are
// strings of any bytes but NUL.
type Script string

// The vocabulary. "Sleeps" means for ten minutes, which no case waits for.
const (
	// Print(out, err, code) writes out to stdout, then err to stderr, and
	// exits with code.
	Print Script = "print"
	// Cat copies stdin to stdout up to its end and exits with 0.
	Cat Script = "cat"
	// Head(n) reads n bytes of stdin, writes them to stdout and exits with 0,
	// leaving the rest unread.
	Head Script = "head"
	// Sleep does nothing, reads nothing and writes nothing.
	Sleep Script = "sleep"
	// Mute(code) closes stdout and stderr, lives on for about a second and
	// exits with code.
	Mute Script = "mute"
	// Count(n) writes the numbers 1 to n to stdout and, at the same time, n+1
	// to 2n to stderr, each followed by a newline, and exits with 0.
	Count Script = "count"
	// Flood writes "y\n" to stdout for ever.
	Flood Script = "flood"
	// PrintDir writes its working directory, without symbolic links, and a
	// newline to stdout.
	PrintDir Script = "print-dir"
	// PrintEnv(name) writes the value of an environment variable and a
	// newline to stdout and exits with 0, or with 1 when it is not set.
	PrintEnv Script = "print-env"
	// PrintUser writes its user and group as "uid:gid" and a newline.
	PrintUser Script = "print-user"

	// Raise(n) sends signal n to itself and, when it survives that, exits
	// with 0.
	Raise Script = "raise"
	// Trap writes "ready\n" to stdout and sleeps; at SIGTERM it writes
	// "term\n" to stdout and exits with 7.
	Trap Script = "trap"
	// Tree grows TreeSize processes, each of which writes its process ID and
	// a newline to stdout and sleeps, holding stdout open: the leader, a
	// child of it, one that was forked twice, runs in a session of its own
	// and has no environment, and a child of that one. All ignore SIGTERM and
	// SIGHUP.
	Tree Script = "tree"
	// Group is Tree without the hard parts: the leader and a child of it in
	// the same process group, which write their process IDs and sleep.
	Group Script = "group"
	// Alive(pid…) writes those of the process IDs that are alive to stdout,
	// each followed by a newline, and exits with 0.
	Alive Script = "alive"

	// Leave(text) starts a child that sleeps, holding stdout and stderr, writes
	// the child's process ID, a newline and text to stdout, and exits with 3.
	Leave Script = "leave"
	// LeaveFlood exits with 3 while a child of it writes "y\n" to stdout for
	// ever.
	LeaveFlood Script = "leave-flood"
	// LeavePrint(text) exits with 0 while a child of it writes text to stdout
	// and ends.
	LeavePrint Script = "leave-print"

	// Load(path) writes the content of a file to stdout.
	Load Script = "load"
	// Store(path, text) makes text the content of a file and exits with 0,
	// or with another code when it cannot.
	Store Script = "store"
	// MakeDir(path), Link(target, path), FIFO(path) and Chmod(mode, path)
	// make a directory, a symbolic link, a FIFO, and change the mode, given
	// in octal. They exit with 0.
	MakeDir Script = "make-dir"
	Link    Script = "link"
	FIFO    Script = "fifo"
	Chmod   Script = "chmod"
	// Touch(seconds, path) makes a file that is there say that it was changed
	// so many seconds after 1970, or a time beyond those that can be told where
	// its file system cannot hold that. It exits with 0.
	Touch Script = "touch"

	// EatMemory uses more and more memory, without end.
	EatMemory Script = "eat-memory"
	// Fork(n) starts n children that sleep, then writes "done\n" and sleeps.
	// When it cannot have that many, it does not get to "done".
	Fork Script = "fork"
	// Spin uses a processor in full, for ever.
	Spin Script = "spin"
	// Routes writes the lines of the sandbox's network routes; with no
	// network it writes nothing.
	Routes Script = "routes"
	// Terminal exits with 1 unless stdin, stdout and stderr are terminals.
	// It writes the size of the terminal as "rows cols\n", and again for each
	// line that it reads, and exits with 0 at the end of stdin.
	Terminal Script = "terminal"
)

// TreeSize is how many processes Tree makes.
const TreeSize = 4

// posix holds the shell line of each script; its arguments are "$1" and so on.
// The lines need a POSIX shell and the tools that busybox has.
func posix(script Script) string {
	switch script {
	case Print:
		return `printf %s "$1"; printf %s "$2" >&2; exit "$3"`
	case Cat:
		return `exec cat`
	case Head:
		return `exec head -c "$1"`
	case Sleep:
		return `exec sleep 600`
	case Mute:
		return `exec >&- 2>&-; sleep 1; exit "$1"`
	case Count:
		return `seq 1 "$1" & seq "$(($1+1))" "$((2*$1))" >&2; wait`
	case Flood:
		return `exec yes`
	case PrintDir:
		return `pwd -P`
	case PrintEnv:
		return `eval "if [ \"\${$1+set}\" ]; then printf '%s\\n' \"\$$1\"; else exit 1; fi"`
	case PrintUser:
		return `echo "$(id -u):$(id -g)"`
	case Load:
		return `exec cat <"$1"`
	case Store:
		return `printf %s "$2" >"$1"`
	case MakeDir:
		return `exec mkdir -- "$1"`
	case Link:
		return `exec ln -s -- "$1" "$2"`
	case FIFO:
		return `exec mkfifo -- "$1"`
	case Chmod:
		return `exec chmod -- "$1" "$2"`
	case Touch:
		return `exec touch -d "@$1" -- "$2"`
	case Routes:
		return `tail -n +2 /proc/net/route`
	case Terminal:
		// The shell itself writes the size: an interrupt right after it finds no
		// child that a shell would leave it to.
		return `test -t 0 && test -t 1 && test -t 2 || exit 1
size=$(stty size); echo "$size"; while read -r _; do size=$(stty size); echo "$size"; done; exit 0`
	default:
		return posixProcess(script)
	}
}

// posixProcess holds the lines that are about processes and what they use up.
func posixProcess(script Script) string {
	switch script {
	case Raise:
		return `kill -"$1" $$; exit 0`
	case Trap:
		// A signal to the group may end the sleep before the shell has its own.
		return `trap 'echo term; exit 7' TERM; echo ready; sleep 600 & wait; while :; do :; done`
	case Tree:
		return `trap '' TERM HUP
sh -c 'echo $$; exec sleep 600' &
(setsid env -i sh -c 'echo $$; sh -c "echo \$\$; exec sleep 600" & exec sleep 600' &)
echo $$; exec sleep 600`
	case Group:
		return `sh -c 'echo $$; exec sleep 600' & echo $$; exec sleep 600`
	case Alive:
		return `for pid; do if kill -0 "$pid" 2>/dev/null; then echo "$pid"; fi; done; exit 0`
	case Leave:
		return `sleep 600 & echo $!; printf %s "$1"; exit 3`
	case LeaveFlood:
		return `yes & exit 3`
	case LeavePrint:
		return `printf %s "$1" & exit 0`
	case EatMemory:
		return `x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`
	case Fork:
		return `i=0; while [ $i -lt "$1" ]; do sleep 600 & i=$((i+1)); done; echo done; exec sleep 600`
	case Spin:
		return `while :; do :; done`
	default:
		panic(fmt.Sprintf("executiontest: no such script: %q", string(script)))
	}
}

// POSIX is the default of Harness.Command: a script as a line for the
// sandbox's shell, or, where it has arguments, as one for sh with the
// arguments beside it.
func POSIX(script Script, args ...string) execution.Command {
	line := posix(script)
	if len(args) == 0 {
		return execution.Command{Shell: line}
	}
	return execution.Command{Args: append([]string{"sh", "-c", line, "sh"}, args...)}
}
