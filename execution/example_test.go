package execution_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// newBackend stands for docker.New and its like: a backend whose only command
// counts the words that it reads.
func newBackend() execution.Context {
	return fake.New(fake.Options{Programs: map[string]fake.Program{
		"count": func(_ context.Context, p *fake.Proc) int {
			var words int
			for {
				var word string
				if _, err := fmt.Fscan(p.Stdin, &word); err != nil {
					break
				}
				words++
			}
			_, _ = fmt.Fprintln(p.Stdout, words)
			if words == 0 {
				return 1
			}
			return 0
		},
	}})
}

// The life of a sandbox, from the first call to the last.
func Example() {
	ctx := context.Background()
	backend := newBackend()
	defer func() { _ = backend.Close() }()

	handle, err := backend.Spawn(ctx, execution.Spec{Env: []string{"LANG=C"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = handle.Destroy(context.WithoutCancel(ctx)) }()

	result, err := execution.Exec(ctx, handle, execution.Command{
		Args:  []string{"count"},
		Stdin: strings.NewReader("nothing escapes, nothing leaks, nothing hangs"),
	})
	if err != nil {
		fmt.Println(err) // the machinery failed; what the command did is not known
		return
	}
	fmt.Printf("%s, wrote %q\n", result, result.Stdout)
	// Output: exited with code 0, wrote "6\n"
}

// A command that fails is a result; an error says that it did not run, or that
// its fate is unknown.
func ExampleExec() {
	ctx := context.Background()
	backend := newBackend()
	defer func() { _ = backend.Close() }()
	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}

	result, err := execution.Exec(ctx, handle, execution.Command{Args: []string{"count"}})
	fmt.Println(result.ShellCode(), err)

	_, err = execution.Exec(ctx, handle, execution.Command{Args: []string{"compile"}})
	fmt.Println(errors.Is(err, execution.ErrCommandNotFound))

	_, err = execution.Exec(ctx, handle, execution.Command{Args: []string{"count"}, Dir: "no/such/dir"})
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// true
	// start: fake fake-1: working directory not found: "no/such/dir"
}

func ExampleHandle_Glob() {
	ctx := context.Background()
	backend := newBackend()
	defer func() { _ = backend.Close() }()
	handle, err := backend.Spawn(ctx, execution.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"main.go", "cmd/tool/main.go", "README.md"} {
		if err := execution.WriteFile(ctx, handle, name, []byte("text")); err != nil {
			fmt.Println(err)
		}
	}
	for info, err := range handle.Glob(ctx, ".", "**/*.go") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(info.Name, info.Size)
	}
	// Output:
	// cmd/tool/main.go 4
	// main.go 4
}

// A limit that a backend cannot enforce is refused, never dropped in silence.
func ExampleCapabilities_Check() {
	can := execution.Capabilities{Images: true}
	fmt.Println(can.Check(execution.Spec{Image: "debian:12"}))
	fmt.Println(can.Check(execution.Spec{Limits: execution.Limits{Memory: 1 << 30}}))
	// Output:
	// <nil>
	// memory limit: not supported by this backend
}

func ExampleParseSignal() {
	for _, text := range []string{"TERM", "sigusr1", "9"} {
		sig, err := execution.ParseSignal(text)
		fmt.Println(sig, int(sig), err)
	}
	// Output:
	// SIGTERM 15 <nil>
	// SIGUSR1 10 <nil>
	// SIGKILL 9 <nil>
}

func ExampleCapture() {
	capture := execution.Capture{Limit: 8}
	_, _ = fmt.Fprint(&capture, "the start and the end")
	kept, dropped := capture.Take()
	fmt.Printf("%s, without %d bytes between\n", kept, dropped)
	// Output: the  end, without 13 bytes between
}
