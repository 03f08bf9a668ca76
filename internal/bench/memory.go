package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// watchMemory starts to watch this process's resident memory; what it returns
// says by how many bytes it grew at its highest since.
func watchMemory() (func() (float64, error), error) {
	debug.FreeOSMemory()
	before, err := statusBytes(os.Getpid(), "VmRSS")
	if err != nil {
		return nil, err
	}
	// It sets the high-water mark back to what is resident now; see proc(5).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return nil, err
	}
	return func() (float64, error) {
		peak, err := statusBytes(os.Getpid(), "VmHWM")
		return max(0, peak-before), err
	}, nil
}

// statusBytes reads a field of /proc/PID/status that is in kB.
func statusBytes(pid int, field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return fieldBytes(string(data), field)
}

func fieldBytes(text, field string) (float64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return n * kib, err
		}
	}
	return 0, fmt.Errorf("there is no %s", field)
}

// footprint is how many bytes the Go runtime of this process holds of the
// system, and what its children hold.
func footprint() float64 {
	// Twice: the first collection runs finalizers and empties pools half.
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	sum := float64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
	for _, pid := range children(os.Getpid()) {
		sum += pss(pid)
	}
	return sum
}

// pss is a process's own memory and its share of what others hold too. It is 0
// for one that has just gone.
func pss(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	bytes, _ := fieldBytes(string(data), "Pss")
	return bytes
}

// children are the processes below pid.
func children(pid int) []int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var all []int
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for text := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(text); err == nil {
				all = append(append(all, child), children(child)...)
			}
		}
	}
	return all
}

// streamsHeld holds attach streams of the twin open.
func (b *bed) streamsHeld(count int) sampler {
	return func(ctx context.Context) (got reading, err error) {
		var open []io.Closer
		defer func() {
			for _, c := range slices.Backward(open) {
				err = errors.Join(err, c.Close())
			}
		}()
		before, running := footprint(), runtime.NumGoroutine()
		for range count {
			stream, err := b.engine.ContainerAttach(ctx, b.twin,
				container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
			if err != nil {
				return got, err
			}
			open = append(open, stream.Conn)
		}
		got.value = (footprint() - before) / float64(count) / kib
		got.also = map[string]float64{goroutines: float64(runtime.NumGoroutine()-running) / float64(count)}
		return got, nil
	}
}

// commandHeld holds one docker exec open and reads its memory.
func (b *bed) commandHeld(ctx context.Context) (got reading, err error) {
	cmd := exec.CommandContext(ctx, "docker", "exec", "--interactive", b.twin, "sh", "-c", "echo up; exec cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return got, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return got, errors.Join(err, stdin.Close())
	}
	if err := cmd.Start(); err != nil {
		return got, err
	}
	_, err = bufio.NewReader(stdout).ReadString('\n')
	got.value = pss(cmd.Process.Pid) / kib
	return got, errors.Join(err, stdin.Close(), cmd.Wait())
}
