package docker_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
)

// One command in a container of its own, on the engine that the docker command
// would use.
func Example() {
	ctx := context.Background()
	backend, err := docker.New(ctx, docker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = backend.Close() }()

	sandbox, err := backend.Spawn(ctx, execution.Spec{Limits: execution.Limits{Memory: 512 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = sandbox.Destroy(context.WithoutCancel(ctx)) }()

	result, err := execution.Exec(ctx, sandbox, execution.Command{Shell: "id -u; ls /sys/class/net"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n%s", result.ExitStatus, result.Stdout)
}

// Work that needs root inside, on a folder of the host that it may only read.
func ExampleContext_Spawn() {
	ctx := context.Background()
	backend, err := docker.New(ctx, docker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = backend.Close() }()

	project, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	sandbox, err := backend.Spawn(ctx, execution.Spec{
		Profile: execution.ProfileDev,
		Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: project, Target: "/src", ReadOnly: true},
			{Type: execution.MountTmpfs, Target: "/build", Size: 256 << 20},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = sandbox.Destroy(context.WithoutCancel(ctx)) }()
}

// What stands in the way of sandboxes on this machine, and what to do about it.
func ExampleExamine() {
	report := docker.Examine(context.Background(), docker.Options{})
	for _, f := range report.Findings {
		fmt.Println(f.State, f.Name, f.Detail, f.Fix)
	}
}
