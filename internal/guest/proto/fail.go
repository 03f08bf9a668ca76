package proto

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pinfold-dev/pinfold/execution"
)

// Bounds on the texts of a guest, in bytes.
const (
	maxText = 4 << 10
	maxPath = 64 << 10
)

// kinds are the sentinels that an error of the guest may match, by the number
// under which they travel. 0 is none of them. Those that concern an engine or
// the host's own state are not for a guest to claim.
func kinds() []error {
	return []error{
		nil,
		execution.ErrInvalid,
		execution.ErrUnsupported,
		execution.ErrLost, // of one command whose fate is unknown
		execution.ErrFinished,
		execution.ErrTimeout,
		execution.ErrDirNotFound,
		execution.ErrCommandNotFound,
		execution.ErrCannotRun,
		execution.ErrNoShell,
		execution.ErrNotFound,
		execution.ErrPermission,
		execution.ErrIsDir,
		execution.ErrNotDir,
		execution.ErrNoSpace,
		execution.ErrConflict, // who else follows events
	}
}

// A Failure is an error of the guest as it travels.
type Failure struct {
	Kinds uint32 // the sentinels that it matches, as bits by their number
	Op    string // as in execution.Error
	Path  string
	Text  string // all of it but for Op and Path; fit to be shown
}

// NewFailure takes an error apart.
func NewFailure(err error) *Failure {
	f := &Failure{}
	for n, kind := range kinds() {
		if kind != nil && errors.Is(err, kind) {
			f.Kinds |= 1 << n
		}
	}
	if e, ok := errors.AsType[*execution.Error](err); ok {
		f.Op, f.Path, err = e.Op, e.Path, e.Err
	}
	f.Text = err.Error()
	return f
}

// Err puts the error together again, as one of a given sandbox.
func (f *Failure) Err(backend, handle string) error {
	why := &failed{text: f.Text}
	for n, kind := range kinds() {
		if f.Kinds&(1<<n) == 0 {
			continue
		}
		why.kinds = append(why.kinds, kind)
		if why.text == "" {
			why.text = kind.Error()
		}
	}
	if why.text == "" {
		why.text = "failed for no reason that the sandbox told"
	}
	return &execution.Error{Op: f.Op, Backend: backend, Handle: handle, Path: f.Path, Err: why}
}

// A failed error is why the guest could not do something.
type failed struct {
	text  string
	kinds []error
}

func (e *failed) Error() string   { return e.text }
func (e *failed) Unwrap() []error { return e.kinds }

func (e *encoder) failure(f *Failure) {
	e.uint(uint64(f.Kinds))
	e.string(clip(f.Op, maxText))
	e.string(clip(f.Path, maxPath))
	e.string(clip(f.Text, maxText))
}

func (d *decoder) failure() *Failure {
	known := uint64(1)<<len(kinds()) - 1
	return &Failure{
		Kinds: uint32(d.uint(known)) &^ 1, //nolint:gosec // bounded
		Op:    Printable(d.string(maxText)),
		Path:  d.string(maxPath),
		Text:  Printable(d.string(maxText)),
	}
}

func clip(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

// Printable returns s with everything that is not printable text escaped, so
// that a terminal does not act on it.
func Printable(s string) string {
	clean := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if clean(r) {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
