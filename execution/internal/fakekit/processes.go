package fakekit

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

func processPrograms() map[executiontest.Script]fake.Program {
	return map[executiontest.Script]fake.Program{
		executiontest.Raise:      raise,
		executiontest.Trap:       trap,
		executiontest.Tree:       tree,
		executiontest.Group:      group,
		executiontest.Alive:      alive,
		executiontest.Leave:      leave,
		executiontest.LeaveFlood: leaveFlood,
		executiontest.LeavePrint: leavePrint,
		executiontest.EatMemory:  eatMemory,
		executiontest.Fork:       forkMany,
		executiontest.Spin:       spin,
	}
}

func raise(ctx context.Context, p *fake.Proc) int {
	p.Raise(execution.Signal(number(p, 1)))
	return 0
}

func trap(ctx context.Context, p *fake.Proc) int {
	term := p.Notify(execution.SIGTERM)
	say(p, "ready")
	select {
	case <-term:
		say(p, "term")
		return 7
	case <-ctx.Done():
		return 1
	}
}

// sleeper says who it is and sleeps.
func sleeper(ctx context.Context, p *fake.Proc) int {
	say(p, p.PID())
	return sleep(ctx, p)
}

func fork(ctx context.Context, p *fake.Proc, f fake.Fork) bool {
	f.Args = []string{"sleep", "600"}
	_, err := p.Fork(ctx, f)
	return err == nil
}

func tree(ctx context.Context, p *fake.Proc) int {
	p.Ignore(execution.SIGTERM, execution.SIGHUP)
	fork(ctx, p, fake.Fork{Program: sleeper})
	fork(ctx, p, fake.Fork{Program: func(ctx context.Context, p *fake.Proc) int {
		fork(ctx, p, fake.Fork{Detached: true, Program: func(ctx context.Context, p *fake.Proc) int {
			fork(ctx, p, fake.Fork{Program: sleeper})
			return sleeper(ctx, p)
		}})
		return 0
	}})
	return sleeper(ctx, p)
}

func group(ctx context.Context, p *fake.Proc) int {
	fork(ctx, p, fake.Fork{Program: sleeper})
	return sleeper(ctx, p)
}

func alive(_ context.Context, p *fake.Proc) int {
	for i := range p.Args {
		for _, other := range p.Handle().Processes() {
			if i > 0 && other.PID == number(p, i) {
				say(p, other.PID)
			}
		}
	}
	return 0
}

func leave(ctx context.Context, p *fake.Proc) int {
	pid, err := p.Fork(ctx, fake.Fork{Program: sleep, Args: []string{"sleep", "600"}})
	if err != nil {
		return 1
	}
	_, _ = io.WriteString(p.Stdout, strconv.Itoa(pid)+"\n"+arg(p, 1))
	return 3
}

func leaveFlood(ctx context.Context, p *fake.Proc) int {
	if !fork(ctx, p, fake.Fork{Program: flood}) {
		return 1
	}
	return 3
}

func leavePrint(ctx context.Context, p *fake.Proc) int {
	text := arg(p, 1)
	fork(ctx, p, fake.Fork{Program: func(_ context.Context, p *fake.Proc) int {
		_, _ = io.WriteString(p.Stdout, text)
		return 0
	}})
	return 0
}

func eatMemory(ctx context.Context, p *fake.Proc) int {
	const most = 1 << 40 // where nothing stops it
	for n := int64(16); n < most && ctx.Err() == nil; n *= 2 {
		if err := p.Allocate(n); err != nil {
			break
		}
	}
	return 1
}

func forkMany(ctx context.Context, p *fake.Proc) int {
	for range number(p, 1) {
		if !fork(ctx, p, fake.Fork{Program: sleep}) {
			return 2
		}
	}
	say(p, "done")
	return sleep(ctx, p)
}

func spin(ctx context.Context, p *fake.Proc) int {
	for ctx.Err() == nil {
		p.Compute(ctx, time.Hour)
	}
	return 1
}
