package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pseudoterminal plays the window that a person sits at.
type pseudoterminal struct {
	window *os.File // the person's side
	tty    *os.File // the programs' side
	seen   *transcript
}

func openTerminal(t *testing.T) *pseudoterminal {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(window.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(window.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pseudoterminal{window, tty, newTranscript()}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copyAll(p.seen, window)
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-copied // The last user of the terminal's other side has gone.
		_ = window.Close()
	})
	p.resize(t, 33, 101)
	return p
}

func (p *pseudoterminal) resize(t *testing.T, rows, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.window.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}

func (p *pseudoterminal) mode(t *testing.T) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

func (p *pseudoterminal) keys(t *testing.T, text string) {
	t.Helper()
	if _, err := p.window.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// press presses a key that is a signal until a shell has told of it n times. It
// takes no notice where the program that it waits for ends at that moment.
func (p *pseudoterminal) press(t *testing.T, key, text string, n int) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); {
		p.keys(t, key)
		if _, ok := p.seen.wait(text, n, 2*time.Second); ok {
			return
		}
	}
	t.Fatalf("pressed %q in vain, want %q %d times in:\n%q", key, text, n, p.seen)
}

// launch runs cmd as a shell does: on the terminal, which is its own.
func (p *pseudoterminal) launch(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.tty, p.tty, p.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return launch(t, cmd)
}

// raw reports whether keys reach programs one by one and unseen.
func raw(mode unix.Termios) bool {
	return mode.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// With -it the command has a terminal of the window's size, keys go to it, and
// afterwards the terminal is as it was.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			before := p.mode(t)
			run := p.launch(t, on.run(t, "-it", "-c", `test -t 0 && test -t 1 && test -t 2 && echo is-a-terminal
	stty size; read -r word; echo "word=<$word>"; exit 5`))
			p.seen.expect(t, "is-a-terminal", 1)
			p.seen.expect(t, "is-a-terminal", 1)
			p.seen.expect(t, "33 101", 1)
			if !raw(p.mode(t)) {
				t.Error("the terminal is not raw while the command has it")
			}
			p.keys(t, "hello\r")
			p.seen.expect(t, "word=<hello>", 1)
			if got := run.code(t); got != "5" {
				t.Errorf("exit code %s, want 5", got)
			}
			if p.mode(t) != before {
				t.Error("the terminal is not as it was before")
			}
		})
	}
}

func TestTerminalResize(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			// A shell may lose a signal that comes while it is at the trap for the
			// one before, so that the second size is looked for.
			run := p.launch(t, on.run(t, "-it", "-c", `trap 'echo size=$(stty size)' WINCH; trap 'exit 9' INT; echo ready
	while :; do sleep 0.02; case $(stty size) in "20 60") echo now=20 60; sleep 600;; esac; done`))
			p.seen.expect(t, "ready", 1)
			p.resize(t, 44, 88)
			p.seen.expect(t, "size=44 88", 1)
			p.resize(t, 20, 60)
			p.seen.expect(t, "now=20 60", 1)
			p.keys(t, "\x03")
			if got := run.code(t); got != "9" {
				t.Errorf("exit code %s, want 9", got)
			}
		})
	}
}

// With -it, Ctrl-C is a key: the command's own terminal makes a signal of it.
func TestTerminalControlC(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			run := p.launch(t, on.run(t, "-it", "-c", trapping))
			p.seen.expect(t, "ready", 1)
			for n := range 3 {
				p.press(t, "\x03", "got-INT", n+1)
			}
			p.press(t, "\x1c", "got-QUIT", 1)
			send(t, run, syscall.SIGTERM)
			p.seen.expect(t, "got-TERM", 1)
			send(t, run, syscall.SIGTERM)
			if got := run.code(t); got != "137" {
				t.Errorf("exit code %s, want 137", got)
			}
		})
	}
}

// Raw mode is undone however pinfold ends.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			before := p.mode(t)
			run := p.launch(t, on.run(t, "-it", "--", "no-such-program"))
			if got := run.code(t); got != "127" || p.mode(t) != before {
				t.Errorf("command not found: exit code %s, terminal as before: %v", got, p.mode(t) == before)
			}
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
				run := p.launch(t, on.run(t, "-it", "-c", "echo for "+sig.String()+"; exec sleep 1000"))
				p.seen.expect(t, "for "+sig.String(), 1)
				send(t, run, sig)
				run.code(t)
				if p.mode(t) != before {
					t.Errorf("%v: the terminal is not as it was before", sig)
				}
			}
			run = p.launch(t, on.run(t, "-it", "-c", "echo ready; exec sleep 1000"))
			p.seen.expect(t, "ready", 1)
			send(t, run, syscall.SIGKILL)
			run.code(t)
			// Its guard sees to it, which nobody can wait for.
			if !await(func() bool { return p.mode(t) == before }) {
				t.Error("killed: the terminal is not as it was before")
			}
		})
	}
}

// A shell in a sandbox that stays is interactive, and leaves the sandbox there.
func TestShell(t *testing.T) {
	t.Parallel()
	requireEngine(t)
	label := unique(t)
	out, err := pinfold(t, "run", "-d", "--lifetime", "10m", "--label", "t="+label).Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeLabelled(t, label) })
	id := strings.TrimSpace(string(out))
	for range 2 {
		p := openTerminal(t)
		run := p.launch(t, pinfold(t, "shell", "-e", "WORD=there", id))
		p.keys(t, "echo it-is-$WORD in $0; stty size; case $- in *i*) exit 6;; esac\r")
		p.seen.expect(t, "it-is-there in bash", 1)
		p.seen.expect(t, "33 101", 1)
		if got := run.code(t); got != "6" {
			t.Errorf("exit code %s, want 6", got)
		}
	}
}

// Without -t, untrusted output on a terminal is text and colours.
func TestOutputOnATerminalIsHarmless(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			run := p.launch(t, on.run(t, "-c",
				`printf 'a\033]52;c;ZXZpbA==\007\033]0;title\007\033[2J\033[31mred\033[0mb\n'; printf 'x\033[6ny\n' >&2`))
			if got := run.code(t); got != "0" {
				t.Errorf("exit code %s", got)
			}
			p.seen.expect(t, "a\x1b[31mred\x1b[0mb\r\n", 1)
			p.seen.expect(t, "xy\r\n", 1)
			for _, bad := range []string{"\x1b]", "\x1b[2J", "\x1b[6n"} {
				if strings.Contains(p.seen.String(), bad) {
					t.Errorf("%q has reached the terminal", bad)
				}
			}
		})
	}
}

// Without -t, Ctrl-C is the terminal's signal, and pinfold passes it on once.
func TestControlCWithoutTerminal(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			hidden := unique(t)
			run := p.launch(t, on.run(t, "-c", `(setsid sleep `+hidden+` &); `+trapping))
			p.seen.expect(t, "ready", 1)
			p.keys(t, "\x03")
			p.seen.expect(t, "got-INT", 1)
			p.keys(t, "\x03")
			if got := run.code(t); got != "137" {
				t.Errorf("exit code %s, want 137", got)
			}
			gone(t, hidden)
		})
	}
}

// -t without -i: output is a terminal's, and nothing is read.
func TestTerminalWithoutInput(t *testing.T) {
	t.Parallel()
	for _, on := range places() {
		t.Run(on.name, func(t *testing.T) {
			on := on.open(t)
			p := openTerminal(t)
			before := p.mode(t)
			run := p.launch(t, on.run(t, "-t", "-c", "test -t 1 && echo terminal; cat; echo done"))
			p.seen.expect(t, "terminal", 1)
			if raw(p.mode(t)) {
				t.Error("the terminal is raw though its keys go nowhere")
			}
			if got := run.code(t); got != "0" || p.mode(t) != before {
				t.Errorf("exit code %s, terminal as before: %v", got, p.mode(t) == before)
			}
			p.seen.expect(t, "done", 1)
		})
	}
}
