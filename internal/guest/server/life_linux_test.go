package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

func TestLimitsOfALife(t *testing.T) {
	for name, row := range map[string]struct {
		cfg  guest.Config
		want error
		text string
	}{
		"lifetime": {guest.Config{Lifetime: 300 * time.Millisecond, Detach: true}, server.ErrLifetime, "lifetime"},
		"idle":     {guest.Config{IdleTimeout: 300 * time.Millisecond}, server.ErrIdle, "idle"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStation(t, row.cfg)
			if err := <-s.end; !errors.Is(err, row.want) {
				t.Errorf("it ended with %v", err)
			}
			<-c.Done()
			if err := c.Err(); !errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), row.text) {
				t.Errorf("the host is told %v", err)
			}
		})
	}
}

// What runs keeps a sandbox from being idle.
func TestWorkIsNotIdle(t *testing.T) {
	s, c := newStation(t, guest.Config{IdleTimeout: 200 * time.Millisecond})
	task, err := c.StartTask(t.Context(), execution.Command{Shell: "sleep 1"}, execution.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := task.Wait(t.Context()); err != nil || !info.Status.Success() {
		t.Errorf("%+v, %v", info, err)
	}
	if err := <-s.end; !errors.Is(err, server.ErrIdle) {
		t.Errorf("it ended with %v", err)
	}
}

// A detached guest does without a host; another one does so for its lease.
func TestLeaseOfAHostThatDied(t *testing.T) {
	s, c := newStation(t, guest.Config{Lease: 200 * time.Millisecond})
	_ = c.Close()
	select {
	case err := <-s.end:
		if !errors.Is(err, server.ErrExpired) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("it outlives its lease")
	}
	if _, err := s.door.knock(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("somebody still listens: %v", err)
	}
}

// Who has nothing to say renews the lease all the same, also one that somebody
// else has set.
func TestQuietHostsKeepTheirLease(t *testing.T) {
	s, c := newStation(t, guest.Config{Lease: 300 * time.Millisecond})
	time.Sleep(time.Second)
	if _, err := c.Stat(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	s.cfg.Lease = time.Hour
	other, err := s.attach(t, execution.AttachTakeOver)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if _, err := other.Stat(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

// What a host ran in the foreground ends with its lease, also in a sandbox that
// lives on.
func TestCommandsEndWithTheLeaseOfTheirHost(t *testing.T) {
	s, c := newStation(t, guest.Config{Lease: 300 * time.Millisecond, Detach: true})
	_ = c.Close()
	opts := s.options()
	opts.Redial = nil
	mortal := s.follow(t, execution.AttachShared, opts)
	told, tells := io.Pipe()
	if _, err := mortal.Start(t.Context(), execution.Command{Shell: "echo $$; exec sleep 1000", Stdout: tells}); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(told, &pid); err != nil {
		t.Fatal(err)
	}
	s.cut()
	for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command outlives the lease of its host")
		}
	}
	if _, err := s.attach(t, execution.AttachExclusive); err != nil {
		t.Errorf("the sandbox: %v", err)
	}
}
