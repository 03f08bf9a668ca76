//go:build unix

package process

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// because is an error of one of execution's kinds, and why. Its text says once
// what both would say.
func because(kind, why error) error { return reasonedError{kind, why} }

type reasonedError struct{ kind, why error }

func (r reasonedError) Error() string {
	kind, why := r.kind.Error(), r.why.Error()
	switch {
	case r.why == error(unix.ENOENT) && errors.Is(r.kind, fs.ErrNotExist), //nolint:errorlint // only the bare word adds nothing
		strings.Contains(kind, why):
		return kind
	case strings.Contains(why, kind):
		return why
	}
	return kind + ": " + why
}

func (r reasonedError) Unwrap() []error { return []error{r.kind, r.why} }
