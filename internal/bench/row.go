package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A side is one way to do the work.
type side string

const (
	ours   side = "ours"
	engine side = "engine"
	cli    side = "cli"
	host   side = "host"
)

func allSides() []side { return []side{ours, engine, cli, host} }

func parseSide(name string) (side, error) {
	if s := side(name); slices.Contains(allSides(), s) {
		return s, nil
	}
	return "", fmt.Errorf("no side is called %q: want ours, engine, cli or host", name)
}

// A row is one thing that is measured.
type row struct {
	name  string
	unit  string
	about string // what one sample does on each side
	more  bool   // more is better, as for a throughput; else less is

	rounds int          // of each side
	fewer  map[side]int // where a side is so slow that it gets fewer rounds
	burst  int          // samples in a row each time that it is a side's turn; 0 means 1
	warmup bool         // one turn of each side is thrown away

	// prepare makes the samplers of the sides that take part.
	prepare func(ctx context.Context, b *bed) (map[side]sampler, error)

	targets []target
}

// A sampler does the work once and says what it took. What it needs only for
// itself it makes and removes outside of what it measures.
type sampler func(ctx context.Context) (reading, error)

// A reading is one measured value, and what else was seen meanwhile.
type reading struct {
	value float64
	also  map[string]float64
}

// timed is a reading in milliseconds.
func timed(work func() error) (reading, error) {
	start := time.Now()
	err := work()
	return reading{value: float64(time.Since(start)) / float64(time.Millisecond)}, err
}

// A meter takes the samples.
type meter struct {
	rounds int
	sides  []side
	say    func(format string, args ...any)
}

// turnDeadline bounds one turn: nothing here takes that long unless it hangs.
const turnDeadline = 90 * time.Second

// measure takes a row's samples, the sides in turns. Where a turn fails, its
// samples are lost; that is a failure of the measurement when it is one of our
// own sides, and when a side has no samples at all in the end.
func (m meter) measure(ctx context.Context, b *bed, r row) (result, error) {
	m.say("%s: preparing", r.name)
	samplers, err := r.prepare(ctx, b)
	if err != nil {
		m.say("")
		return newResult(r, nil), err
	}
	taken := map[side][]reading{}
	failed := map[side][]error{}
	rounds := r.rounds
	if m.rounds > 0 {
		rounds = min(rounds, m.rounds)
	}
	first := 0
	if r.warmup {
		first = -1
	}
	order := slices.Clone(m.sides)
	for round := first; round < rounds; round++ {
		// Nobody always comes first, or always after the same neighbour, who
		// may have left work behind.
		slices.Reverse(order)
		for _, s := range order {
			most, limited := r.fewer[s]
			if samplers[s] == nil || limited && round >= most {
				continue
			}
			m.say("%s: round %d of %d: %s", r.name, max(round, 0)+1, rounds, s)
			got, err := m.turn(ctx, samplers[s], r.burst)
			switch {
			case ctx.Err() != nil:
				return newResult(r, nil), ctx.Err()
			case err != nil:
				failed[s] = append(failed[s], fmt.Errorf("%s: %w", s, err))
			case round >= 0:
				taken[s] = append(taken[s], got...)
			}
		}
	}
	m.say("")
	res := newResult(r, taken)
	var all []error
	for s, errs := range failed {
		res.Failed[s] = len(errs)
		if s == ours || s == host || len(taken[s]) == 0 {
			all = append(all, errs...)
		}
	}
	return res, errors.Join(all...)
}

// turn takes a side's samples of one round.
func (m meter) turn(ctx context.Context, take sampler, burst int) ([]reading, error) {
	ctx, cancel := context.WithTimeout(ctx, turnDeadline)
	defer cancel()
	var got []reading
	for range max(burst, 1) {
		one, err := take(ctx)
		if err != nil {
			return nil, err
		}
		got = append(got, one)
	}
	return got, nil
}

// median is the middle of values, or the mean of the two in the middle. It
// reorders them.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
