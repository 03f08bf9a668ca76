package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hang is how long a test waits for what should come at once. It decides that
// something hangs, and nothing else.
const hang = 30 * time.Second

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
	limit := time.After(hang)
	for {
		tr.mu.Lock()
		have, more := strings.Count(tr.text.String(), text), tr.more
		tr.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("waited in vain for %q (%d of %d) in:\n%q", text, have, n, tr)
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
	limit := time.Now().Add(hang)
	for len(alive(t, word)) > 0 && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond) // There is nothing to wait on: the processes are not ours.
	}
	gone(t, word)
}

// unique is a number of seconds that no other test sleeps.
func unique(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d.%09d", 100000+os.Getpid(), time.Now().UnixNano()%1e9)
}

// copyAll copies until the end, which for a terminal is an error.
func copyAll(w io.Writer, r io.Reader) { _, _ = io.Copy(w, r) }
