package execution_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// sentinels are all of them.
func sentinels() []error {
	return []error{
		execution.ErrInvalid, execution.ErrUnsupported, execution.ErrClosed, execution.ErrLost, execution.ErrPaused,
		execution.ErrFinished, execution.ErrUnavailable, execution.ErrTimeout, execution.ErrImage, execution.ErrConflict,
		execution.ErrDirNotFound, execution.ErrUserNotFound, execution.ErrCommandNotFound, execution.ErrCannotRun,
		execution.ErrNoShell, execution.ErrNotFound, execution.ErrPermission, execution.ErrIsDir, execution.ErrNotDir,
		execution.ErrNoSpace,
	}
}

func TestSentinelsAreApart(t *testing.T) {
	for i, a := range sentinels() {
		for j, b := range sentinels() {
			if got := errors.Is(a, b); got != (i == j) {
				t.Errorf("errors.Is(%q, %q) is %v", a, b, got)
			}
		}
	}
}

func TestSentinelsMatchTheirCounterparts(t *testing.T) {
	counterparts := map[string]error{
		"invalid": fs.ErrInvalid, "permission": fs.ErrPermission, "exist": fs.ErrExist, "not exist": fs.ErrNotExist,
		"closed": fs.ErrClosed, "unsupported": errors.ErrUnsupported,
	}
	want := map[error]string{
		execution.ErrInvalid: "invalid", execution.ErrUnsupported: "unsupported", execution.ErrClosed: "closed",
		execution.ErrConflict: "exist", execution.ErrDirNotFound: "not exist", execution.ErrNotFound: "not exist",
		execution.ErrPermission: "permission",
	}
	for _, err := range sentinels() {
		for name, counterpart := range counterparts {
			wrapped := &execution.Error{Op: "call", Err: fmt.Errorf("why: %w", err)}
			if got := errors.Is(wrapped, counterpart); got != (want[err] == name) {
				t.Errorf("errors.Is(%q, %q) is %v", err, counterpart, got)
			}
			if errors.Is(counterpart, err) {
				t.Errorf("%q matches %q the wrong way round", counterpart, err)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]execution.Error{
		`spawn: docker: not supported`:                  {Op: "spawn", Backend: "docker", Err: execution.ErrUnsupported},
		`write file: fake fake-1: "a b": no space left`: {Op: "write file", Backend: "fake", Handle: "fake-1", Path: "a b", Err: execution.ErrNoSpace},
		`read file: box: "x": invalid`:                  {Op: "read file", Handle: "box", Path: "x", Err: execution.ErrInvalid},
		`closed`:                                        {Err: execution.ErrClosed},
		`stat: "\x1b]0;title\a\n\xff": not found`:       {Op: "stat", Path: "\x1b]0;title\a\n\xff", Err: execution.ErrNotFound},
		`spawn: docker`:                                 {Op: "spawn", Backend: "docker"},
		``:                                              {},
		`start: docker c1: command not found: "no such"`: {Op: "start", Backend: "docker", Handle: "c1", Err: fmt.Errorf("%w: %q", execution.ErrCommandNotFound, "no such")},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	err := execution.Error{Op: "stat", Path: strings.Repeat("é", 100_000), Err: execution.ErrNotFound}
	if n := len(err.Error()); n > 3000 {
		t.Errorf("the text of an error about a long path is %d bytes long", n)
	}
}

func TestErrorIsFoundAndUnwrapped(t *testing.T) {
	inner := &execution.Error{Op: "start", Backend: "docker", Handle: "c1", Err: execution.ErrLost}
	err := fmt.Errorf("run the tests: %w", inner)
	if found, ok := errors.AsType[*execution.Error](err); !ok || found != inner {
		t.Errorf("errors.As found %v", found)
	}
	if !errors.Is(err, execution.ErrLost) || errors.Is(err, execution.ErrClosed) {
		t.Errorf("%q matches the wrong sentinels", err)
	}
}
