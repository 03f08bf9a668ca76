package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A transcript collects output and tells when something has come.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed and replaced at each write
}

func newTranscript() *transcript { return &transcript{more: make(chan struct{})} }

// Write never fails.
func (tr *transcript) Write(p []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.text.Write(p)
	close(tr.more)
	tr.more = make(chan struct{})
	return len(p), nil
}

func (tr *transcript) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.String()
}

// expect waits until text has come n times.
func (tr *transcript) expect(t *testing.T, text string, n int) {
	t.Helper()
	if have, ok := tr.wait(text, n, hang); !ok {
		t.Fatalf("waited in vain for %q (%d of %d) in:\n%q", text, have, n, tr)
	}
}

// wait waits until text was seen n times.
func (tr *transcript) wait(text string, n int, most time.Duration) (have int, ok bool) {
	limit := time.After(most)
	for {
		tr.mu.Lock()
		have, more := strings.Count(tr.text.String(), text), tr.more
		tr.mu.Unlock()
		if have >= n {
			return have, true
		}
		select {
		case <-more:
		case <-limit:
			return have, false
		}
	}
}

// A running is a pinfold that was started.
type running struct {
	*exec.Cmd
	out, err *transcript
	ended    chan struct{}
	status   error
}

// launch starts cmd. Streams that are not set are collected.
func launch(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{Cmd: cmd, out: newTranscript(), err: newTranscript(), ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = r.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = r.err
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.status = cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It has ended in most cases.
		<-r.ended
	})
	return r
}

// code waits for the end and returns the exit code.
func (r *running) code(t *testing.T) string {
	t.Helper()
	select {
	case <-r.ended:
		return code(r.status)
	case <-time.After(hang):
		t.Fatalf("pinfold does not end; it has said:\n%q\n%q", r.out, r.err)
	}
	return ""
}

// alive finds processes by a word that stands alone among their arguments.
func alive(t *testing.T, word string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // It ended meanwhile.
		}
		args := strings.Split(string(data), "\x00")
		if len(args) > 1 && filepath.Base(args[0]) == "sleep" && args[1] == word {
			found = append(found, file)
		}
	}
	return found
}

// gone fails when a process with that argument is alive.
func gone(t *testing.T, word string) {
	t.Helper()
	if found := alive(t, word); len(found) > 0 {
		t.Errorf("still alive: %q", found)
	}
}

// goneSoon is gone for what ends only after pinfold has been killed.
func goneSoon(t *testing.T, word string) {
	t.Helper()
	// A process that is between two programs may be missed by one look.
	seen := 0
	await(func() bool {
		if seen++; len(alive(t, word)) > 0 {
			seen = 0
		}
		return seen > 3
	})
	gone(t, word)
}

// unique is a number of seconds that no other test sleeps.
func unique(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d.%09d", 100000+os.Getpid(), time.Now().UnixNano()%1e9)
}

// copyAll copies until the end, which for a terminal is an error.
func copyAll(w io.Writer, r io.Reader) { _, _ = io.Copy(w, r) }

// A place is a backend that a test runs on.
type place struct {
	name string
	args []string // of `pinfold run`
}

func places() []place { return []place{{name: "process"}, {name: "docker"}} }

// open begins a test in a place, in parallel with others. On docker, which it
// skips without an engine, the test must leave no sandbox.
func (p place) open(t *testing.T) place {
	t.Helper()
	t.Parallel()
	if p.name == "process" {
		p.args = []string{"--backend", "process"}
		return p
	}
	requireEngine(t)
	label := "pinfold-cli-test=" + unique(t)
	t.Cleanup(func() { noSandboxes(t, label) })
	p.args = []string{"--label", label}
	return p
}

// run is pinfold running something there.
func (p place) run(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return pinfold(t, slices.Concat([]string{"run"}, p.args, args)...)
}

// noSandboxes waits until no sandbox has the label: that of a pinfold that was
// killed needs a moment to notice.
func noSandboxes(t *testing.T, label string) {
	t.Helper()
	if !await(func() bool { return len(sandboxes(t, label)) == 0 }) {
		t.Errorf("left: %+v", sandboxes(t, label))
	}
}

// noneStarted is noSandboxes after a pinfold that was killed while it was
// starting one. Between the making of a container and its start, nothing that
// runs can see to its removal; what is found in that state is removed.
func noneStarted(t *testing.T, label string) {
	t.Helper()
	if !await(func() bool {
		left := sandboxes(t, label)
		for _, s := range left {
			if s.State == "created" {
				// It fails when the engine starts or removes it just now.
				_, _ = afterwards(t, "rm", s.ID)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("left: %+v", sandboxes(t, label))
	}
}

// sandboxAppears waits until there is one with the label.
func sandboxAppears(t *testing.T, label string) {
	t.Helper()
	if !await(func() bool { return len(sandboxes(t, label)) > 0 }) {
		t.Fatal("no sandbox has appeared")
	}
}

// A sandbox is one as `pinfold ps --json` shows it.
type sandbox struct {
	ID, State string
	Labels    map[string]string
}

// sandboxes are those with the label.
func sandboxes(t *testing.T, label string) []sandbox {
	t.Helper()
	out, err := afterwards(t, "ps", "--json")
	var list []sandbox
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		t.Fatalf("pinfold ps: %v", err)
	}
	key, value, _ := strings.Cut(label, "=")
	return slices.DeleteFunc(list, func(s sandbox) bool { return s.Labels[key] != value })
}

// afterwards runs pinfold also when the test's own context has ended, as it has
// when a test cleans up.
func afterwards(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asPinfold+"=1")
	return cmd.Output()
}

// What a terminal runs in a sandbox that stays ends with the terminal, also
// when that is killed; tasks go on.
func TestExecEndsWithItsHost(t *testing.T) {
	t.Parallel()
	requireEngine(t)
	label, command, task := unique(t), unique(t), unique(t)
	out, err := pinfold(t, "run", "-d", "-q", "--image", "minimal", "--label", "t="+label, "--", "sleep", task).Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeLabelled(t, label) })
	id := strings.TrimSpace(string(out))
	run := launch(t, pinfold(t, "exec", id, "-c", "sleep "+command+" & echo ready; wait"))
	run.out.expect(t, "ready", 1)
	send(t, run, syscall.SIGKILL)
	run.code(t)
	goneSoon(t, command)
	out, err = pinfold(t, "tasks", id).Output()
	if err != nil || !strings.Contains(string(out), "running") {
		t.Errorf("the task has ended: %v\n%s", err, out)
	}
}
