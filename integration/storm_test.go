//go:build linux

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Tasks that take all there is of something. Meanwhile the handle works, or says
// why not; afterwards it works.
func TestStorms(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		line string
		ends execution.Ending // by itself; "" when it has to be killed
	}{
		"fork bomb":           {`bomb() { bomb | bomb & }; bomb; sleep 1000`, ""},
		"18,000 orphans":      {`i=0; while [ $i -lt 18000 ]; do (true &); i=$((i+1)); done`, execution.EndingExited},
		"flood":               {`yes`, ""},
		"full tmpfs":          {`head -c 3000000000 /dev/zero > /dev/shm/full; rm /dev/shm/full`, execution.EndingExited},
		"child out of memory": {`sh -c 'x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done'; exit 0`, execution.EndingExited},
		"leader out of memory": {
			`x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`, execution.EndingOutOfMemory,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{
				Limits: execution.Limits{Memory: 256 << 20}, Labels: map[string]string{runLabel: world.id},
			})
			ctx, cancel := context.WithTimeout(t.Context(), hangTime)
			defer cancel()
			task, err := h.StartTask(ctx, execution.Command{Shell: row.line, Grace: -1}, execution.TaskOptions{Keep: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond) // for it to be in full swing
			result, err := execution.Exec(ctx, h, execution.Command{Args: []string{"echo", "here"}})
			switch {
			case err == nil && result.Ending == execution.EndingOutOfMemory:
			case err == nil && string(result.Stdout) == "here\n":
			case errors.Is(err, execution.ErrCannotRun):
			default:
				t.Errorf("meanwhile: %v, %q, %v", result.ExitStatus, result.Stdout, err)
			}
			if row.ends != "" {
				if info, err := task.Wait(ctx); err != nil || info.Status.Ending != row.ends {
					t.Errorf("it ended as %v, %v", info.Status, err)
				}
			}
			killed := time.Now()
			if err := task.Kill(ctx); err != nil {
				t.Errorf("Kill: %v", err)
			}
			t.Logf("killed within %v", time.Since(killed).Round(time.Millisecond))
			if got := output(t, h, "echo again"); got != "again\n" {
				t.Errorf("afterwards: %q", got)
			}
			destroyed := time.Now()
			if err := h.Destroy(ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
			t.Logf("destroyed within %v", time.Since(destroyed).Round(time.Millisecond))
		})
	}
}
