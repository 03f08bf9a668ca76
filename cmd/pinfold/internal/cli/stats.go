package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
)

const statsHelp = `Print what a sandbox uses, once a second until Ctrl-C, or once with --no-stream. It is
read inside of the sandbox, from its control group: what its runtime does not show
there is told as "-", or as null with --json. Memory is without the file cache that
can be given back. 100% of CPU is one processor.`

// A usage is what a sandbox uses; nil is unknown, or no limit.
type usage struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	CPU         *float64 `json:"cpu_percent"` // of one processor, since the sample before
	Memory      *int64   `json:"memory_bytes"`
	MemoryLimit *int64   `json:"memory_limit_bytes"`
	PIDs        *int64   `json:"pids"`
	PIDsLimit   *int64   `json:"pids_limit"`
}

const statsEvery = time.Second

func (a *app) statsCommand() *cobra.Command {
	var (
		to           attachment
		once, asJSON bool
	)
	cmd := &cobra.Command{
		Use:               "stats [flags] ID",
		Short:             "Print what a sandbox uses",
		Long:              statsHelp,
		Args:              sandboxArgs(0, "stats takes one sandbox"),
		ValidArgsFunction: a.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			to.id = args[0]
			return a.withSandbox(cmd.Context(), to, func(ctx context.Context, h execution.Handle) error {
				return a.printStats(ctx, h, once, asJSON)
			})
		},
	}
	to.register(cmd.Flags())
	cmd.Flags().BoolVar(&once, "no-stream", false, "print it once")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON objects")
	return cmd
}

func (a *app) printStats(ctx context.Context, h execution.Handle, once, asJSON bool) error {
	if !asJSON {
		if err := statsRow(a.stdout, "ID", "NAME", "CPU", "MEMORY / LIMIT", "PIDS / LIMIT"); err != nil {
			return err
		}
	}
	spent, err := cpuTime(ctx, h)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(statsEvery)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-h.Done():
			return h.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		u, now, err := measure(ctx, h)
		if err != nil {
			return err
		}
		if spent != nil && now != nil {
			percent := 100 * float64(*now-*spent) / float64(time.Since(began))
			u.CPU = &percent
		}
		began, spent = time.Now(), now
		if asJSON {
			err = writeJSON(a.stdout, u)
		} else {
			err = u.print(a.stdout)
		}
		if err != nil || once {
			return err
		}
	}
}

// print writes one row. It is not a table of its own, whose width would differ
// from row to row.
func (u usage) print(w io.Writer) error {
	cpu := "-"
	if u.CPU != nil {
		cpu = fmt.Sprintf("%.1f%%", *u.CPU)
	}
	size := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return showSize(*n)
	}
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatInt(*n, 10)
	}
	return statsRow(w, u.ID, printable(u.Name), cpu,
		size(u.Memory)+" / "+size(u.MemoryLimit), number(u.PIDs)+" / "+number(u.PIDsLimit))
}

func statsRow(w io.Writer, id, name, cpu, memory, pids string) error {
	_, err := fmt.Fprintf(w, "%-12s   %-24s   %-7s   %-20s   %s\n", id, name, cpu, memory, pids)
	return err
}

// The files of control groups, of the second version and of the first. Inside
// of a sandbox they are its own.
var (
	cpuFiles         = []string{"cpu.stat", "cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"}
	memoryFiles      = []string{"memory.current", "memory/memory.usage_in_bytes"}
	memoryStatFiles  = []string{"memory.stat", "memory/memory.stat"}
	memoryLimitFiles = []string{"memory.max", "memory/memory.limit_in_bytes"}
	pidsFiles        = []string{"pids.current", "pids/pids.current"}
	pidsLimitFiles   = []string{"pids.max", "pids/pids.max"}
)

// measure reads what a sandbox uses, and the processor time so far.
func measure(ctx context.Context, h execution.Handle) (u usage, spent *int64, err error) {
	u.ID, u.Name = h.ID(), h.Spec().Name
	for _, read := range []struct {
		to    **int64
		files []string
	}{
		{&u.Memory, memoryFiles},
		{&u.MemoryLimit, memoryLimitFiles},
		{&u.PIDs, pidsFiles},
		{&u.PIDsLimit, pidsLimitFiles},
	} {
		text, err := groupFile(ctx, h, read.files)
		if err != nil {
			return u, nil, err
		}
		*read.to = groupNumber(text)
	}
	text, err := groupFile(ctx, h, memoryStatFiles)
	if err != nil {
		return u, nil, err
	}
	cache := groupField(text, "total_inactive_file")
	if cache == nil {
		cache = groupField(text, "inactive_file")
	}
	if u.Memory != nil && cache != nil && *cache <= *u.Memory {
		*u.Memory -= *cache
	}
	spent, err = cpuTime(ctx, h)
	return u, spent, err
}

// cpuTime is the processor time that a sandbox has used, in nanoseconds.
func cpuTime(ctx context.Context, h execution.Handle) (*int64, error) {
	text, err := groupFile(ctx, h, cpuFiles)
	if err != nil {
		return nil, err
	}
	if micros := groupField(text, "usage_usec"); micros != nil {
		nanos := *micros * int64(time.Microsecond)
		return &nanos, nil
	}
	return groupNumber(text), nil
}

// groupFile reads the first of some files that is there; "" is none.
func groupFile(ctx context.Context, h execution.Handle, names []string) (string, error) {
	const limit = 64 << 10
	for _, name := range names {
		data, err := execution.ReadFile(ctx, h, "/sys/fs/cgroup/"+name, limit)
		switch {
		case err == nil:
			return string(data), nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", err
		}
	}
	return "", nil
}

// noLimit is where the first version says that there is none.
const noLimit = 1 << 60

// groupNumber reads a file that is one number; nil is none, such as "max".
func groupNumber(text string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n >= noLimit {
		return nil
	}
	return &n
}

// groupField reads one line of a file of names and numbers.
func groupField(text, name string) *int64 {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, " "); ok && key == name {
			return groupNumber(value)
		}
	}
	return nil
}
