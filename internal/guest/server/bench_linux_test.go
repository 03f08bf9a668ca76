package server_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// Everything here is measured twice: directly on the process backend, and on
// the same through the whole wire over a socket pair. The difference is what
// the guest costs; an engine between the two costs more.

func benchmark(b *testing.B, work func(b *testing.B, h execution.Handle)) {
	b.Helper()
	outer := newBackend(b)
	b.Cleanup(func() {
		if err := outer.Close(); err != nil {
			b.Error(err)
		}
	})
	for name, backend := range map[string]execution.Context{"process": outer.inner, "wire": outer} {
		h, err := backend.Spawn(b.Context(), execution.Spec{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) { work(b, h) })
		if err := h.Destroy(b.Context()); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkExecTrue(b *testing.B) {
	benchmark(b, func(b *testing.B, h execution.Handle) {
		b.Helper()
		for b.Loop() {
			result, err := execution.Exec(b.Context(), h, execution.Command{Args: []string{"true"}})
			if err != nil || !result.Success() {
				b.Fatal(result, err)
			}
		}
	})
}

const benchBytes = 64 << 20

func BenchmarkStdout(b *testing.B) {
	benchmark(b, func(b *testing.B, h execution.Handle) {
		b.Helper()
		b.SetBytes(benchBytes)
		for b.Loop() {
			p, err := h.Start(b.Context(), execution.Command{
				Args: []string{"head", "-c", fmt.Sprint(benchBytes), "/dev/zero"}, Stdout: counter{},
			})
			if err != nil {
				b.Fatal(err)
			}
			if status, err := p.Wait(b.Context()); err != nil || status.StdoutBytes != benchBytes {
				b.Fatal(status, err)
			}
		}
	})
}

// counter takes everything, and has no shortcuts.
type counter struct{}

func (counter) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkStdin(b *testing.B) {
	benchmark(b, func(b *testing.B, h execution.Handle) {
		b.Helper()
		b.SetBytes(benchBytes)
		for b.Loop() {
			p, err := h.Start(b.Context(), execution.Command{
				Args: []string{"cat"}, Stdin: io.LimitReader(zeros{}, benchBytes),
			})
			if err != nil {
				b.Fatal(err)
			}
			if status, err := p.Wait(b.Context()); err != nil || !status.Success() {
				b.Fatal(status, err)
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func BenchmarkWriteFile(b *testing.B) {
	for _, size := range []int64{4 << 10, benchBytes} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchmark(b, func(b *testing.B, h execution.Handle) {
				b.Helper()
				b.SetBytes(size)
				for b.Loop() {
					if err := h.WriteFile(b.Context(), "file", io.LimitReader(zeros{}, size), execution.WriteOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkReadFile(b *testing.B) {
	for _, size := range []int64{4 << 10, benchBytes} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchmark(b, func(b *testing.B, h execution.Handle) {
				b.Helper()
				if err := h.WriteFile(b.Context(), "file", io.LimitReader(zeros{}, size), execution.WriteOptions{}); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(size)
				for b.Loop() {
					f, err := h.OpenFile(b.Context(), "file", execution.ReadOptions{})
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(counter{}, f); err != nil || n != size {
						b.Fatal(n, err)
					}
					if err := f.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
