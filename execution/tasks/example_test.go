package tasks_test

import (
	"context"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
	"github.com/pinfold-dev/pinfold/execution/tasks"
)

// Whatever can start a command can have tasks.
func Example() {
	ctx := context.Background()
	backend := fake.New(fake.Options{Shell: func(_ context.Context, p *fake.Proc) int {
		_, _ = fmt.Fprintln(p.Stdout, "built")
		return 0
	}})
	defer func() { _ = backend.Close() }()
	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}

	registry := tasks.New(handle.Start, tasks.Options{Backend: "mine", Handle: handle.ID()})
	defer registry.End(execution.ErrClosed)

	task, err := registry.StartTask(ctx, execution.Command{Shell: "make"}, execution.TaskOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	output, err := task.OpenOutput(ctx, execution.Stdout, execution.OutputOptions{Follow: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(output)
	fmt.Printf("%s: %q %v\n", task.ID(), text, err)
	for event, err := range registry.Events(ctx) {
		fmt.Println(event.Task.ID, event.Task.Status, err)
		break
	}
	// Output:
	// task-1: "built\n" <nil>
	// task-1 exited with code 0 <nil>
}
