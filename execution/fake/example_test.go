package fake_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// A test of a program that runs `make test` in a sandbox needs no make.
func Example() {
	ctx := context.Background()
	backend := fake.New(fake.Options{
		Files: map[string]string{"Makefile": "test:\n\tgo test ./...\n"},
		Shell: func(_ context.Context, p *fake.Proc) int {
			_, _ = fmt.Fprintf(p.Stdout, "ok: %s in %s\n", p.Args[0], p.Dir)
			return 0
		},
	})
	defer func() { _ = backend.Close() }()

	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := execution.Exec(ctx, handle, execution.Command{Shell: "make test"})
	fmt.Printf("%s, %v, %s", result, err, result.Stdout)
	// Output: exited with code 0, <nil>, ok: make test in /workspace
}

// What does a host do when the engine is gone in the middle of it?
func ExampleOptions_fault() {
	ctx := context.Background()
	backend := fake.New(fake.Options{
		Fault: func(_ context.Context, op fake.Op) error {
			if op.Name == "write file" {
				op.Handle.Die("the engine was restarted")
			}
			return nil
		},
	})
	defer func() { _ = backend.Close() }()

	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = execution.WriteFile(ctx, handle, "notes", []byte("text"))
	fmt.Println(errors.Is(err, execution.ErrLost))
	fmt.Println(err)
	// Output:
	// true
	// write file: fake fake-1: "notes": sandbox lost: the engine was restarted
}

// Programs can be found by PATH, read stdin, fork and be signalled.
func ExampleProgram() {
	ctx := context.Background()
	backend := fake.New(fake.Options{Programs: map[string]fake.Program{
		"serve": func(ctx context.Context, p *fake.Proc) int {
			term := p.Notify(execution.SIGTERM)
			_, _ = fmt.Fprintln(p.Stdout, "serving")
			select {
			case <-term:
				_, _ = fmt.Fprintln(p.Stdout, "bye")
				return 0
			case <-ctx.Done():
				return 1
			}
		},
	}})
	defer func() { _ = backend.Close() }()
	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}

	out, in := io.Pipe()
	lines := bufio.NewScanner(out)
	proc, err := handle.Start(ctx, execution.Command{Args: []string{"serve"}, Stdout: in})
	if err != nil {
		fmt.Println(err)
		return
	}
	lines.Scan()
	fmt.Println(lines.Text())
	if err := proc.Signal(ctx, execution.SIGTERM); err != nil {
		fmt.Println(err)
	}
	lines.Scan()
	fmt.Println(lines.Text())
	fmt.Println(proc.Wait(ctx))
	// Output:
	// serving
	// bye
	// exited with code 0 <nil>
}
