//go:build !unix

package process

import (
	"context"
	"fmt"
	"runtime"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Context is a backend that cannot do anything: it is there so that programs
// for this system compile.
type Context struct{}

var _ execution.Context = (*Context)(nil)

// New never fails; what it makes cannot spawn.
func New(Options) (*Context, error) { return &Context{}, nil }

// Type is "process".
func (*Context) Type() string { return backendType }

// Capabilities are none.
func (*Context) Capabilities() execution.Capabilities { return execution.Capabilities{} }

// Spawn fails with execution.ErrUnsupported.
func (*Context) Spawn(context.Context, execution.Spec) (execution.Handle, error) {
	err := fmt.Errorf("commands on a %s host: %w; use the docker backend, or run this program inside of Linux (on Windows: WSL)",
		runtime.GOOS, execution.ErrUnsupported)
	return nil, &execution.Error{Op: "spawn", Backend: backendType, Err: err}
}

// Close does nothing.
func (*Context) Close() error { return nil }
