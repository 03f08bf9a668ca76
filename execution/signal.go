package execution

import (
	"fmt"
	"strconv"
	"strings"
)

// A Signal is a signal by its Linux number, whatever the host's system is.
type Signal int

// The signals that hosts commonly send. Any number from 1 to 64 is valid.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGUSR1 Signal = 10
	SIGUSR2 Signal = 12
	SIGTERM Signal = 15
	SIGCONT Signal = 18
	SIGSTOP Signal = 19
)

var signalNames = [...]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT",
	7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2",
	13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT", 17: "SIGCHLD",
	18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU",
	23: "SIGURG", 24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF",
	28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS",
}

// String is the signal's name, or its number where it has none.
func (s Signal) String() string {
	if s > 0 && int(s) < len(signalNames) {
		return signalNames[s]
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Valid reports whether Linux has such a signal.
func (s Signal) Valid() bool { return s >= 1 && s <= 64 }

// ParseSignal reads a name with or without "SIG" in any case, or a number.
func ParseSignal(text string) (Signal, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if sig := Signal(n); sig.Valid() {
			return sig, nil
		}
		return 0, fmt.Errorf("%w: signal %d: want 1 to 64", ErrInvalid, n)
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	for n, known := range signalNames {
		if n > 0 && known == name {
			return Signal(n), nil
		}
	}
	return 0, fmt.Errorf("%w: signal %q: want a name such as SIGTERM or a number from 1 to 64", ErrInvalid, text)
}
