package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixed is a sampler that gives one value after the other.
func fixed(values ...float64) sampler {
	next := 0
	return func(context.Context) (reading, error) {
		v := values[next]
		next++
		return reading{value: v, also: map[string]float64{"extra": v * 2}}, nil
	}
}

func quiet(string, ...any) {}

func rowOf(samplers map[side]sampler) row {
	return row{
		name: "row", unit: "ms", rounds: 3,
		prepare: func(context.Context, *bed) (map[side]sampler, error) { return samplers, nil },
		targets: []target{
			{text: "at most", limit: 1.5, value: oursPerHost},
			{text: "at least", limit: 25, atLeast: true, value: enginePerOurs},
			{text: "not measured", limit: 1, value: also("missing")},
		},
	}
}

func TestARowHoldsMediansAndRatios(t *testing.T) {
	m := meter{sides: allSides(), say: quiet}
	got, err := m.measure(t.Context(), nil, rowOf(map[side]sampler{
		ours: fixed(9, 2, 1), engine: fixed(40, 40, 41), host: fixed(1, 1, 1),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if *got.Ours != 2 || *got.Engine != 40 || *got.Host != 1 || got.CLI != nil {
		t.Errorf("medians: got %v %v %v %v", *got.Ours, *got.Engine, *got.Host, got.CLI)
	}
	if *got.VsEngine != 20 || *got.VsHost != 0.5 {
		t.Errorf("ratios: got %v and %v", *got.VsEngine, *got.VsHost)
	}
	if got.Also["extra"] != 18 {
		t.Errorf("also: got %v, want the highest of ours", got.Also)
	}
	for i, v := range got.Targets {
		if v.Met {
			t.Errorf("target %d is met: %+v", i, v)
		}
	}
}

func TestThroughputsAreDividedTheOtherWay(t *testing.T) {
	r := rowOf(nil)
	r.more = true
	got := newResult(r, map[side][]reading{ours: {{value: 300}}, engine: {{value: 100}}})
	if *got.VsEngine != 3 || !strings.Contains(got.Ratio, "ours / engine") {
		t.Errorf("got %v, %q", *got.VsEngine, got.Ratio)
	}
}

func TestAFailedTurnOfOthersIsCounted(t *testing.T) {
	turn := 0
	flaky := func(context.Context) (reading, error) {
		if turn++; turn == 2 {
			return reading{}, errors.New("broken")
		}
		return reading{value: 5}, nil
	}
	m := meter{sides: allSides(), say: quiet}
	got, err := m.measure(t.Context(), nil, rowOf(map[side]sampler{engine: flaky}))
	if err != nil || got.Failed[engine] != 1 || got.Samples[engine] != 2 || *got.Engine != 5 {
		t.Errorf("got %v failed, %v taken, %v", got.Failed, got.Samples, err)
	}
	turn = 0
	if _, err = m.measure(t.Context(), nil, rowOf(map[side]sampler{ours: flaky})); err == nil {
		t.Error("our own failure was passed over")
	}
}

func TestAFailedSideDropsOutAndIsReported(t *testing.T) {
	broken := errors.New("broken")
	m := meter{sides: allSides(), say: quiet}
	got, err := m.measure(t.Context(), nil, rowOf(map[side]sampler{
		ours: fixed(1, 2, 3),
		cli:  func(context.Context) (reading, error) { return reading{}, broken },
	}))
	if !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}
	if got.CLI != nil || got.Ours == nil {
		t.Errorf("got cli %v and ours %v", got.CLI, got.Ours)
	}
}

func TestAWarmupIsNotCounted(t *testing.T) {
	r := rowOf(map[side]sampler{ours: fixed(1000, 1, 1, 1)})
	r.warmup = true
	got, err := meter{sides: allSides(), say: quiet}.measure(t.Context(), nil, r)
	if err != nil || *got.Ours != 1 || got.Samples[ours] != 3 {
		t.Errorf("got %v from %v samples, %v", got.Ours, got.Samples, err)
	}
}

func TestSlowSidesGetFewerRounds(t *testing.T) {
	r := rowOf(map[side]sampler{ours: fixed(1, 1, 1), engine: fixed(5)})
	r.fewer = map[side]int{engine: 1}
	got, err := meter{sides: allSides(), say: quiet}.measure(t.Context(), nil, r)
	if err != nil || got.Samples[engine] != 1 || got.Samples[ours] != 3 {
		t.Errorf("got samples %v, %v", got.Samples, err)
	}
}

func TestTheFileHasTheFieldsThatReadersLookFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	one := 1.0
	if err := writeJSON(path, []result{{Name: "row", Unit: "ms", Ours: &one}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"name", "unit", "ours", "engine", "cli", "host", "vs_engine", "vs_host"} {
		if _, ok := rows[0][field]; !ok {
			t.Errorf("there is no field %q in %s", field, data)
		}
	}
}

func TestTheTableShowsWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	one, many := 1.234, 123.4
	err := printTable(&out, []result{{
		Name: "row", Unit: "ms", Ours: &one, Engine: &many, VsEngine: &many,
		Targets: []verdict{{Text: "target", Value: &one, Met: true}, {Text: "other"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.23", "123", "123x", "-", "row: target: 1.23 (met)", "row: other: - (not measured)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	if _, err := chooseRows(allRows(), []string{"exec_true", "nonsense"}); err == nil {
		t.Error("an unknown row was accepted")
	}
	if _, err := parseFlags([]string{"-sides", "ours,moon"}, &bytes.Buffer{}); err == nil {
		t.Error("an unknown side was accepted")
	}
	got, err := chooseRows(allRows(), []string{"read_1gib", "exec_true"})
	if err != nil || len(got) != 2 || got[0].name != "exec_true" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestABurstIsManySamplesInOneTurn(t *testing.T) {
	r := rowOf(map[side]sampler{ours: fixed(9, 1, 9, 1, 9, 2), host: fixed(1, 1, 1, 1, 1, 1)})
	r.burst = 2
	got, err := meter{sides: allSides(), say: quiet}.measure(t.Context(), nil, r)
	if err != nil || got.Samples[ours] != 6 || *got.Ours != 5.5 {
		t.Errorf("got %v from %v samples, %v", *got.Ours, got.Samples, err)
	}
}
