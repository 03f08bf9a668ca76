package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/process"
	"github.com/pinfold-dev/pinfold/internal/guest/proto"
	"github.com/pinfold-dev/pinfold/internal/guest/server"
)

// What the guest's own memory is to be: it holds little, so that collecting
// often costs little, and it is in every container.
const (
	gcPercent   = 50
	memoryLimit = 48 << 20 // in bytes; beyond it collecting becomes eager
)

// serve serves the host on standard input and output until it goes.
func serve() int {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	// It moves bytes and waits. With more than one it spends most of its time
	// on waking up its own threads.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	reserveThreads(spareThreads(facts().Limits.PIDs))
	favour()
	conn, err := takeStdio()
	if err != nil {
		return failed(err)
	}
	ctx, stop := endOnSignal(context.Background())
	defer stop()
	first := os.Getpid() == 1
	commands, err := process.New(process.Options{Dir: "/", Env: os.Environ(), FirstProcess: first, TaskOutput: taskOutput(facts().Limits)})
	if err != nil {
		return failed(err)
	}
	protect()
	err = server.Run(ctx, conn, server.Options{
		Spawn: func(ctx context.Context, cfg *proto.Config) (execution.Handle, error) {
			return commands.Spawn(ctx, execution.Spec{Dir: cfg.Dir, Env: cfg.Env})
		},
		Facts:  facts,
		Listen: listen,
		Rest:   debug.FreeOSMemory,
	})
	if first {
		// All that is left dies with us; this only makes it quick.
		_ = unix.Kill(-1, unix.SIGKILL)
	} else {
		err = errors.Join(err, commands.Close())
	}
	if server.IsEnd(err) || errors.Is(err, execution.ErrLost) {
		return failed(err)
	}
	return 0
}

// taskOutput bounds what tasks may keep of their output, which takes memory of
// the sandbox: a quarter of what there is, and not without end where there is
// no limit.
func taskOutput(limits proto.CgroupLimits) int64 {
	const share, most = 4, 1 << 30
	if limits.Memory <= 0 {
		return most
	}
	return min(limits.Memory/share, most)
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "pinfold-guest:", err)
	return 1
}

// favour makes the kernel choose others when memory is short, as far as it is
// permitted.
func favour() {
	for _, score := range []int{-1000, -900, -500, -100, 0} {
		if os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(score), 10), 0) == nil {
			return
		}
	}
}

// protect keeps commands of the same user from tracing the guest and reading
// its memory. It takes the guest's own files in /proc from that user, so that
// what needs them comes before. Where it fails the sandbox works all the same.
func protect() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// endOnSignal returns a context that ends with SIGTERM and SIGINT, which an
// engine sends to stop the container, and makes all others that would end the
// guest do nothing: any command may send them.
func endOnSignal(ctx context.Context) (context.Context, func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGHUP, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS,
		unix.SIGFPE, unix.SIGUSR1, unix.SIGSEGV, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGSTKFLT,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGSYS)
	return signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
}
