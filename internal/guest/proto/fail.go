package proto

import (
	"errors"
	"fmt"
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
	}
}

// A Failure is an error of the guest as it travels.
type Failure struct {
	Kind error  // the sentinel, or nil
	Op   string // as in execution.Error
	Path string
	Text string // all of it but for Op and Path; fit to be shown
}

// NewFailure takes an error apart.
func NewFailure(err error) *Failure {
	f := &Failure{}
	for _, kind := range kinds()[1:] {
		if errors.Is(err, kind) {
			f.Kind = kind
			break
		}
	}
	var e *execution.Error
	if errors.As(err, &e) {
		f.Op, f.Path, err = e.Op, e.Path, e.Err
	}
	f.Text = err.Error()
	return f
}

// Err puts the error together again, as one of a given sandbox.
func (f *Failure) Err(backend, handle string) error {
	return &execution.Error{Op: f.Op, Backend: backend, Handle: handle, Path: f.Path, Err: f.why()}
}

// why is a text that matches the kind. The kind's own words are not repeated.
func (f *Failure) why() error {
	switch {
	case f.Kind == nil && f.Text == "":
		return errors.New("failed for no reason that the sandbox told")
	case f.Kind == nil:
		return errors.New(f.Text)
	case f.Text == "" || f.Text == f.Kind.Error():
		return f.Kind
	case strings.HasPrefix(f.Text, f.Kind.Error()):
		return fmt.Errorf("%w%s", f.Kind, f.Text[len(f.Kind.Error()):])
	}
	before, after, found := strings.Cut(f.Text, f.Kind.Error())
	if found {
		return fmt.Errorf("%s%w%s", before, f.Kind, after)
	}
	return fmt.Errorf("%w: %s", f.Kind, f.Text)
}

func (e *encoder) failure(f *Failure) {
	number := 0
	for n, kind := range kinds() {
		if kind == f.Kind { //nolint:errorlint // the sentinels themselves
			number = n
		}
	}
	e.byte(byte(number))
	e.string(clip(f.Op, maxText))
	e.string(clip(f.Path, maxPath))
	e.string(clip(f.Text, maxText))
}

func (d *decoder) failure() *Failure {
	number := int(d.byte())
	if number >= len(kinds()) {
		d.fail("kind of error %d", number)
		return nil
	}
	return &Failure{
		Kind: kinds()[number],
		Op:   Printable(d.string(maxText)),
		Path: d.string(maxPath),
		Text: Printable(d.string(maxText)),
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
