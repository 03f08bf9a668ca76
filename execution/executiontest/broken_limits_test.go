package executiontest_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
)

func limitFaults() []fault {
	without := func(change func(*execution.Capabilities)) func(*world) {
		return func(w *world) {
			w.can = func(c execution.Capabilities) execution.Capabilities { change(&c); return c }
		}
	}
	silent := func(change func(*execution.Capabilities), drop func(*execution.Spec)) func(*world) {
		return func(w *world) {
			without(change)(w)
			spawns(drop)(w)
		}
	}
	return []fault{
		{
			name: "undeclared limit dropped in silence", cases: []string{"declared/undeclared_memory_limit"},
			make: silent(func(c *execution.Capabilities) { c.MemoryLimit = false }, func(s *execution.Spec) { s.Limits.Memory = 0 }),
		},
		{
			name: "undeclared mounts dropped in silence", cases: []string{"declared/undeclared_mounts"},
			make: silent(func(c *execution.Capabilities) { c.Mounts = false }, func(s *execution.Spec) { s.Mounts = nil }),
		},
		{
			name: "undeclared lifetimes dropped in silence",
			cases: []string{
				"declared/undeclared_lifetime", "declared/undeclared_idle_timeout", "declared/undeclared_detach", "declared/spec_with_several_fields",
			},
			make: silent(func(*execution.Capabilities) {}, func(s *execution.Spec) { s.Detach, s.Lifetime, s.IdleTimeout = false, 0, 0 }),
		},
		{
			name: "can more than it declares", cases: []string{"declared/undeclared_user"},
			make: without(func(c *execution.Capabilities) { c.Users = false }),
		},
		{
			name: "a terminal that is not declared", cases: []string{"tty/undeclared"},
			make: without(func(c *execution.Capabilities) { c.TTY = false }),
		},
		{
			name: "a refusal that names no field", cases: []string{"declared/undeclared_cpu_limit"}, told: "does not name",
			make: func(w *world) {
				without(func(c *execution.Capabilities) { c.CPULimit = false })(w)
				w.spawn = func(ctx context.Context, spec execution.Spec, next spawnFunc) (execution.Handle, error) {
					if spec.Limits.CPUs != 0 {
						return nil, &execution.Error{Op: "spawn", Err: execution.ErrUnsupported}
					}
					return next(ctx, spec)
				}
			},
		},
		{name: "memory limit does not hold", cases: []string{"limits/memory", "limits/memory_spares_the_sandbox"}, make: spawns(func(s *execution.Spec) { s.Limits.Memory = 0 })},
		{name: "pid limit does not hold", cases: []string{"limits/pids"}, make: spawns(func(s *execution.Spec) { s.Limits.PIDs = 0 })},
		{name: "cpu limit does not hold", cases: []string{"limits/cpus"}, make: spawns(func(s *execution.Spec) { s.Limits.CPUs = 0 })},
		{name: "storage limit does not hold", cases: []string{"limits/storage"}, make: spawns(func(s *execution.Spec) { s.Limits.Storage = 0 })},
		{name: "read-only root does not hold", cases: []string{"limits/readonly_root"}, make: spawns(func(s *execution.Spec) { s.ReadOnly = false })},
		{name: "user ignored", cases: []string{"limits/user", "limits/user_unknown"}, make: spawns(func(s *execution.Spec) { s.User = "" })},
		{name: "name ignored", cases: []string{"limits/name"}, make: spawns(func(s *execution.Spec) { s.Name = "" })},
		{name: "image ignored", cases: []string{"limits/image_unknown"}, make: spawns(func(s *execution.Spec) { s.Image = "" })},
		{name: "runtime ignored", cases: []string{"limits/runtime_unknown"}, make: spawns(func(s *execution.Spec) { s.Runtime = "" })},
		{name: "mounts ignored", cases: []string{"limits/tmpfs_mount", "limits/bind_mount"}, make: spawns(func(s *execution.Spec) { s.Mounts = nil })},
		{
			name: "size of a tmpfs ignored", cases: []string{"limits/tmpfs_size"},
			make: spawns(func(s *execution.Spec) {
				s.Mounts = slices.Clone(s.Mounts)
				for i := range s.Mounts {
					s.Mounts[i].Size = 0
				}
			}),
		},
		{
			name: "read-only mounts are writable", cases: []string{"limits/tmpfs_mount", "limits/bind_mount"},
			make: spawns(func(s *execution.Spec) {
				s.Mounts = slices.Clone(s.Mounts)
				for i := range s.Mounts {
					s.Mounts[i].ReadOnly = false
				}
			}),
		},
		{
			name: "reserved labels accepted", cases: []string{"limits/labels"},
			make: spawns(func(s *execution.Spec) { s.Labels = nil }),
		},
		{
			name: "Spec tells no defaults", cases: []string{"limits/profiles", "limits/image_unknown", "limits/name", "limits/network_none"},
			make: func(w *world) {
				w.spec = func(s execution.Spec) execution.Spec { return execution.Spec{Dir: s.Dir} }
			},
		},
		{
			name: "out of memory reads as a kill", cases: []string{"limits/memory"},
			make: func(w *world) {
				w.status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) {
					if s.Ending == execution.EndingOutOfMemory {
						s.Ending, s.Signal = execution.EndingSignalled, execution.SIGKILL
					}
				})
			},
		},
		{
			name: "any SIGKILL reads as out of memory", cases: []string{"limits/memory_spares_the_sandbox", "ending/signals"},
			make: func(w *world) {
				w.status(func(_ *brokenProcess, s *execution.ExitStatus, _ *error) {
					if s.Ending == execution.EndingSignalled && s.Signal == execution.SIGKILL {
						s.Ending = execution.EndingOutOfMemory
					}
				})
			},
		},
		{
			name: "isolation declared but not held", cases: []string{"limits/isolation"},
			make: func(w *world) {
				w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
					if info, err := os.Stat(path); err == nil && strings.HasPrefix(path, os.TempDir()) {
						return execution.FileInfo{Name: info.Name(), Size: info.Size()}, nil
					}
					return h.Stat(ctx, path)
				}
			},
		},
		{
			name: "a terminal that is none", cases: []string{"tty/is_a_terminal_of_that_size", "tty/resize", "tty/interrupt_key"},
			make: func(w *world) { w.command(func(cmd *execution.Command) { cmd.TTY = nil }) },
		},
		{
			name: "a terminal of the usual size", cases: []string{"tty/is_a_terminal_of_that_size"},
			make: func(w *world) {
				w.command(func(cmd *execution.Command) {
					if cmd.TTY != nil {
						cmd.TTY = &execution.TerminalSize{Rows: 24, Cols: 80}
					}
				})
			},
		},
		{
			name: "kill not proven though declared", cases: []string{"kill/tree"}, told: "alive",
			make: func(w *world) {
				w.kill = func(ctx context.Context, p *brokenProcess) error { return p.Signal(ctx, execution.SIGKILL) }
			},
		},
		{
			name: "something seen only from outside is left", cases: []string{"ending/exit_codes"}, told: "inventory",
			make:   func(*world) {},
			change: func(h *executiontest.Harness) { brokenInventory(h) },
		},
	}
}

// brokenInventory makes a look from outside find one thing more each time.
func brokenInventory(h *executiontest.Harness) {
	n := 0
	inner := h.Inventory
	h.Inventory = func(tb testing.TB) []string {
		tb.Helper()
		n++
		return append(inner(tb), "container "+strconv.Itoa(n))
	}
}
