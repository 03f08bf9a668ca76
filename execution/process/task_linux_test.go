//go:build linux && (amd64 || arm64)

package process

import (
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// TestTasksKeepWithinTheirLimit has tasks that would keep 16 MiB each.
func TestTasksKeepWithinTheirLimit(t *testing.T) {
	const limit, each = 1 << 20, 4 << 20
	h := spawn(t, newTestContext(t, Options{TaskOutput: limit}))
	var tasks []execution.Task
	for range 4 {
		task, err := h.StartTask(t.Context(), execution.Command{Shell: "yes", OutputLimit: each}, execution.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := task.Wait(t.Context()); err != nil || info.Status.Ending != execution.EndingOutputLimit {
			t.Errorf("%+v, %v", info, err)
		}
		tasks = append(tasks, task)
	}
	kept := int64(0)
	for _, task := range tasks {
		info, err := task.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept += info.Stdout.Bytes - info.Stdout.Dropped
	}
	if kept > limit || kept < limit/2 {
		t.Errorf("%d bytes are kept, want no more than %d", kept, limit)
	}
}
