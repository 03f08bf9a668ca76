package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"
)

const (
	small = 4 << 10
	large = 1 << 30
)

// growth is what else is read where a gibibyte passes through this process.
const growth = "host_memory_growth_mib"

// largeTargets are those of the three rows that move a gibibyte.
func largeTargets() []target {
	return []target{
		{text: "ours / engine, at least 0.8", limit: 0.8, atLeast: true, value: oursPerEngine},
		{text: "growth of host memory in MiB, at most 16", limit: 16, value: also(growth)},
	}
}

// throughput is a reading in MiB/s of work that moves a gibibyte, and of how
// much this process's memory grew meanwhile.
func throughput(work func(ctx context.Context) error) sampler {
	return func(ctx context.Context) (reading, error) {
		peak, err := watchMemory()
		if err != nil {
			return reading{}, err
		}
		got, err := timed(func() error { return work(ctx) })
		if err != nil {
			return reading{}, err
		}
		grown, err := peak()
		got.value = large / mib / (got.value * float64(time.Millisecond) / float64(time.Second))
		got.also = map[string]float64{growth: grown / mib}
		return got, err
	}
}

func throughputs(work map[side]func(ctx context.Context) error) map[side]sampler {
	samplers := map[side]sampler{}
	for s, do := range work {
		samplers[s] = throughput(do)
	}
	return samplers
}

func stdout1GiB() row {
	args := []string{"head", "-c", strconv.Itoa(large), "/dev/zero"}
	counted := func(run func(ctx context.Context, stdout io.Writer) error) func(context.Context) error {
		return func(ctx context.Context) error {
			var got counter
			return errors.Join(run(ctx, &got), expect(large)(got.n, nil))
		}
	}
	return row{
		name: "stdout_1gib", unit: "MiB/s", more: true, rounds: 3,
		about: "read 1 GiB from a command's stdout",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return throughputs(map[side]func(context.Context) error{
				ours:   counted(func(ctx context.Context, w io.Writer) error { return handleExec(ctx, b.ours, w, args...) }),
				host:   counted(func(ctx context.Context, w io.Writer) error { return handleExec(ctx, b.host, w, args...) }),
				engine: counted(func(ctx context.Context, w io.Writer) error { return b.engineExec(ctx, w, args...) }),
				cli:    counted(func(ctx context.Context, w io.Writer) error { return b.cliExec(ctx, w, args...) }),
			}), nil
		},
		targets: largeTargets(),
	}
}

// written is the file that the rows about writing write.
const written = "written"

// writes is the work of writing size bytes to a file on every side.
func writes(b *bed, size int64) map[side]func(context.Context) error {
	const name = written
	return map[side]func(context.Context) error{
		ours:   func(ctx context.Context) error { return handleWrite(ctx, b.ours, name, size) },
		host:   func(ctx context.Context) error { return handleWrite(ctx, b.host, name, size) },
		engine: func(ctx context.Context) error { return b.engineWrite(ctx, b.box(name), size) },
		cli: func(ctx context.Context) error {
			return dockerCommand(ctx, nil, "cp", b.hostPath(sourceName(size)), b.twin+":"+b.box(name))
		},
	}
}

// reads is the work of reading such a file.
func reads(b *bed, size int64) map[side]func(context.Context) error {
	name := sourceName(size)
	return map[side]func(context.Context) error{
		ours:   func(ctx context.Context) error { return handleRead(ctx, b.ours, name, size) },
		host:   func(ctx context.Context) error { return handleRead(ctx, b.host, name, size) },
		engine: func(ctx context.Context) error { return b.engineRead(ctx, b.box(name), size) },
		cli: func(ctx context.Context) error {
			// To stdout, so that nobody writes a file: it comes as an archive.
			return dockerCommand(ctx, io.Discard, "cp", b.twin+":"+b.box(name), "-")
		},
	}
}

func sourceName(size int64) string { return "source-" + strconv.FormatInt(size, 10) }

// makeSources puts the file that is to be read on every side that takes part.
func makeSources(ctx context.Context, b *bed, size int64) error {
	name := sourceName(size)
	var all []error
	if b.takesPart(ours) {
		all = append(all, handleWrite(ctx, b.ours, name, size))
	}
	if b.takesPart(host) {
		all = append(all, handleWrite(ctx, b.host, name, size))
	}
	if b.takesPart(engine) || b.takesPart(cli) {
		all = append(all, b.engineWrite(ctx, b.box(name), size))
	}
	if b.takesPart(cli) {
		all = append(all, writeZeros(b.hostPath(name), size))
	}
	return errors.Join(all...)
}

// remove removes a file on every side, if it is there.
func (b *bed) remove(ctx context.Context, name string) error {
	return errors.Join(
		handleExec(ctx, b.ours, nil, "rm", "-f", name), handleExec(ctx, b.host, nil, "rm", "-f", name),
		b.engineExec(ctx, io.Discard, "rm", "-f", b.box(name)),
	)
}

func write4KiB() row {
	return row{
		name: "write_4kib", unit: "ms", rounds: 10, burst: 8, warmup: true,
		about: "write a file of 4 KiB; engine and cli: copy one in",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			return sameOn(writes(b, small)), writeZeros(b.hostPath(sourceName(small)), small)
		},
		targets: []target{{text: "engine / ours, at least 10", limit: 10, atLeast: true, value: enginePerOurs}},
	}
}

func read4KiB() row {
	return row{
		name: "read_4kib", unit: "ms", rounds: 10, burst: 8, warmup: true,
		about: "read a file of 4 KiB; engine and cli: copy it out",
		prepare: func(ctx context.Context, b *bed) (map[side]sampler, error) {
			return sameOn(reads(b, small)), makeSources(ctx, b, small)
		},
		targets: []target{{text: "engine / ours, at least 10", limit: 10, atLeast: true, value: enginePerOurs}},
	}
}

func write1GiB() row {
	return row{
		name: "write_1gib", unit: "MiB/s", more: true, rounds: 3,
		about: "write a file of 1 GiB; engine and cli: copy one in",
		prepare: func(_ context.Context, b *bed) (map[side]sampler, error) {
			samplers := throughputs(writes(b, large))
			for s, take := range samplers {
				samplers[s] = func(ctx context.Context) (reading, error) {
					// Nobody pays for what the one before left to be written,
					// or for an old file's share of the memory limit.
					if err := b.remove(ctx, written); err != nil {
						return reading{}, err
					}
					syncDisks()
					return take(ctx)
				}
			}
			return samplers, writeZeros(b.hostPath(sourceName(large)), large)
		},
		targets: largeTargets(),
	}
}

func read1GiB() row {
	return row{
		name: "read_1gib", unit: "MiB/s", more: true, rounds: 3,
		about: "read a file of 1 GiB; engine and cli: copy it out",
		prepare: func(ctx context.Context, b *bed) (map[side]sampler, error) {
			return throughputs(reads(b, large)), errors.Join(b.remove(ctx, written), makeSources(ctx, b, large))
		},
		targets: largeTargets(),
	}
}
