package execution_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestSignalNamesAndNumbers(t *testing.T) {
	for sig := execution.Signal(1); sig <= 64; sig++ {
		if !sig.Valid() {
			t.Errorf("signal %d is not valid", int(sig))
		}
		if got, err := execution.ParseSignal(strconv.Itoa(int(sig))); err != nil || got != sig {
			t.Errorf("ParseSignal(%d) = %v, %v", int(sig), got, err)
		}
		if sig < 32 {
			if got, err := execution.ParseSignal(sig.String()); err != nil || got != sig {
				t.Errorf("ParseSignal(%q) = %v, %v, want %d", sig, got, err, int(sig))
			}
		}
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]execution.Signal{
		"TERM": execution.SIGTERM, "SIGTERM": execution.SIGTERM, "term": execution.SIGTERM, "sigTerm": execution.SIGTERM,
		"HUP": execution.SIGHUP, "9": execution.SIGKILL, "usr1": execution.SIGUSR1, "USR2": execution.SIGUSR2, "64": 64,
	} {
		if got, err := execution.ParseSignal(text); err != nil || got != want {
			t.Errorf("ParseSignal(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "65", "9999999999999999999", "SIG", "SIGSIGTERM", "TERM ", "no such"} {
		if got, err := execution.ParseSignal(text); !errors.Is(err, execution.ErrInvalid) {
			t.Errorf("ParseSignal(%q) = %v, %v, want an error that matches ErrInvalid", text, got, err)
		}
	}
}

func TestSignalString(t *testing.T) {
	for sig, want := range map[execution.Signal]string{
		execution.SIGKILL: "SIGKILL", execution.SIGSTOP: "SIGSTOP", 31: "SIGSYS", 34: "signal 34", 0: "signal 0", -3: "signal -3",
	} {
		if got := sig.String(); got != want {
			t.Errorf("String of %d is %q, want %q", int(sig), got, want)
		}
	}
	for _, sig := range []execution.Signal{0, -1, 65, 1 << 30} {
		if sig.Valid() {
			t.Errorf("signal %d is valid", int(sig))
		}
	}
}
