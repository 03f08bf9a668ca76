package cli

import (
	"bytes"
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/docker"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testApp is pinfold with a backend in memory and signals from the test.
type testApp struct {
	*app
	backend     *fake.Backend
	signals     chan os.Signal
	out, errors bytes.Buffer
}

func newTestApp(opts fake.Options) *testApp {
	t := &testApp{backend: fake.New(opts), signals: make(chan os.Signal, 16)}
	t.app = &app{
		stdout: &t.out, stderr: &console{w: &t.errors},
		lookupEnv: hostEnv,
		listen:    func() *listener { return &listener{c: t.signals, stop: func() {}} },
		backends: backends{
			open: func(context.Context, string, openOptions) (execution.Context, error) { return t.backend, nil },
			engine: func(context.Context) (engine, error) {
				return nil, &execution.Error{Op: "connect to the engine", Err: execution.ErrUnavailable}
			},
			examine: func(context.Context) docker.Report { return docker.Report{} },
		},
	}
	return t
}

// pinfold runs the command and returns its exit code.
func (t *testApp) pinfold(ctx context.Context, args ...string) int { return t.main(ctx, args) }
