package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/execution/fake"
	"github.com/pinfold-dev/pinfold/images"
)

// What an engine says of its containers is shown, not obeyed.
func TestSandboxTable(t *testing.T) {
	t.Parallel()
	app := newTestApp(fake.Options{})
	now := time.Now()
	err := app.printSandboxes([]docker.Sandbox{
		{ID: "abc", Name: "one", Image: "img\x1b]0;x\x07\nforged", State: "running", Created: now.Add(-90 * time.Minute), Owner: "me@host", Process: "host:1:2"},
		{ID: "def", Name: "two", Created: now.Add(-72 * time.Hour), Expires: now.Add(time.Hour)},
	}, now)
	want := "ID    NAME   IMAGE                   STATE     AGE   ENDS    OWNER     PROCESS\n" +
		"abc   one    img\\x1b]0;x\\a\\nforged   running   1h    -       me@host   host:1:2\n" +
		"def   two    -                       -         3d    in 1h   -         -\n"
	if err != nil || app.out.String() != want {
		t.Errorf("%v, table is\n%s\nwant\n%s", err, &app.out, want)
	}
}

// A listing is what a test wants an engine to answer.
type listing struct {
	list    []docker.Sandbox
	removed []string
}

func (l *listing) Images() images.Engine                          { return nil }
func (l *listing) Close() error                                   { return nil }
func (l *listing) List(context.Context) ([]docker.Sandbox, error) { return l.list, nil }
func (l *listing) Collect(context.Context, docker.CollectOptions) ([]docker.Collected, error) {
	return []docker.Collected{
		{ID: "abc", Name: "one", Owner: "me@host", Removed: true, Reason: "left behind: it is exited"},
		{ID: "def", Name: "two", Owner: "me@host", Reason: "its guest does not answer", Err: "engine on fire"},
		{ID: "123", Name: "three", Owner: "me@host", Reason: "its guest lives"},
	}, nil
}

func (l *listing) Remove(_ context.Context, name string) error {
	if strings.HasPrefix(name, "no") {
		return errors.New("not found: did you mean one?")
	}
	l.removed = append(l.removed, name)
	return nil
}

// A sandbox that runs is somebody's; the others go, and each refusal has its
// reason.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args    string
		removed string
		code    int
		says    string
	}{
		{"rm done", "done", 0, ""},
		{"rm busy done", "done", 125, "rm --force busy"},
		{"rm aaaa", "", 125, "made by host:1:2"},
		{"rm -f busy", "busy", 0, ""},
		{"rm nobody done", "done", 125, "did you mean one?"},
		{"rm cccc", "", 125, "rm --force cccc"},
		{"rm", "", 125, "pinfold ps"},
	} {
		app := newTestApp(fake.Options{})
		engines := &listing{list: []docker.Sandbox{
			{ID: "aaaabbbb", Name: "busy", State: "running", Process: "host:1:2"},
			{ID: "cccc", Name: "done", State: "exited"},
			{ID: "dddd", Name: "cccc", State: "running", Process: "host:3:4"},
		}}
		app.backends.engine = func(context.Context) (engine, error) { return engines, nil }
		code := app.pinfold(t.Context(), strings.Fields(row.args)...)
		if code != row.code || strings.Join(engines.removed, " ") != row.removed || !strings.Contains(app.errors.String(), row.says) {
			t.Errorf("%s: exit code %d, removed %q, standard error %q", row.args, code, engines.removed, &app.errors)
		}
	}
}

// An empty list is an empty list also in JSON.
func TestNoSandboxes(t *testing.T) {
	t.Parallel()
	app := newTestApp(fake.Options{})
	app.backends.engine = func(context.Context) (engine, error) { return &listing{}, nil }
	if code := app.pinfold(t.Context(), "ps", "--json"); code != 0 || app.out.String() != "[]\n" {
		t.Errorf("exit code %d, output %q", code, &app.out)
	}
}

// The exit code of doctor says whether sandboxes can run; each finding is a
// line with what to do below it.
func TestDoctor(t *testing.T) {
	t.Parallel()
	report := docker.Report{Runnable: true, Findings: []docker.Finding{
		{Name: "engine", State: docker.FindingOK, Detail: "Docker\x1b[2J at somewhere"},
		{Name: "storage limit", State: docker.FindingWarn, Detail: "one\ntwo", Fix: "do this"},
	}}
	app := newTestApp(fake.Options{})
	app.backends.examine = func(context.Context) docker.Report { return report }
	code := app.pinfold(t.Context(), "doctor")
	want := "ok    engine         Docker\\x1b[2J at somewhere\n" +
		"warn  storage limit  one\n" +
		"                     two\n" +
		"                     to do: do this\n\nsandboxes can run here\n"
	if code != 0 || app.out.String() != want {
		t.Errorf("exit code %d, output\n%s\nwant\n%s", code, &app.out, want)
	}

	report.Runnable = false
	app.out = bytes.Buffer{}
	if code := app.pinfold(t.Context(), "doctor", "--json"); code != exitUnfit {
		t.Errorf("exit code %d, want %d", code, exitUnfit)
	}
	var back docker.Report
	if err := json.Unmarshal(app.out.Bytes(), &back); err != nil || len(back.Findings) != 2 || back.Runnable {
		t.Errorf("%v in %s", err, &app.out)
	}
}

// What was done is told of each sandbox, and what failed is an error.
func TestCollected(t *testing.T) {
	t.Parallel()
	app := newTestApp(fake.Options{})
	app.backends.engine = func(context.Context) (engine, error) { return &listing{}, nil }
	if code := app.pinfold(t.Context(), "gc"); code != 125 {
		t.Errorf("exit code %d, want 125", code)
	}
	want := "ID    NAME    OWNER     DONE      WHY\n" +
		"abc   one     me@host   removed   left behind: it is exited\n" +
		"def   two     me@host   failed    its guest does not answer\n" +
		"123   three   me@host   left      its guest lives\n"
	if app.out.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", &app.out, want)
	}
	if !strings.Contains(app.errors.String(), "removing def: engine on fire") {
		t.Errorf("standard error is %q", &app.errors)
	}
	app.out.Reset()
	if code := app.pinfold(t.Context(), "gc", "--dry-run"); code != 125 || !strings.Contains(app.out.String(), "to remove") {
		t.Errorf("exit code %d, table is\n%s", code, &app.out)
	}
}
