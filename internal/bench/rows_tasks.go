package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
)

// execTime is what else is measured where a task is started.
const execTime = "exec_true_ms"

func taskStart() row {
	start := func(h execution.Handle) sampler {
		return func(ctx context.Context) (reading, error) {
			var task execution.Task
			got, err := timed(func() (err error) {
				task, err = h.StartTask(ctx, execution.Command{Args: []string{"true"}}, execution.TaskOptions{})
				return err
			})
			if err != nil {
				return got, err
			}
			if _, err := task.Wait(ctx); err != nil {
				return got, err
			}
			exec, err := timed(func() error { return handleExec(ctx, h, nil, "true") })
			got.also = map[string]float64{execTime: exec.value}
			return got, err
		}
	}
	return row{
		name: "task_start", unit: "ms", rounds: 16, burst: 8, warmup: true,
		about: "start true as a task, until its name is known",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{ours: start(b.ours), host: start(b.host)}, nil
		},
		targets: []target{{text: "ours / exec_true, at most 1.5", limit: 1.5, value: func(r result) *float64 {
			exec := also(execTime)(r)
			if exec == nil || r.Ours == nil {
				return nil
			}
			return ratio(r.Ours, exec)
		}}},
	}
}

func taskFollowLatency() row {
	const lines = 40
	follow := func(h execution.Handle) sampler {
		return func(ctx context.Context) (reading, error) {
			// The clock is the same one inside and outside.
			task, err := h.StartTask(ctx, execution.Command{
				Shell: "for i in $(seq " + strconv.Itoa(lines) + "); do date +%s%N; sleep 0.01; done",
			}, execution.TaskOptions{})
			if err != nil {
				return reading{}, err
			}
			r, err := task.OpenOutput(ctx, execution.Stdout, execution.OutputOptions{Follow: true})
			if err != nil {
				return reading{}, err
			}
			late, err := latency(r)
			return reading{value: late}, errors.Join(err, r.Close())
		}
	}
	return row{
		name: "task_follow_latency", unit: "ms", rounds: 5, warmup: true,
		about: "from before date writes a line until it is read, the mean of forty",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{ours: follow(b.ours), host: follow(b.host)}, nil
		},
		targets: []target{{text: "ours in ms, at most 5", limit: 5, value: oursItself}},
	}
}

// latency reads lines that say when they were written, and returns how late
// they came on average, in milliseconds.
func latency(r io.Reader) (float64, error) {
	var sum float64
	count := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		written, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += float64(time.Now().UnixNano()-written) / float64(time.Millisecond)
		count++
	}
	if count == 0 {
		return 0, errors.Join(errors.New("no line came"), lines.Err())
	}
	return sum / float64(count), lines.Err()
}

func reattach() row {
	return row{
		name: "reattach", unit: "ms", rounds: 8, warmup: true,
		about: "attach to a sandbox that runs, and ask it something; engine and cli: an exec of true",
		prepare: func(ctx context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours: func(ctx context.Context) (reading, error) { return b.attachOnce(ctx) },
				engine: func(ctx context.Context) (reading, error) {
					return timed(func() error { return b.engineExec(ctx, io.Discard, "true") })
				},
				cli: func(ctx context.Context) (reading, error) {
					return timed(func() error { return b.cliExec(ctx, nil, "true") })
				},
			}, ctx.Err()
		},
		targets: []target{{text: "ours / engine, at most 2", limit: 2, value: oursPerEngine}},
	}
}

// attachOnce makes a sandbox, lets go of it, and times another host's way in.
func (b *bed) attachOnce(ctx context.Context) (got reading, err error) {
	spec := b.spec
	spec.Detach, spec.Lifetime = true, 10*time.Minute
	first, err := docker.New(ctx, docker.Options{})
	if err != nil {
		return got, err
	}
	h, err := first.Spawn(ctx, spec)
	if err = errors.Join(err, first.Close()); err != nil { //nolint:contextcheck // bounds itself
		return got, err
	}
	second, err := docker.New(ctx, docker.Options{})
	if err != nil {
		return got, err
	}
	defer func() {
		err = errors.Join(err, second.Remove(context.WithoutCancel(ctx), h.ID()), second.Close()) //nolint:contextcheck // bounds itself
	}()
	return timed(func() error {
		again, err := second.Attach(ctx, h.ID(), execution.AttachOptions{Mode: execution.AttachTakeOver})
		if err != nil {
			return err
		}
		_, err = again.Stat(ctx, "/")
		return err
	})
}

// guestMemory is what else is read where there are many tasks.
const guestMemory = "guest_rss_mib"

func tasksListed() row {
	const count, atOnce = 10_000, 16
	many := func(h execution.Handle) error {
		group, ctx := errgroup.WithContext(context.Background())
		group.SetLimit(atOnce)
		for range count {
			group.Go(func() error {
				task, err := h.StartTask(ctx, execution.Command{Args: []string{"echo", "a line"}}, execution.TaskOptions{})
				if err == nil {
					_, err = task.Wait(ctx)
				}
				return err
			})
		}
		return group.Wait()
	}
	list := func(h execution.Handle, also func(context.Context) (map[string]float64, error)) sampler {
		made := false
		return func(ctx context.Context) (reading, error) {
			if !made {
				if err := many(h); err != nil {
					return reading{}, err
				}
				made = true
			}
			n := 0
			got, err := timed(func() error {
				for _, err := range h.Tasks(ctx) {
					if err != nil {
						return err
					}
					n++
				}
				return nil
			})
			if err == nil && n < count {
				err = fmt.Errorf("%d tasks are listed, want %d", n, count)
			}
			if err == nil {
				got.also, err = also(ctx)
			}
			return got, err
		}
	}
	return row{
		name: "tasks_10000_listed", unit: "ms", rounds: 5, warmup: true,
		about: "list ten thousand tasks that have ended",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours: list(b.ours, func(ctx context.Context) (map[string]float64, error) {
					rss, err := b.firstProcessRSS(ctx, b.ours.ID())
					return map[string]float64{guestMemory: rss.value}, err
				}),
			}, nil
		},
		targets: []target{
			{text: "ours in ms, at most 50", limit: 50, value: oursItself},
			{text: "memory of the guest in MiB, at most 32", limit: 32, value: also(guestMemory)},
		},
	}
}
