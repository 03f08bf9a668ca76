package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// A result is one row of the table. A figure that was not taken is null.
type result struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	About string `json:"about"`

	Ours   *float64 `json:"ours"`
	Engine *float64 `json:"engine"`
	CLI    *float64 `json:"cli"`
	Host   *float64 `json:"host"`

	// VsEngine and VsHost are above 1 where ours is better, whatever the
	// unit; Ratio says which way they were divided.
	VsEngine *float64 `json:"vs_engine"`
	VsHost   *float64 `json:"vs_host"`
	Ratio    string   `json:"ratio"`

	// Samples is how many the median of each side is taken from.
	Samples map[side]int `json:"samples"`

	// Failed is how many turns of a side failed and are not in its median.
	Failed map[side]int `json:"failed,omitempty"`

	// Also is what else was seen on our side: the highest of all rounds.
	Also map[string]float64 `json:"also,omitempty"`

	Targets []verdict `json:"targets,omitempty"`
}

// A target is what a row is to reach. It decides nothing but what is printed.
type target struct {
	text    string
	atLeast bool // else at most
	limit   float64
	value   func(result) *float64
}

// A verdict says how a target was met.
type verdict struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value"`
	Met   bool     `json:"met"`
}

func newResult(r row, taken map[side][]reading) result {
	res := result{
		Name: r.name, Unit: r.unit, About: r.about,
		Ratio:   "vs_engine = engine / ours, vs_host = host / ours",
		Samples: map[side]int{}, Failed: map[side]int{},
	}
	if r.more {
		res.Ratio = "vs_engine = ours / engine, vs_host = ours / host"
	}
	for s, readings := range taken {
		res.Samples[s] = len(readings)
	}
	res.Ours, res.Engine = medianOf(taken[ours]), medianOf(taken[engine])
	res.CLI, res.Host = medianOf(taken[cli]), medianOf(taken[host])
	res.VsEngine, res.VsHost = ratio(res.Engine, res.Ours), ratio(res.Host, res.Ours)
	if r.more {
		res.VsEngine, res.VsHost = ratio(res.Ours, res.Engine), ratio(res.Ours, res.Host)
	}
	for _, reading := range taken[ours] {
		for name, value := range reading.also {
			if res.Also == nil {
				res.Also = map[string]float64{}
			}
			res.Also[name] = max(res.Also[name], value)
		}
	}
	for _, t := range r.targets {
		value := t.value(res)
		met := value != nil && (t.atLeast && *value >= t.limit || !t.atLeast && *value <= t.limit)
		res.Targets = append(res.Targets, verdict{Text: t.text, Value: value, Met: met})
	}
	return res
}

func medianOf(readings []reading) *float64 {
	if len(readings) == 0 {
		return nil
	}
	values := make([]float64, len(readings))
	for i, r := range readings {
		values[i] = r.value
	}
	m := median(values)
	return &m
}

func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	r := *a / *b
	return &r
}

// The values that targets speak of.
func oursPerHost(r result) *float64   { return ratio(r.Ours, r.Host) }
func oursPerEngine(r result) *float64 { return ratio(r.Ours, r.Engine) }
func enginePerOurs(r result) *float64 { return ratio(r.Engine, r.Ours) }
func oursItself(r result) *float64    { return r.Ours }

func also(name string) func(result) *float64 {
	return func(r result) *float64 {
		value, ok := r.Also[name]
		if !ok {
			return nil
		}
		return &value
	}
}

// printTable writes the rows, and below them what each was to reach. The table
// is kept until it is flushed, so that only that can fail.
func printTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "row\tunit\tours\tengine\tcli\thost\tvs engine\tvs host\t")
	for _, r := range results {
		_, _ = fmt.Fprintln(table, strings.Join([]string{
			r.Name, r.Unit, figure(r.Ours), figure(r.Engine), figure(r.CLI), figure(r.Host),
			times(r.VsEngine), times(r.VsHost), "",
		}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, v := range r.Targets {
			word := "missed"
			if v.Met {
				word = "met"
			}
			if v.Value == nil {
				word = "not measured"
			}
			if _, err := fmt.Fprintf(w, "%s: %s: %s (%s)\n", r.Name, v.Text, figure(v.Value), word); err != nil {
				return err
			}
		}
	}
	return nil
}

// figure shows three digits that count.
func figure(value *float64) string {
	switch {
	case value == nil:
		return "-"
	case *value >= 100:
		return fmt.Sprintf("%.0f", *value)
	case *value >= 10:
		return fmt.Sprintf("%.1f", *value)
	default:
		return fmt.Sprintf("%.2f", *value)
	}
}

func times(value *float64) string {
	if value == nil {
		return "-"
	}
	return figure(value) + "x"
}

func writeJSON(path string, results []result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644) //nolint:gosec // It is for everybody to read.
}
