package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pinfold-dev/pinfold/execution"
)

// A report is what `pinfold run --json` prints.
type report struct {
	ExitCode int `json:"exit_code"` // what pinfold ends with

	// Status is how the command ended; null when it was never started.
	Status *execution.ExitStatus `json:"status"`

	// Error is why pinfold could not do its work; null when it could.
	Error *reportError `json:"error"`

	Stdout *reportOutput `json:"stdout,omitempty"`
	Stderr *reportOutput `json:"stderr,omitempty"`

	Durations reportDurations `json:"durations"`
	Limits    *reportLimits   `json:"limits"`  // in force; null when there was no sandbox
	Sandbox   *reportSandbox  `json:"sandbox"` // null when there was none
}

type reportError struct {
	Kind    string `json:"kind"` // see errorKind
	Message string `json:"message"`
}

func newReportError(err error) *reportError {
	if err == nil {
		return nil
	}
	return &reportError{errorKind(err), err.Error()}
}

// A reportOutput is one of the command's streams, of which the start and the
// end are kept.
type reportOutput struct {
	Data     string `json:"data"`
	Encoding string `json:"encoding"`      // "utf-8", or "base64" where the bytes are no UTF-8
	Dropped  int64  `json:"dropped_bytes"` // left out in the middle of data
}

func newReportOutput(kept []byte, dropped int64) *reportOutput {
	if utf8.Valid(kept) {
		return &reportOutput{string(kept), "utf-8", dropped}
	}
	return &reportOutput{base64.StdEncoding.EncodeToString(kept), "base64", dropped}
}

type reportDurations struct {
	Spawn   time.Duration `json:"spawn_ns"`   // making the sandbox
	Command time.Duration `json:"command_ns"` // the command itself
	Destroy time.Duration `json:"destroy_ns"` // removing the sandbox
	Total   time.Duration `json:"total_ns"`   // all of it
}

// A reportLimits has null where there is no limit.
type reportLimits struct {
	Memory  *int64   `json:"memory_bytes"`
	CPUs    *float64 `json:"cpus"`
	PIDs    *int64   `json:"pids"`
	Storage *int64   `json:"storage_bytes"`
	Timeout *int64   `json:"timeout_ns"`
	Output  *int64   `json:"output_bytes"`
}

type reportSandbox struct {
	Backend   string                 `json:"backend"`
	Isolation bool                   `json:"isolation"`
	ID        string                 `json:"id"`
	Name      string                 `json:"name,omitempty"`
	Image     string                 `json:"image,omitempty"`
	Dir       string                 `json:"dir"`
	User      string                 `json:"user,omitempty"`
	Network   string                 `json:"network,omitempty"`
	Runtime   string                 `json:"runtime,omitempty"`
	Profile   execution.Profile      `json:"profile,omitempty"`
	Relax     []execution.Relaxation `json:"relax,omitempty"`
	ReadOnly  bool                   `json:"read_only"`
	Kept      bool                   `json:"kept"`
}

// report tells the session's run.
func (s *session) report(o *outcome) *report {
	r := &report{
		ExitCode: o.code,
		Error:    newReportError(o.err),
		Durations: reportDurations{
			Spawn: s.spawned, Command: o.status.Duration, Destroy: s.destroyed, Total: s.total,
		},
	}
	if r.Error == nil && o.undone != nil {
		r.Error = &reportError{"cleanup", o.undone.Error()}
	}
	if s.proc != nil {
		r.Status = &o.status
		r.Stdout = newReportOutput(s.captured[0].Take())
		r.Stderr = newReportOutput(s.captured[1].Take())
	}
	if s.handle == nil {
		return r
	}
	spec := s.handle.Spec()
	r.Limits = &reportLimits{
		Memory: positive(spec.Limits.Memory), CPUs: positive(spec.Limits.CPUs),
		PIDs: positive(spec.Limits.PIDs), Storage: positive(spec.Limits.Storage),
		Timeout: positive(int64(s.plan.command.Timeout)), Output: positive(s.plan.command.OutputLimit),
	}
	r.Sandbox = &reportSandbox{
		Backend: s.backend.Type(), Isolation: s.backend.Capabilities().Isolation,
		ID: s.handle.ID(), Name: spec.Name, Image: spec.Image, Dir: s.handle.Dir(),
		User: spec.User, Network: spec.Network, Runtime: spec.Runtime, Profile: spec.Profile,
		Relax: slices.Clone(spec.Relax), ReadOnly: spec.ReadOnly, Kept: s.plan.keep,
	}
	return r
}

func positive[T int64 | float64](n T) *T {
	if n <= 0 {
		return nil
	}
	return &n
}

func (a *app) writeReport(r *report) error { return writeJSON(a.stdout, r) }

// writeJSON writes value as indented JSON and a line break. Characters that a
// terminal may act on are escaped.
func writeJSON(w io.Writer, value any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := w.Write(escapeUnprintable(out.Bytes()))
	return err
}

// escapeUnprintable writes characters that are not printable as \u escapes. In
// JSON they stand only within strings, but for the line break.
func escapeUnprintable(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
