//go:build linux && (amd64 || arm64)

package process_test

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/process"
)

// median is the middle one of some durations, in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Millisecond)
}

func benchHandle(b *testing.B) execution.Handle {
	b.Helper()
	c, err := process.New(process.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	h, err := c.Spawn(b.Context(), execution.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkExecTrue runs `true` here and with os/exec in turn, and reports the
// median of each: what else the machine does then weighs on both.
func BenchmarkExecTrue(b *testing.B) {
	h := benchHandle(b)
	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := execution.Exec(b.Context(), h, execution.Command{Args: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(began))

		began = time.Now()
		cmd := exec.CommandContext(b.Context(), "/bin/true")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(began))
	}
	b.ReportMetric(median(ours), "ms/ours")
	b.ReportMetric(median(theirs), "ms/os-exec")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
}

// BenchmarkConcurrent200 runs 200 × `sleep 0.2` at once.
func BenchmarkConcurrent200(b *testing.B) {
	const n = 200
	h := benchHandle(b)
	ours := func(ctx context.Context) error {
		_, err := execution.Exec(ctx, h, execution.Command{Args: []string{"/bin/sleep", "0.2"}})
		return err
	}
	theirs := func(ctx context.Context) error { return exec.CommandContext(ctx, "/bin/sleep", "0.2").Run() }
	var ourTimes, theirTimes []time.Duration
	for b.Loop() {
		ourTimes = append(ourTimes, together(b, n, ours))
		theirTimes = append(theirTimes, together(b, n, theirs))
	}
	b.ReportMetric(median(ourTimes), "ms/ours")
	b.ReportMetric(median(theirTimes), "ms/os-exec")
}

func together(b *testing.B, n int, run func(context.Context) error) time.Duration {
	b.Helper()
	began := time.Now()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if err := run(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// BenchmarkStdout moves 1 GiB of output.
func BenchmarkStdout(b *testing.B) {
	h := benchHandle(b)
	b.SetBytes(1 << 30)
	for b.Loop() {
		cmd := execution.Command{Args: []string{"head", "-c", "1073741824", "/dev/zero"}, Stdout: nullWriter{}}
		status, err := execution.Exec(b.Context(), h, cmd)
		if err != nil || status.StdoutBytes != 1<<30 {
			b.Fatal(status, err)
		}
	}
}

type nullWriter struct{}

func (nullWriter) Write(p []byte) (int, error) { return len(p), nil }
