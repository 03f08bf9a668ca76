package execution_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// endings are all of them, with what a shell and a person is told.
func TestExitStatus(t *testing.T) {
	for _, row := range []struct {
		status execution.ExitStatus
		code   int
		text   string
	}{
		{execution.ExitStatus{Ending: execution.EndingExited}, 0, "exited with code 0"},
		{execution.ExitStatus{Ending: execution.EndingExited, Code: 42}, 42, "exited with code 42"},
		{execution.ExitStatus{Ending: execution.EndingSignalled, Code: -1, Signal: execution.SIGTERM}, 143, "ended by SIGTERM"},
		{execution.ExitStatus{Ending: execution.EndingSignalled, Code: -1, Signal: 64}, 192, "ended by signal 64"},
		{execution.ExitStatus{Ending: execution.EndingTimedOut, Code: -1, Signal: 9, Reason: "after 1s"}, 124, "timed out: after 1s"},
		{execution.ExitStatus{Ending: execution.EndingCancelled, Code: -1}, 137, "cancelled"},
		{execution.ExitStatus{Ending: execution.EndingOutOfMemory, Code: -1}, 137, "out of memory"},
		{execution.ExitStatus{Ending: execution.EndingOutputLimit, Code: -1}, 137, "output limit reached"},
		{execution.ExitStatus{Ending: execution.EndingLost, Code: -1, Reason: "removed"}, 125, "sandbox lost: removed"},
		{execution.ExitStatus{}, 125, "ending unknown"},
		{execution.ExitStatus{Ending: "melted"}, 125, "ending unknown"},
		{
			execution.ExitStatus{Ending: execution.EndingExited, Leftovers: make([]execution.ProcessInfo, 2)},
			0, "exited with code 0 (2 processes left running)",
		},
	} {
		if got := row.status.ShellCode(); got != row.code {
			t.Errorf("ShellCode of %+v is %d, want %d", row.status, got, row.code)
		}
		if got := row.status.String(); got != row.text {
			t.Errorf("String of %+v is %q, want %q", row.status, got, row.text)
		}
		if want := row.code == 0; row.status.Success() != want {
			t.Errorf("Success of %+v is %v", row.status, !want)
		}
	}
}

func TestUnfilledStatusIsNoSuccess(t *testing.T) {
	var status execution.ExitStatus
	if status.Success() || status.ShellCode() == 0 {
		t.Errorf("a status that nobody filled in reads as success: %+v", status)
	}
	if err := json.Unmarshal([]byte("{}"), &status); err != nil || status.Success() {
		t.Errorf("an empty status from elsewhere reads as success: %v, %v", status, err)
	}
}

func TestExitStatusJSON(t *testing.T) {
	data, err := json.Marshal(execution.ExitStatus{Ending: execution.EndingExited})
	if err != nil {
		t.Fatal(err)
	}
	// A code of 0 is told, not left out: who reads it must not have to guess.
	for _, want := range []string{`"ending":"exited"`, `"code":0`, `"duration_ns":0`, `"stdout_bytes":0`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not hold %s", data, want)
		}
	}
}
