package fakekit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// shell runs lines that are the name of a script.
func shell(ctx context.Context, p *fake.Proc) int {
	program, ok := programs()[executiontest.Script(p.Args[0])]
	if !ok {
		return 127
	}
	return program(ctx, p)
}

func programs() map[executiontest.Script]fake.Program {
	all := map[executiontest.Script]fake.Program{
		executiontest.Print:     printBoth,
		executiontest.Cat:       cat,
		executiontest.Head:      head,
		executiontest.Sleep:     sleep,
		executiontest.Mute:      mute,
		executiontest.Count:     count,
		executiontest.Flood:     flood,
		executiontest.PrintDir:  func(_ context.Context, p *fake.Proc) int { return say(p, p.Dir) },
		executiontest.PrintEnv:  printEnv,
		executiontest.PrintUser: printUser,
		executiontest.Routes:    func(context.Context, *fake.Proc) int { return 0 },
		executiontest.Terminal:  terminal,
	}
	maps.Copy(all, processPrograms())
	maps.Copy(all, filePrograms())
	return all
}

// say writes a line.
func say(p *fake.Proc, line any) int {
	if _, err := fmt.Fprintln(p.Stdout, line); err != nil {
		return 1
	}
	return 0
}

// arg is an argument, and number one that is a number.
func arg(p *fake.Proc, i int) string {
	if i >= len(p.Args) {
		return ""
	}
	return p.Args[i]
}

func number(p *fake.Proc, i int) int {
	n, err := strconv.Atoi(arg(p, i))
	if err != nil {
		return 0
	}
	return n
}

func printBoth(_ context.Context, p *fake.Proc) int {
	_, _ = io.WriteString(p.Stdout, arg(p, 1))
	_, _ = io.WriteString(p.Stderr, arg(p, 2))
	return number(p, 3)
}

func cat(_ context.Context, p *fake.Proc) int {
	if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
		return 1
	}
	return 0
}

func head(_ context.Context, p *fake.Proc) int {
	if _, err := io.CopyN(p.Stdout, p.Stdin, int64(number(p, 1))); err != nil {
		return 1
	}
	return 0
}

func sleep(ctx context.Context, _ *fake.Proc) int {
	pause(ctx, 10*time.Minute)
	return 0
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func mute(ctx context.Context, p *fake.Proc) int {
	p.CloseOutput()
	pause(ctx, 500*time.Millisecond)
	return number(p, 1)
}

func count(_ context.Context, p *fake.Proc) int {
	n := number(p, 1)
	var both sync.WaitGroup
	for _, half := range []struct {
		to          io.Writer
		first, last int
	}{{p.Stdout, 1, n}, {p.Stderr, n + 1, 2 * n}} {
		both.Go(func() {
			out := bufio.NewWriter(half.to)
			for i := half.first; i <= half.last; i++ {
				if _, err := out.WriteString(strconv.Itoa(i) + "\n"); err != nil {
					return
				}
			}
			_ = out.Flush()
		})
	}
	both.Wait()
	return 0
}

// flood rests between blocks, since a fake clock stands still while somebody
// is busy.
func flood(ctx context.Context, p *fake.Proc) int {
	block := []byte(strings.Repeat("y\n", 32<<10))
	for {
		if _, err := p.Stdout.Write(block); err != nil {
			return 1
		}
		pause(ctx, 5*time.Millisecond)
	}
}

func printEnv(_ context.Context, p *fake.Proc) int {
	value, ok := p.Getenv(arg(p, 1))
	if !ok {
		return 1
	}
	return say(p, value)
}

func printUser(_ context.Context, p *fake.Proc) int {
	uid, gid := p.User()
	return say(p, fmt.Sprintf("%d:%d", uid, gid))
}

// terminal tells the size at the start and for each line.
func terminal(ctx context.Context, p *fake.Proc) int {
	if _, ok := p.Terminal(); !ok {
		return 1
	}
	lines := bufio.NewScanner(p.Stdin)
	for {
		size, _ := p.Terminal()
		say(p, fmt.Sprintf("%d %d", size.Rows, size.Cols))
		if !lines.Scan() || ctx.Err() != nil {
			return 0
		}
	}
}

func filePrograms() map[executiontest.Script]fake.Program {
	// code is 1 for an error, which is told as programs do.
	code := func(p *fake.Proc, err error) int {
		if err != nil {
			_, _ = fmt.Fprintln(p.Stderr, err)
			return 1
		}
		return 0
	}
	add := func(path int, mode fs.FileMode, target int) fake.Program {
		return func(_ context.Context, p *fake.Proc) int {
			text := ""
			if target > 0 {
				text = arg(p, target)
			}
			return code(p, p.Handle().AddFile(p.Path(arg(p, path)), mode, text))
		}
	}
	return map[executiontest.Script]fake.Program{
		executiontest.MakeDir: add(1, fs.ModeDir|0o755, 0),
		executiontest.FIFO:    add(1, fs.ModeNamedPipe|0o644, 0),
		executiontest.Link:    add(2, fs.ModeSymlink|0o777, 1),
		executiontest.Chmod: func(_ context.Context, p *fake.Proc) int {
			mode, err := strconv.ParseUint(arg(p, 1), 8, 32)
			if err != nil {
				return 2
			}
			return code(p, p.Handle().Chmod(p.Path(arg(p, 2)), fs.FileMode(mode)))
		},
		executiontest.Touch: func(_ context.Context, p *fake.Proc) int {
			seconds, err := strconv.ParseInt(arg(p, 1), 10, 64)
			if err != nil {
				return 2
			}
			return code(p, p.Handle().Chtime(p.Path(arg(p, 2)), time.Unix(seconds, 0)))
		},
		executiontest.Load: func(ctx context.Context, p *fake.Proc) int {
			r, err := p.Handle().OpenFile(ctx, p.Path(arg(p, 1)), execution.ReadOptions{})
			if err != nil {
				return code(p, err)
			}
			defer func() { _ = r.Close() }()
			_, err = io.Copy(p.Stdout, r)
			return code(p, err)
		},
		executiontest.Store: func(ctx context.Context, p *fake.Proc) int {
			return code(p, execution.WriteFile(ctx, p.Handle(), p.Path(arg(p, 1)), []byte(arg(p, 2))))
		},
	}
}
