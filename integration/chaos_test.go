//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/pinfold-dev/pinfold/execution"
)

// chaosRounds is how often each engine is disturbed.
const chaosRounds = 10

// An engine is killed, stopped, frozen and started again while commands, file
// writes and tasks run. Nothing hangs, every call ends with an ending or a typed
// error, and nothing is left on the engine.
func TestChaos(t *testing.T) {
	for name, args := range map[string][]string{"plain": nil, "live-restore": {"--live-restore"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, args...)
			image := d.image(t)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			opts := dockerOptionsAt(d.host)
			opts.Lease = 15 * time.Second
			backend := newBackend(t, opts)
			for round := range chaosRounds {
				disturbance := random.IntN(3)
				after := time.Duration(random.IntN(400)) * time.Millisecond
				what := []string{"killed", "stopped", "frozen"}[disturbance]
				t.Logf("round %d: %s after %v", round, what, after)
				disturb := func() {
					time.Sleep(after)
					switch disturbance {
					case 0:
						d.kill(t)
						d.start(t)
					case 1:
						d.stop(t)
						d.start(t)
					default:
						d.freeze(t)
						time.Sleep(500 * time.Millisecond)
						d.thaw(t)
					}
				}
				chaosRound(t, backend, image, disturb)
			}
			eventually(t, "nothing is left", func() error { return nothingLeft(t, d) })
		})
	}
}

// chaosRound has everything under way at once while the engine is disturbed.
func chaosRound(t *testing.T, backend execution.Context, image string, disturb func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	defer cancel()
	h, err := backend.Spawn(ctx, execution.Spec{Image: image})
	if err != nil {
		t.Fatalf("Spawn on an engine that is well: %v", err)
	}
	var work sync.WaitGroup
	work.Go(disturb)
	work.Go(func() {
		for i := range 50 {
			result, err := execution.Exec(ctx, h, execution.Command{Shell: fmt.Sprintf("echo %d; exit 7", i)})
			if fine := err == nil && result.Code == 7 && string(result.Stdout) == fmt.Sprintln(i); !fine && !isTyped(err) {
				t.Errorf("command %d: %v, %q, %v", i, result.ExitStatus, result.Stdout, err)
			}
			if err != nil {
				return
			}
		}
	})
	work.Go(func() {
		for i := range 10 {
			err := h.WriteFile(ctx, "file", io.LimitReader(zeros{}, 8<<20), execution.WriteOptions{})
			if err != nil {
				if !isTyped(err) {
					t.Errorf("write %d: %v", i, err)
				}
				return
			}
			if info, err := h.Stat(ctx, "file"); err == nil && info.Size != 8<<20 || err != nil && !isTyped(err) {
				t.Errorf("a file that was written has %d bytes, %v", info.Size, err)
			}
		}
	})
	work.Go(func() {
		task, err := h.StartTask(ctx, execution.Command{Shell: "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"}, execution.TaskOptions{})
		if err != nil {
			if !isTyped(err) {
				t.Errorf("task: %v", err)
			}
			return
		}
		info, err := task.Wait(ctx)
		if fine := err == nil && info.Status.Success() && info.Stdout.Bytes == 10; !fine && !isTyped(err) {
			t.Errorf("task: %+v, %v", info, err)
		}
	})
	work.Wait()
	if ctx.Err() != nil {
		t.Errorf("something hangs")
	}
	if err := h.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

// isTyped reports whether an error says that the sandbox or its engine has gone.
func isTyped(err error) bool {
	return errors.Is(err, execution.ErrLost) || errors.Is(err, execution.ErrUnavailable)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// nothingLeft reports what an engine has that it had not at first.
func nothingLeft(t *testing.T, d *daemon) error {
	t.Helper()
	if err := noneLeft(t, d); err != nil {
		return err
	}
	volumes, err := d.client.VolumeList(t.Context(), volume.ListOptions{})
	if err != nil {
		return err
	}
	if len(volumes.Volumes) > 0 {
		return errorf("there are %d volumes", len(volumes.Volumes))
	}
	networks, err := d.client.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("type", "custom"))})
	if err != nil {
		return err
	}
	var names []string
	for _, n := range networks {
		names = append(names, n.Name)
	}
	if len(names) > 0 {
		return errorf("there are the networks %s", strings.Join(names, ", "))
	}
	return nil
}
