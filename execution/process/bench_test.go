//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// median is the middle one of some durations, in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Millisecond)
}

func benchHandle(b *testing.B) execution.Handle {
	b.Helper()
	c, err := New(Options{Dir: b.TempDir()})
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

// BenchmarkKillTree kills trees of 21 processes that ignore SIGTERM, and
// reports the time from SIGKILL to the proof that nothing is left.
func BenchmarkKillTree(b *testing.B) {
	h := benchHandle(b)
	var times []time.Duration
	for b.Loop() {
		line := "trap '' TERM; for i in $(seq 10); do setsid sh -c 'sleep 1000; :' & done; echo; sleep 1000; :"
		started := make(chan struct{})
		var once sync.Once
		p, err := h.Start(b.Context(), execution.Command{
			Shell: line, Grace: -1, Stdout: writerFunc(func(p []byte) (int, error) {
				once.Do(func() { close(started) })
				return len(p), nil
			}),
		})
		if err != nil {
			b.Fatal(err)
		}
		<-started
		time.Sleep(20 * time.Millisecond) // for the tree to grow
		began := time.Now()
		if err := p.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	b.ReportMetric(median(times), "ms/kill")
	b.ReportMetric(float64(slices.Max(times))/float64(time.Millisecond), "ms/worst")
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
