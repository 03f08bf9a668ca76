package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// restTime is how long a guest is left alone before its memory is read.
const restTime = 3 * time.Second

func guestRSS() row {
	return row{
		name: "guest_rss", unit: "MiB", rounds: 1,
		about: "resident memory of a container's first process at rest; engine: of one that just sleeps",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours: func(ctx context.Context) (reading, error) {
					// It is to have done some of everything before.
					err := errors.Join(handleExec(ctx, b.ours, nil, "head", "-c", "67108864", "/dev/zero"),
						handleWrite(ctx, b.ours, "rest", 64*mib), handleRead(ctx, b.ours, "rest", 64*mib))
					if err != nil {
						return reading{}, err
					}
					return b.firstProcessRSS(ctx, b.ours.ID())
				},
				engine: func(ctx context.Context) (reading, error) { return b.firstProcessRSS(ctx, b.twin) },
			}, nil
		},
		targets: []target{{text: "ours in MiB, at most 8", limit: 8, value: oursItself}},
	}
}

// firstProcessRSS reads it from the host's /proc, so the engine must run here.
func (b *bed) firstProcessRSS(ctx context.Context, id string) (reading, error) {
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	info, err := b.engine.ContainerInspect(ctx, id)
	if err != nil {
		return reading{}, err
	}
	bytes, err := statusBytes(info.State.Pid, "VmRSS")
	return reading{value: bytes / mib}, err
}

// goroutines is what else is read where handles are idle.
const goroutines = "goroutines_per_handle"

func hostMemoryPerHandle() row {
	const count = 16
	perHandle := func(c execution.Context, spec execution.Spec) sampler {
		return func(ctx context.Context) (reading, error) {
			// What the first handle of all needs once is not counted.
			first, err := spawnAndRun(ctx, c, spec)
			if err != nil {
				return reading{}, errors.Join(err, destroy(ctx, first))
			}
			handles := []execution.Handle{first}
			before, running := footprint(), runtime.NumGoroutine()
			for range count {
				var h execution.Handle
				if h, err = spawnAndRun(ctx, c, spec); h != nil {
					handles = append(handles, h)
				}
				if err != nil {
					break
				}
			}
			got := reading{
				value: (footprint() - before) / count / kib,
				also:  map[string]float64{goroutines: float64(runtime.NumGoroutine()-running) / count},
			}
			for _, h := range handles {
				err = errors.Join(err, destroy(ctx, h))
			}
			return got, err
		}
	}
	return row{
		name: "host_memory_per_handle", unit: "KiB", rounds: 2, warmup: true,
		about: "what one more idle handle adds to this process and its children; " +
			"engine: an attach stream held open; cli: a docker exec held open, as its share of memory",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return map[side]sampler{
				ours:   perHandle(b.docker, b.spec),
				host:   perHandle(b.process, b.hostSpec()),
				engine: b.streamsHeld(count),
				cli:    b.commandHeld,
			}, nil
		},
		targets: []target{
			{text: "ours in KiB, at most 256", limit: 256, value: oursItself},
			{text: "goroutines per idle handle, at most 6", limit: 6, value: also(goroutines)},
		},
	}
}
