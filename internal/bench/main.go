// Command bench measures what Pinfold costs, beside the same work done in
// three other ways in the same run:
//
//   - ours: execution/docker, one container with the guest in it;
//   - engine: the engine's API used plainly (create, attach, inspect; archive
//     copy) on a container with the same options;
//   - cli: the docker command on that container;
//   - host: execution/process, so no container at all.
//
// The sides take turns round by round, so that a busy moment of the machine
// hits all of them, and each figure is the median of its rounds. Absolute
// numbers belong to the machine; the ratios are what to compare.
//
// It prints a table and writes one object per row to a JSON file. It fails when
// a measurement failed, and never because something was slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	rows   []string // names; empty means all
	rounds int      // at most that many of each; 0 means each row's own number
	sides  []side
	image  string
	output string // the JSON file; "" means none
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	set, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	chosen, err := chooseRows(allRows(), set.rows)
	if err != nil {
		return err
	}
	b, err := newBed(ctx, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()

	meter := meter{rounds: set.rounds, sides: set.sides, say: progress(stderr)}
	var results []result
	var failures []error
	for _, row := range chosen {
		res, err := meter.measure(ctx, b, row)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", row.name, err))
		}
		results = append(results, res)
	}
	if err := printTable(stdout, results); err != nil {
		return err
	}
	if set.output != "" {
		failures = append(failures, writeJSON(set.output, results))
	}
	return errors.Join(failures...)
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	set := settings{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rows := flags.String("rows", "", "measure these rows only, separated by commas")
	sides := flags.String("sides", "", "measure these sides only, separated by commas: ours, engine, cli, host")
	flags.IntVar(&set.rounds, "rounds", 0, "at most `n` rounds of each row (default: each row's own number)")
	flags.StringVar(&set.image, "image", "", "the `image` of the containers (default: Pinfold's own)")
	flags.StringVar(&set.output, "o", "", "also write the results to `file` as JSON")
	if err := flags.Parse(args); err != nil {
		return set, err
	}
	if flags.NArg() > 0 {
		return set, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *rows != "" {
		set.rows = strings.Split(*rows, ",")
	}
	set.sides = allSides()
	if *sides != "" {
		set.sides = nil
		for name := range strings.SplitSeq(*sides, ",") {
			s, err := parseSide(name)
			if err != nil {
				return set, err
			}
			set.sides = append(set.sides, s)
		}
	}
	return set, nil
}

// chooseRows keeps the order of the rows, not that of the names.
func chooseRows(rows []row, names []string) ([]row, error) {
	if len(names) == 0 {
		return rows, nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var chosen []row
	for _, r := range rows {
		if wanted[r.name] {
			chosen = append(chosen, r)
			delete(wanted, r.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("no row is called %q", name)
	}
	return chosen, nil
}

// progress returns what shows a passing line: on a terminal it does, elsewhere
// it says nothing, so that logs hold the table and no more.
func progress(stderr io.Writer) func(format string, args ...any) {
	file, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(stderr, "\r\033[K"+format, args...)
	}
}
