package cli

import (
	"context"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/execution/process"
	"github.com/pinfold-dev/pinfold/images"
)

// The backends that --backend takes.
const (
	backendDocker  = docker.Type
	backendProcess = "process"
)

// backends is how the command gets at what runs commands.
type backends struct {
	// open opens a backend by its name.
	open func(ctx context.Context, name string, opts openOptions) (execution.Context, error)

	// engine opens the container engine.
	engine func(ctx context.Context) (engine, error)

	// examine looks whether sandboxes can run.
	examine func(ctx context.Context) docker.Report
}

type openOptions struct {
	progress images.Progress
	keep     bool // the sandbox stays, stopped; docker only
}

// An engine is what the commands beside `run` need of [docker.Context].
type engine interface {
	Images() images.Engine
	List(ctx context.Context) ([]docker.Sandbox, error)
	Remove(ctx context.Context, name string) error
	Collect(ctx context.Context, opts docker.CollectOptions) ([]docker.Collected, error)
	Close() error
}

func realBackends() backends {
	return backends{
		open: func(ctx context.Context, name string, opts openOptions) (execution.Context, error) {
			// A nil pointer must not become a Context that is not nil.
			if name == backendProcess {
				c, err := process.New(process.Options{})
				if err != nil {
					return nil, err
				}
				return c, nil
			}
			c, err := docker.New(ctx, docker.Options{Progress: opts.progress, Keep: opts.keep, EndWithHost: true})
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		engine: func(ctx context.Context) (engine, error) {
			c, err := docker.New(ctx, docker.Options{})
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		examine: func(ctx context.Context) docker.Report { return docker.Examine(ctx, docker.Options{}) },
	}
}

// withEngine runs do with an engine, until a signal, and closes it.
func (a *app) withEngine(ctx context.Context, do func(context.Context, engine) error) error {
	return a.interruptible(ctx, func(ctx context.Context) error {
		engine, err := a.backends.engine(ctx)
		if err != nil {
			return err
		}
		err = do(ctx, engine)
		if closeErr := engine.Close(); err == nil {
			err = closeErr
		}
		return err
	})
}
