package proto

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

func calls() map[string]*Call {
	return map[string]*Call{
		"start": {Method: MethodStart, Process: 7, Command: Command{
			Command: execution.Command{
				Args: []string{"prog", "", "a b", "\xff\xfe", "new\nline", "$(reboot)"}, Dir: "-x", Env: []string{"A=b", "B="},
				Timeout: time.Hour, OutputLimit: 1 << 40, Grace: -1, TTY: &execution.TerminalSize{Rows: 24, Cols: 65535},
			},
			HasStdin: true, HasStderr: true,
		}},
		"shell":  {Method: MethodStart, Command: Command{Command: execution.Command{Shell: "make test"}, HasStdout: true}},
		"signal": {Method: MethodSignal, Process: 1 << 63, Signal: 64},
		"kill":   {Method: MethodKill, Process: 1},
		"resize": {Method: MethodResize, Process: 1, Size: execution.TerminalSize{Rows: 1, Cols: 2}},
		"open":   {Method: MethodOpen, Path: "\x80/file", Offset: -1, Length: 1 << 62},
		"write":  {Method: MethodWrite, Path: "p", Mode: fs.ModeSetuid | 0o755},
		"stat":   {Method: MethodStat, Path: strings.Repeat("x", 100_000)},
		"lstat":  {Method: MethodLstat},
		"list":   {Method: MethodList, Path: "/"},
		"glob":   {Method: MethodGlob, Path: "/", Pattern: "**/*.go"},

		"start task":  {Method: MethodStartTask, Command: Command{Command: execution.Command{Shell: "make", Timeout: time.Hour}}, Keep: 1 << 40},
		"task":        {Method: MethodTask, Task: "task-1"},
		"wait task":   {Method: MethodWaitTask, Task: strings.Repeat("x", 100_000)},
		"signal task": {Method: MethodSignalTask, Task: "task-2", Signal: 15},
		"kill task":   {Method: MethodKillTask, Task: "\xff"},
		"output":      {Method: MethodOutput, Task: "task-3", Output: execution.Stderr, Offset: -1 << 63, Length: 1 << 62, Follow: true},
		"tasks":       {Method: MethodTasks},
		"next event":  {Method: MethodNextEvent, Told: 1<<64 - 1},
		"told":        {Method: MethodTold, Told: 7},
		"shutdown":    {Method: MethodShutdown},
		"leave":       {Method: MethodLeave},
	}
}

func TestCallsSurviveTheWire(t *testing.T) {
	for name, call := range calls() {
		b := call.Encode()
		got, err := DecodeCall(b)
		if err != nil || !reflect.DeepEqual(got, call) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, call)
		}
		for n := range min(len(b), 1000) {
			if _, err := DecodeCall(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		if _, err := DecodeCall(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
}

func statuses() []execution.ExitStatus {
	return []execution.ExitStatus{
		{Ending: execution.EndingExited, Code: 255, Duration: time.Second, UserTime: 1, SystemTime: 2, StdoutBytes: 3, StderrBytes: 4},
		{Ending: execution.EndingSignalled, Code: -1, Signal: 11},
		{Ending: execution.EndingTimedOut, Code: -1, Signal: 9, Reason: "after 1s"},
		{Ending: execution.EndingLost, Code: -1, Reason: "why", Leftovers: []execution.ProcessInfo{{PID: 1, Command: "sleep 1000"}}},
	}
}

func TestStatusesSurviveTheWire(t *testing.T) {
	for _, status := range statuses() {
		got, failed, refused, err := DecodeStatus(EncodeStatus(status, nil))
		if err != nil || failed != nil || refused != nil || !reflect.DeepEqual(got, status) {
			t.Errorf("%+v, %v, %v, %v; want %+v", got, failed, refused, err, status)
		}
		_, failed, _, err = DecodeStatus(EncodeStatus(status, fmt.Errorf("%w: gone", execution.ErrLost)))
		if err != nil || failed == nil || !errors.Is(failed.Err("b", "h"), execution.ErrLost) {
			t.Errorf("with an error: %+v, %v", failed, err)
		}
	}
}

func TestSenselessStatusesAreRefused(t *testing.T) {
	for name, status := range map[string]execution.ExitStatus{
		"no ending":               {Code: 0},
		"unknown ending":          {Ending: "vanished", Code: -1},
		"exited without a code":   {Ending: execution.EndingExited, Code: -1},
		"code out of range":       {Ending: execution.EndingExited, Code: 256},
		"timed out with success":  {Ending: execution.EndingTimedOut, Code: 0},
		"signalled by none":       {Ending: execution.EndingSignalled, Code: -1},
		"unknown signal":          {Ending: execution.EndingSignalled, Code: -1, Signal: 65},
		"negative duration":       {Ending: execution.EndingExited, Duration: -1},
		"negative bytes":          {Ending: execution.EndingExited, StdoutBytes: -1},
		"leftover with no number": {Ending: execution.EndingExited, Leftovers: make([]execution.ProcessInfo, 1)},
	} {
		if got, _, _, err := DecodeStatus(EncodeStatus(status, nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestErrorsKeepWhatTheyMatchAndSay(t *testing.T) {
	for _, kind := range kinds()[1:] {
		err := &execution.Error{Op: "start", Backend: "process", Handle: "inner", Path: "/p", Err: fmt.Errorf("%w: because", kind)}
		failure, decodeErr := DecodeDone(EncodeFailed(err))
		if decodeErr != nil || failure == nil {
			t.Fatal(failure, decodeErr)
		}
		got := failure.Err("docker", "outer")
		want := fmt.Sprintf("start: docker outer: \"/p\": %v: because", kind)
		if !errors.Is(got, kind) || got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	both := fmt.Errorf("%w: %w", execution.ErrDirNotFound, execution.ErrNotDir)
	failure, _ := DecodeDone(EncodeFailed(both))
	if got := failure.Err("", ""); !errors.Is(got, execution.ErrDirNotFound) || !errors.Is(got, execution.ErrNotDir) ||
		!errors.Is(got, fs.ErrNotExist) {
		t.Errorf("an error with two kinds came as %v", got)
	}
	for _, kind := range []error{execution.ErrClosed, execution.ErrPaused, execution.ErrUnavailable, execution.ErrImage} {
		if failure, _ := DecodeDone(EncodeFailed(kind)); errors.Is(failure.Err("", ""), kind) {
			t.Errorf("a guest can claim %v", kind)
		}
	}
	if failure, err := DecodeDone([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0}); !errors.Is(err, ErrMalformed) {
		t.Errorf("unknown kinds: %v, %v", failure, err)
	}
}

func TestTextsOfTheGuestAreFitToBeShown(t *testing.T) {
	evil := "\x1b]52;c;ZXZpbA==\x07 \x00 \xff \u202e é\n"
	failure, err := DecodeDone(EncodeFailed(errors.New(evil + strings.Repeat("x", 1<<20))))
	if err != nil {
		t.Fatal(err)
	}
	if got := failure.Text; !strings.HasPrefix(got, `\x1b]52;c;ZXZpbA==\a \x00 \xff \u202e é\nxxx`) || len(got) > maxText+100 {
		t.Errorf("text of %d bytes is shown as %.80q", len(got), got)
	}
	status := execution.ExitStatus{
		Ending: execution.EndingExited, Reason: evil,
		Leftovers: []execution.ProcessInfo{{PID: 2, Command: evil + strings.Repeat("\x01", 1000)}},
	}
	got, _, _, err := DecodeStatus(EncodeStatus(status, nil))
	if err != nil || strings.ContainsAny(got.Reason+got.Leftovers[0].Command, "\x00\x01\x07\x1b\n") {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(got.Leftovers[0].Command); n > maxCommand {
		t.Errorf("a command of %d bytes", n)
	}
}

func infos() []execution.FileInfo {
	return []execution.FileInfo{
		{Name: "\xff\n", Size: 1 << 62, Mode: fs.ModeSymlink | 0o777, ModTime: time.Unix(-5, 999_999_999), UID: 1<<32 - 1, GID: 5, Target: "-> \x00"},
		{Name: strings.Repeat("n", maxPath), Target: strings.Repeat("t", maxPath), ModTime: time.Unix(0, 0)},
		{ModTime: time.Unix(maxUnix, 0)},
	}
}

func TestInfosSurviveTheWire(t *testing.T) {
	var list []byte
	for _, info := range infos() {
		got, failure, err := DecodeInfo(EncodeInfo(info))
		if err != nil || failure != nil || !reflect.DeepEqual(got, info) {
			t.Errorf("%+v, %v, %v; want %+v", got, failure, err, info)
		}
		list = AppendInfo(list, info)
	}
	for _, info := range infos() {
		got, n, err := CutInfo(list)
		if err != nil || n == 0 || !reflect.DeepEqual(got, info) {
			t.Fatalf("in a list: %+v, %d, %v; want %+v", got, n, err, info)
		}
		for _, part := range []int{0, 1, n / 2, n - 1} {
			if _, m, err := CutInfo(list[:part]); m != 0 || err != nil {
				t.Errorf("%d of %d bytes of an entry: %d, %v", part, n, m, err)
			}
		}
		list = list[n:]
	}
	if _, _, err := CutInfo([]byte{0xff, 0xff, 0xff, 0x7f}); !errors.Is(err, ErrMalformed) {
		t.Errorf("an entry without end: %v", err)
	}
}

func TestGreetingsSurviveTheWire(t *testing.T) {
	cfg := &Config{Dir: "/work\xff", Env: []string{"SECRET=1"}, Lease: time.Minute}
	if got, err := DecodeConfig(cfg.Encode()); err != nil || !reflect.DeepEqual(got, cfg) {
		t.Errorf("%+v, %v", got, err)
	}
	facts := &Facts{
		Version: "v", Arch: "arm64", PID: 1, UID: 1000, GID: 1001, Dir: "/w", Shell: "/bin/sh", NoNewPrivs: true, Seccomp: 2,
		CapInheritable: 1, CapPermitted: 2, CapEffective: 3, CapBounding: 1<<64 - 1, CapAmbient: 5,
		Limits: CgroupLimits{Memory: 1 << 31, Swap: 0, PIDs: Unlimited, CPUQuota: UnknownLimit, CPUPeriod: 100_000},
	}
	got, failure, err := DecodeFacts(facts.Encode())
	if err != nil || failure != nil || !reflect.DeepEqual(got, facts) {
		t.Errorf("%+v, %v, %v", got, failure, err)
	}
	if _, failure, err := DecodeFacts(EncodeFailed(execution.ErrDirNotFound)); err != nil || failure == nil {
		t.Errorf("a refusal: %v, %v", failure, err)
	}
}

// FuzzFromGuest decodes what a guest may send: it either fails, or gives
// something that encodes to the same meaning.
func FuzzFromGuest(f *testing.F) {
	for _, status := range statuses() {
		f.Add(EncodeStatus(status, execution.ErrLost))
	}
	for _, info := range infos() {
		f.Add(EncodeInfo(info))
		f.Add(AppendInfo(nil, info))
	}
	f.Add(EncodeFailed(execution.ErrNoSpace))
	f.Add((&Facts{PID: 1}).Encode())
	for _, info := range tasks() {
		f.Add(EncodeTask(info))
		f.Add(EncodeEvent(7, info))
		f.Add(AppendTask(nil, info))
	}
	f.Add(AppendChunk(nil, 1<<40, MaxChunk))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeDone(b)
		if facts, failure, err := DecodeFacts(b); err == nil && failure == nil {
			again, _, err := DecodeFacts(facts.Encode())
			if err != nil || !reflect.DeepEqual(again, facts) {
				t.Errorf("facts %+v came again as %+v, %v", facts, again, err)
			}
		}
		if status, _, refused, err := DecodeStatus(b); err == nil && refused == nil {
			if status.Ending == "" || (status.Ending == execution.EndingExited) != (status.Code >= 0) {
				t.Errorf("accepted %+v", status)
			}
		}
		if info, failure, err := DecodeInfo(b); err == nil && failure == nil && !bytes.Equal(EncodeInfo(info), b) {
			if again, _, err := DecodeInfo(EncodeInfo(info)); err != nil || !reflect.DeepEqual(again, info) {
				t.Errorf("info %+v came again as %+v, %v", info, again, err)
			}
		}
		if _, n, _ := CutInfo(b); n > len(b) {
			t.Errorf("cut %d of %d bytes", n, len(b))
		}
		checkTasks(t, b)
	})
}

// FuzzFromHost decodes what a host sends.
func FuzzFromHost(f *testing.F) {
	for _, call := range calls() {
		f.Add(call.Encode())
	}
	f.Add((&Config{Dir: "/"}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeConfig(b)
		call, err := DecodeCall(b)
		if err != nil {
			return
		}
		if again, err := DecodeCall(call.Encode()); err != nil || !reflect.DeepEqual(again, call) {
			t.Errorf("%+v came again as %+v, %v", call, again, err)
		}
	})
}
