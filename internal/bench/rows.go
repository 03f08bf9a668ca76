package main

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/pinfold-dev/pinfold/execution"
)

// allRows is the table, top to bottom.
func allRows() []row {
	return []row{
		execTrue(), execConcurrent(), spawnFirstCommand(), destroyRow(), killTree(),
		stdout1GiB(), write4KiB(), read4KiB(), write1GiB(), read1GiB(),
		guestRSS(), hostMemoryPerHandle(),
		taskStart(), taskFollowLatency(), reattach(), tasksListed(),
	}
}

// sameOn makes the samplers of a row whose sample is one piece of work that is
// timed as a whole.
func sameOn(work map[side]func(ctx context.Context) error) map[side]sampler {
	samplers := map[side]sampler{}
	for s, do := range work {
		samplers[s] = func(ctx context.Context) (reading, error) {
			return timed(func() error { return do(ctx) })
		}
	}
	return samplers
}

func execTrue() row {
	return row{
		name: "exec_true", unit: "ms", rounds: 16, burst: 8, warmup: true,
		about: "run true and learn how it ended",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return sameOn(map[side]func(context.Context) error{
				ours:   func(ctx context.Context) error { return handleExec(ctx, b.ours, nil, "true") },
				host:   func(ctx context.Context) error { return handleExec(ctx, b.host, nil, "true") },
				engine: func(ctx context.Context) error { return b.engineExec(ctx, io.Discard, "true") },
				cli:    func(ctx context.Context) error { return b.cliExec(ctx, nil, "true") },
			}), nil
		},
		targets: []target{
			{text: "ours / host, at most 1.5", limit: 1.5, value: oursPerHost},
			{text: "engine / ours, at least 25", limit: 25, atLeast: true, value: enginePerOurs},
		},
	}
}

func execConcurrent() row {
	const count = 200
	at := func(run func(ctx context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			for range count {
				group.Go(func() error { return run(ctx) })
			}
			return group.Wait()
		}
	}
	args := []string{"sleep", "0.2"}
	return row{
		name: "exec_concurrent_200", unit: "ms", rounds: 5,
		fewer: map[side]int{engine: 2, cli: 2},
		about: "200 times sleep 0.2, all at once, until the last has ended",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return sameOn(map[side]func(context.Context) error{
				ours:   at(func(ctx context.Context) error { return handleExec(ctx, b.ours, nil, args...) }),
				host:   at(func(ctx context.Context) error { return handleExec(ctx, b.host, nil, args...) }),
				engine: at(func(ctx context.Context) error { return b.engineExec(ctx, io.Discard, args...) }),
				cli:    at(func(ctx context.Context) error { return b.cliExec(ctx, nil, args...) }),
			}), nil
		},
		targets: []target{{text: "engine / ours, at least 20", limit: 20, atLeast: true, value: enginePerOurs}},
	}
}

func spawnFirstCommand() row {
	spawn := func(c execution.Context, spec execution.Spec) sampler {
		return func(ctx context.Context) (reading, error) {
			var h execution.Handle
			got, err := timed(func() (err error) {
				h, err = spawnAndRun(ctx, c, spec)
				return err
			})
			return got, errors.Join(err, destroy(ctx, h))
		}
	}
	return row{
		name: "spawn_first_command", unit: "ms", rounds: 10, warmup: true,
		about: "make a sandbox and run true in it; engine and cli: create and start a container with the same options, no command",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours:   spawn(b.docker, b.spec),
				host:   spawn(b.process, b.hostSpec()),
				engine: b.startOnce(b.startTwin),
				cli:    b.startOnce(b.cliRun),
			}, nil
		},
		targets: []target{{text: "ours / engine, at most 1.25", limit: 1.25, value: oursPerEngine}},
	}
}

// startOnce times start and removes what it started.
func (b *bed) startOnce(start func(context.Context) (string, error)) sampler {
	return func(ctx context.Context) (reading, error) {
		var id string
		got, err := timed(func() (err error) {
			id, err = start(ctx)
			return err
		})
		if id != "" {
			err = errors.Join(err, b.removeTwin(context.WithoutCancel(ctx), id))
		}
		return got, err
	}
}

func destroyRow() row {
	end := func(c execution.Context, spec execution.Spec) sampler {
		return func(ctx context.Context) (reading, error) {
			h, err := spawnAndRun(ctx, c, spec)
			if err != nil {
				return reading{}, errors.Join(err, destroy(ctx, h))
			}
			return timed(func() error { return h.Destroy(ctx) })
		}
	}
	return row{
		name: "destroy", unit: "ms", rounds: 10, warmup: true,
		about: "destroy a sandbox; engine and cli: forced remove of a running container with the same options",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours:   end(b.docker, b.spec),
				host:   end(b.process, b.hostSpec()),
				engine: b.endTwin(b.removeTwin),
				cli: b.endTwin(func(ctx context.Context, id string) error {
					return dockerCommand(ctx, nil, "rm", "--force", "--volumes", id)
				}),
			}, nil
		},
		targets: []target{{text: "ours / engine, at most 1.5", limit: 1.5, value: oursPerEngine}},
	}
}

// endTwin starts a twin and times how long its end takes.
func (b *bed) endTwin(end func(ctx context.Context, id string) error) sampler {
	return func(ctx context.Context) (reading, error) {
		id, err := b.startTwin(ctx)
		if err != nil {
			return reading{}, err
		}
		return timed(func() error { return end(ctx, id) })
	}
}

func killTree() row {
	return row{
		name: "kill_tree", unit: "ms", rounds: 10, warmup: true,
		about: "kill a command with 20 descendants that ignore SIGTERM, from SIGKILL to the proof that all are dead; " +
			"engine and cli have no such call: kill of the whole container",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			killed := func(kill func(ctx context.Context, id string) error) sampler {
				return func(ctx context.Context) (reading, error) {
					id, err := b.startTwin(ctx)
					if err != nil {
						return reading{}, err
					}
					got, err := timed(func() error { return kill(ctx, id) })
					return got, errors.Join(err, b.removeTwin(context.WithoutCancel(ctx), id))
				}
			}
			return map[side]sampler{
				ours:   func(ctx context.Context) (reading, error) { return handleKill(ctx, b.ours) },
				host:   func(ctx context.Context) (reading, error) { return handleKill(ctx, b.host) },
				engine: killed(b.killAndWait),
				cli: killed(func(ctx context.Context, id string) error {
					return dockerCommand(ctx, nil, "kill", id)
				}),
			}, nil
		},
		targets: []target{{text: "ours in ms, at most 50", limit: 50, value: oursItself}},
	}
}

// box and hostPath are where a file lies in a container and on the host.
func (b *bed) box(name string) string      { return path.Join(b.ours.Dir(), name) }
func (b *bed) hostPath(name string) string { return filepath.Join(b.dir, name) }
