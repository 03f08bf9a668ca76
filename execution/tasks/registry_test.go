package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestTasksAreNumberedAndFound(t *testing.T) {
	s := newStage(t, Options{Backend: "test", Handle: "h"})
	if _, err := s.StartTask(t.Context(), execution.Command{Shell: "missing"}, execution.TaskOptions{}); !errors.Is(err, execution.ErrCommandNotFound) {
		t.Errorf("a command that is missing: %v", err)
	}
	_, err := s.Task(t.Context(), "task-1")
	wantText(t, err, execution.ErrNotFound, `find task: test h: not found: no task "task-1"; there are none`)
	for i := range 20 {
		if task, _ := s.task(t, 0); task.ID() != fmt.Sprintf("task-%d", i+1) {
			t.Errorf("task %d is %q", i+1, task.ID())
		}
	}
	for _, id := range []string{"task-1", "task-20"} {
		if task, err := s.Task(t.Context(), id); err != nil || task.ID() != id {
			t.Errorf("Task(%q): %v, %v", id, task, err)
		}
	}
	for id, told := range map[string]string{
		"7":                       "there are task-5, task-6, task-7, task-8, task-9 and 15 others from task-1 to task-20",
		"task-007":                "task-7",
		"task-21":                 "task-20",
		"task-0":                  "task-1,",
		"":                        "task-16, task-17, task-18, task-19, task-20",
		"task--1":                 "task-1,",
		"name of one":             "task-20",
		"99999999999999999999999": "task-20",
	} {
		_, err := s.Task(t.Context(), id)
		wantText(t, err, execution.ErrNotFound, told)
	}
	_, err = s.Task(t.Context(), strings.Repeat("x", 1<<20))
	if wantText(t, err, execution.ErrNotFound, "task-20"); len(err.Error()) > 300 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func wantText(t *testing.T, err, target error, text string) {
	t.Helper()
	if !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one that matches %v and holds %q", err, target, text)
	}
}

func TestEndsAreRecorded(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.say("hello\n")
	if info, err := task.Info(t.Context()); err != nil || !info.Running() || info.Stdout.Bytes != 6 || !info.Ended.IsZero() {
		t.Errorf("while it runs: %+v, %v", info, err)
	}
	if err := task.Signal(t.Context(), execution.SIGUSR1); err != nil || len(script.signals) != 1 {
		t.Errorf("Signal: %v", err)
	}
	script.exit(7)
	info := wait(t, task)
	if info.State() != "exited" || info.Status.Code != 7 || info.Ended.Before(info.Started) || info.Shell != "play" {
		t.Errorf("at the end: %+v", info)
	}
	wantText(t, task.Signal(t.Context(), execution.SIGUSR1), execution.ErrFinished, "signal task")
	for range 2 {
		if err := task.Kill(t.Context()); err != nil || script.killed > 0 {
			t.Errorf("Kill of what has ended: %v, killed %d times", err, script.killed)
		}
	}
}

func TestLeftoversCanBeKilled(t *testing.T) {
	s := newStage(t, Options{})
	task, script := s.task(t, 0)
	script.end(execution.ExitStatus{Ending: execution.EndingExited, Leftovers: []execution.ProcessInfo{{PID: 3}}})
	wait(t, task)
	if err := task.Kill(t.Context()); err != nil || script.killed != 1 {
		t.Errorf("Kill of leftovers: %v, killed %d times", err, script.killed)
	}
}

func TestKillReturnsOnceTheEndIsKnown(t *testing.T) {
	s := newStage(t, Options{})
	task, _ := s.task(t, 0)
	if err := task.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := task.Info(t.Context()); err != nil || info.Status.Ending != execution.EndingCancelled {
		t.Errorf("after Kill: %+v, %v", info, err)
	}
}

func TestLongCommandsAreCut(t *testing.T) {
	s := newStage(t, Options{})
	long := strings.Repeat("x", 1<<20)
	for _, cmd := range []execution.Command{{Shell: long}, {Args: []string{"a", long, "b"}}, {Args: make([]string, 1<<16)}} {
		if len(cmd.Args) > 3 {
			cmd.Args[0] = "program"
		}
		task, err := s.StartTask(t.Context(), cmd, execution.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := task.Info(t.Context())
		if total := len(info.Shell) + len(strings.Join(info.Args, "")); err != nil || total > execution.MaxTaskCommand || len(info.Args) > execution.MaxTaskCommand {
			t.Errorf("%d bytes in %d arguments are told, %v", total, len(info.Args), err)
		}
	}
}

func TestWhatCannotBeATask(t *testing.T) {
	s := newStage(t, Options{})
	for _, cmd := range []execution.Command{{}, {Shell: "x", Stdin: strings.NewReader("")}, {Shell: "x", Stdout: io.Discard}, {Shell: "x", Stderr: io.Discard}} {
		_, err := s.StartTask(t.Context(), cmd, execution.TaskOptions{})
		wantText(t, err, execution.ErrInvalid, "start task")
	}
	for _, keep := range []int64{-1, execution.MaxTaskOutput + 1} {
		_, err := s.StartTask(t.Context(), execution.Command{Shell: "x"}, execution.TaskOptions{Keep: keep})
		wantText(t, err, execution.ErrInvalid, "keep")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.StartTask(ended, execution.Command{Shell: "x"}, execution.TaskOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestEndedTasksAreForgottenOldestFirst(t *testing.T) {
	s := newStage(t, Options{})
	s.maxEnded = 3
	_, running := s.task(t, 0)
	for range 10 {
		task, script := s.task(t, 0)
		script.exit(0)
		wait(t, task)
	}
	var ids []string
	for info, err := range s.Tasks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	if want := []string{"task-1", "task-9", "task-10", "task-11"}; !slices.Equal(ids, want) {
		t.Errorf("there are %v, want %v", ids, want)
	}
	running.exit(0)
}

func TestEndedOutputGoesOldestFirst(t *testing.T) {
	s := newStage(t, Options{})
	s.maxOutput = 3 * blockSize
	var all []execution.Task
	for range 5 {
		task, script := s.task(t, 0)
		script.say(strings.Repeat("x", 1000))
		script.exit(0)
		wait(t, task)
		all = append(all, task)
	}
	for i, task := range all {
		info, err := task.Info(t.Context())
		want := execution.OutputInfo{Bytes: 1000}
		if i < 2 {
			want.Dropped = 1000
		}
		if err != nil || info.Stdout != want {
			t.Errorf("of %s is kept %+v, want %+v; %v", task.ID(), info.Stdout, want, err)
		}
		if got := output(t, task, execution.OutputOptions{Offset: 3, Follow: true}); len(got) != int(max(0, 997-want.Dropped)) {
			t.Errorf("of %s can be read %d bytes", task.ID(), len(got))
		}
	}
	if free := len(s.spool.warm); free != 1 || s.spool.made != 4 {
		t.Errorf("%d blocks were made, %d are free", s.spool.made, free)
	}
}

func TestFullSpoolTakesFromTheEndedFirst(t *testing.T) {
	s := newStage(t, Options{Limit: 8 * blockSize})
	old, script := s.task(t, 0)
	script.say(strings.Repeat("x", 4*blockSize))
	script.exit(0)
	wait(t, old)
	flood, flooding := s.task(t, 16*blockSize) // 4 for the head and 4 for the tail of stdout
	for range 20 * blockSize / 16 {
		flooding.say("0123456789abcdef")
	}
	if info, err := old.Info(t.Context()); err != nil || info.Stdout.Dropped != 4*blockSize {
		t.Errorf("the ended task keeps its output: %+v, %v", info, err)
	}
	flooding.exit(0)
	if info := wait(t, flood); info.Stdout.Bytes != 20*blockSize || info.Stdout.Bytes-info.Stdout.Dropped < 7*blockSize {
		t.Errorf("of the flood is kept %+v", info.Stdout)
	}
}

// A task that runs and keeps much does not cost another its life, and not even
// its share.
func TestFullSpoolIsShared(t *testing.T) {
	const blocks = 64
	s := newStage(t, Options{Limit: blocks * blockSize})
	for _, keep := range []int64{4 * blocks * blockSize, 2 * blocks * blockSize, 0} { // more in the head, or in the tail
		_, flooding := s.task(t, keep)
		for range 2 * blocks {
			flooding.say(strings.Repeat("f", blockSize))
		}
		defer flooding.exit(0)
		const lines = 1000
		var want strings.Builder
		next, saying := s.task(t, 0)
		for i := range lines {
			fmt.Fprintln(&want, "line", i)
			saying.say(fmt.Sprintln("line", i))
		}
		saying.exit(0)
		if info := wait(t, next); !info.Status.Success() || info.Stdout.Dropped > 0 {
			t.Errorf("beside a flood: %v, %+v", info.Status, info.Stdout)
		}
		if got := output(t, next, execution.OutputOptions{}); got != want.String() {
			t.Errorf("beside a flood %d bytes are kept, want %d", len(got), want.Len())
		}
		flooding.say("still there")
		if flooding.err != nil {
			t.Errorf("the flood: %v", flooding.err)
		}
	}
}

// Many that write at once all go on, and keep the start and the end of it.
func TestFullSpoolUnderManyFloods(t *testing.T) {
	const floods, blocks = 8, 64
	s := newStage(t, Options{Limit: blocks * blockSize})
	var all sync.WaitGroup
	for range floods {
		task, script := s.task(t, 0)
		all.Go(func() {
			for i := range 4 * blocks {
				script.say(strings.Repeat(string(rune('a'+i%26)), blockSize/2+i))
			}
			script.exit(0)
			if info := wait(t, task); !info.Status.Success() {
				t.Errorf("%v, %+v", info.Status, info.Stdout)
			}
		})
	}
	all.Wait()
}

func TestTaskWithoutAnyRoomIsKilled(t *testing.T) {
	s := newStage(t, Options{Limit: 2 * blockSize})
	for range 2 {
		_, script := s.task(t, 0)
		script.say(strings.Repeat("x", blockSize))
		defer script.exit(0)
	}
	next, denied := s.task(t, 0)
	denied.say(strings.Repeat("x", blockSize))
	info := wait(t, next)
	if info.Status.Ending != execution.EndingCancelled || !strings.Contains(info.Status.Reason, "its output could not be kept: no space left") {
		t.Errorf("a task without room ended as %v", info.Status)
	}
}

func TestEndWakesEverybody(t *testing.T) {
	for _, why := range []error{execution.ErrClosed, &execution.Error{Handle: "h", Err: fmt.Errorf("%w: shot", execution.ErrLost)}} {
		s := newStage(t, Options{Handle: "h"})
		task, script := s.task(t, 0)
		script.say(strings.Repeat("x", 10_000))
		var group sync.WaitGroup
		check := func(what string, f func() error) {
			group.Go(func() {
				if err := f(); !errors.Is(err, why) && !errors.Is(err, errors.Unwrap(why)) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		r, err := task.OpenOutput(t.Context(), execution.Stdout, execution.OutputOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		check("follow", func() error { _, err := io.Copy(io.Discard, r); return err })
		check("wait", func() error { _, err := task.Wait(context.Background()); return err })
		check("events", func() error {
			for event, err := range s.Events(context.Background()) {
				if event.Kind == execution.EventSandboxEnded {
					return event.Err
				}
				return err
			}
			return nil
		})
		s.End(why)
		s.End(errors.New("another reason"))
		group.Wait()
		for what, f := range map[string]func() error{
			"Info":       func() error { _, err := task.Info(t.Context()); return err },
			"Wait":       func() error { _, err := task.Wait(t.Context()); return err },
			"Signal":     func() error { return task.Signal(t.Context(), 1) },
			"Kill":       func() error { return task.Kill(t.Context()) },
			"OpenOutput": func() error { _, err := task.OpenOutput(t.Context(), 1, execution.OutputOptions{}); return err },
			"Task":       func() error { _, err := s.Task(t.Context(), "task-1"); return err },
			"StartTask": func() error {
				_, err := s.StartTask(t.Context(), execution.Command{Shell: "x"}, execution.TaskOptions{})
				return err
			},
			"Tasks": func() (err error) {
				for _, err := range s.Tasks(t.Context()) {
					return err
				}
				return nil
			},
		} {
			check(what+" after the end", f)
		}
		group.Wait()
		script.say("late")
	}
}

func TestManyAtOnce(t *testing.T) {
	s := newStage(t, Options{})
	s.maxEnded, s.maxOutput = 20, 64<<10
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 50 {
				task, err := s.StartTask(t.Context(), execution.Command{Shell: "play"}, execution.TaskOptions{Keep: 32 << 10})
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					_ = task.Kill(t.Context())
				}
				for _, err := range s.Tasks(t.Context()) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	go func() { group.Wait(); close(stop) }()
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		s.mu.Lock()
		scripts := s.scripts
		s.scripts = nil
		s.mu.Unlock()
		for _, script := range scripts {
			script.say(strings.Repeat("x", 5000))
			script.exit(0)
		}
	}
}

func BenchmarkList10000(b *testing.B) {
	s := newStage(b, Options{})
	for range 10_000 {
		task, script := s.task(b, 0)
		script.say("a line of output\n")
		script.exit(0)
		wait(b, task)
	}
	s.scripts = nil
	for b.Loop() {
		n := 0
		for _, err := range s.Tasks(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10_000 {
			b.Fatalf("%d tasks are listed", n)
		}
	}
}
