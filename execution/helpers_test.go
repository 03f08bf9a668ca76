package execution_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// spawn makes a fake sandbox whose shell is program.
func spawn(t *testing.T, opts fake.Options) execution.Handle {
	t.Helper()
	backend := fake.New(opts)
	h, err := backend.Spawn(t.Context(), execution.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return h
}

func chatty(_ context.Context, p *fake.Proc) int {
	_, _ = io.WriteString(p.Stdout, "to stdout")
	_, _ = io.WriteString(p.Stderr, "to stderr")
	return 3
}

func sleepy(ctx context.Context, _ *fake.Proc) int {
	<-ctx.Done()
	return 1
}

func TestExecCapturesBothStreams(t *testing.T) {
	h := spawn(t, fake.Options{Shell: chatty})
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "talk"})
	if err != nil || result.Code != 3 || string(result.Stdout) != "to stdout" || string(result.Stderr) != "to stderr" {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestExecLeavesTheCallersWritersAlone(t *testing.T) {
	h := spawn(t, fake.Options{Shell: chatty})
	var out bytes.Buffer
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "talk", Stdout: &out})
	if err != nil || out.String() != "to stdout" || len(result.Stdout) != 0 || string(result.Stderr) != "to stderr" {
		t.Errorf("the writer got %q, the result is %+v, %v", out.String(), result, err)
	}
}

func TestExecOnATerminalCapturesOneStream(t *testing.T) {
	h := spawn(t, fake.Options{Shell: chatty})
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "talk", TTY: &execution.TerminalSize{Rows: 1, Cols: 1}})
	if err != nil || string(result.Stdout) != "to stdoutto stderr" || len(result.Stderr) != 0 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestExecKeepsStartAndEndOfMuchOutput(t *testing.T) {
	const extra = 10
	h := spawn(t, fake.Options{Shell: func(_ context.Context, p *fake.Proc) int {
		_, _ = io.WriteString(p.Stdout, "start"+strings.Repeat(".", execution.CaptureLimit+extra-len("startend"))+"end")
		return 0
	}})
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "talk"})
	if err != nil || len(result.Stdout) != execution.CaptureLimit || result.StdoutDropped != extra {
		t.Fatalf("kept %d and dropped %d bytes, %v", len(result.Stdout), result.StdoutDropped, err)
	}
	if !bytes.HasPrefix(result.Stdout, []byte("start.")) || !bytes.HasSuffix(result.Stdout, []byte(".end")) {
		t.Error("start or end of the output is missing")
	}
}

func TestExecThatCannotStart(t *testing.T) {
	h := spawn(t, fake.Options{})
	result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "talk"})
	if !errors.Is(err, execution.ErrNoShell) || result.Success() || result.Code != -1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestExecKillsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := spawn(t, fake.Options{Shell: sleepy})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result, err := execution.Exec(ctx, h, execution.Command{Shell: "sleep"})
		if err != nil || result.Ending != execution.EndingCancelled {
			t.Errorf("got %+v, %v", result, err)
		}
		if result.Duration != time.Minute {
			t.Errorf("the command ran for %v, want a minute", result.Duration)
		}
		if left := h.(*fake.Handle).Processes(); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
	})
}

// A kill that does not work is not waited for without end, and is told.
func TestExecGivesUpOnAKillThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := spawn(t, fake.Options{Shell: func(context.Context, *fake.Proc) int {
			<-release
			return 0
		}})
		t.Cleanup(func() { close(release) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		result, err := execution.Exec(ctx, h, execution.Command{Shell: "hang"})
		if !errors.Is(err, context.DeadlineExceeded) || result.Success() {
			t.Errorf("got %+v, %v", result, err)
		}
		if took := time.Since(begin); took > 3*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// An ending that is known counts for more than a context that has ended.
func TestExecThatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := spawn(t, fake.Options{Shell: func(context.Context, *fake.Proc) int {
			cancel()
			return 5
		}})
		result, err := execution.Exec(ctx, h, execution.Command{Shell: "exit 5"})
		if err != nil || result.Ending != execution.EndingExited && result.Ending != execution.EndingCancelled {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

func TestExecInASandboxThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := spawn(t, fake.Options{Shell: sleepy})
		time.AfterFunc(time.Second, func() { h.(*fake.Handle).Die("the engine was restarted") })
		result, err := execution.Exec(t.Context(), h, execution.Command{Shell: "sleep"})
		if !errors.Is(err, execution.ErrLost) || result.Ending != execution.EndingLost || result.Reason != "the engine was restarted" {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

func TestReadFileLimit(t *testing.T) {
	h := spawn(t, fake.Options{Files: map[string]string{
		"empty": "", "five": "12345", "large": strings.Repeat("x", execution.CaptureLimit+1),
	}})
	for _, row := range []struct {
		name  string
		limit int64
		fits  bool
	}{
		{"empty", 0, true},
		{"empty", 1, true},
		{"five", 0, true},
		{"five", -1, true},
		{"five", 4, false},
		{"five", 5, true},
		{"five", 6, true},
		{"five", math.MaxInt64, true},
		{"large", 0, false},
		{"large", execution.CaptureLimit, false},
		{"large", execution.CaptureLimit + 1, true},
	} {
		data, err := execution.ReadFile(t.Context(), h, row.name, row.limit)
		switch {
		case row.fits && err != nil:
			t.Errorf("%s with a limit of %d: %v", row.name, row.limit, err)
		case !row.fits && (!errors.Is(err, execution.ErrInvalid) || data != nil):
			t.Errorf("%s with a limit of %d: got %d bytes, %v", row.name, row.limit, len(data), err)
		}
	}
	_, err := execution.ReadFile(t.Context(), h, "missing", 0)
	if !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	h := spawn(t, fake.Options{})
	if err := execution.WriteFile(t.Context(), h, "a/b", []byte("content")); err != nil {
		t.Fatal(err)
	}
	data, err := execution.ReadFile(t.Context(), h, "/workspace/a/b", 0)
	if err != nil || string(data) != "content" {
		t.Errorf("got %q, %v", data, err)
	}
	info, err := h.Stat(t.Context(), "a")
	if err != nil || !info.IsDir() {
		t.Errorf("the parent is %+v, %v", info, err)
	}
}
