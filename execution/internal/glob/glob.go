// Package glob is the meaning of the patterns of [execution.Handle]'s Glob: in
// doublestar's syntax, and matched in a time that a pattern cannot blow up.
package glob

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pinfold-dev/pinfold/execution"
)

// What the braces of a pattern may stand for together: so many alternatives, and
// so many bytes.
const (
	maxAlternatives = 1024
	maxBytes        = 1 << 20
)

// A Pattern is a pattern that has been checked.
type Pattern struct{ alternatives []alternative }

// An alternative is a pattern without braces. Doublestar's own matching tries the
// braces in a pattern against each other, again for each character that a star
// before them may stand for: a line of twenty of them takes it hours.
type alternative struct {
	text     string
	segments []string // between the slashes; nil where slashes stand in brackets
}

// Compile checks a pattern. An error matches execution.ErrInvalid.
func Compile(text string) (*Pattern, error) {
	text = strings.TrimPrefix(text, "./")
	switch {
	case text == "":
		return nil, fmt.Errorf("%w: pattern is empty", execution.ErrInvalid)
	case len(text) > maxBytes:
		return nil, fmt.Errorf("%w: pattern of %d bytes: want at most %d", execution.ErrInvalid, len(text), maxBytes)
	case strings.IndexByte(text, 0) >= 0:
		return nil, fmt.Errorf("%w: pattern holds a NUL byte", execution.ErrInvalid)
	case !doublestar.ValidatePattern(text):
		return nil, fmt.Errorf("%w: pattern %q is malformed", execution.ErrInvalid, text)
	}
	p := &Pattern{}
	for _, t := range expand(text) {
		t = legible(t)
		segments := strings.Split(t, "/")
		switch {
		case segments[0] == "" && t != "":
			return nil, fmt.Errorf("%w: pattern %q is absolute: want one relative to the directory", execution.ErrInvalid, text)
		case slices.Contains(segments, ".."):
			return nil, fmt.Errorf("%w: pattern %q leads out of the directory", execution.ErrInvalid, text)
		}
		for _, s := range segments {
			if !doublestar.ValidatePattern(s) {
				segments = nil
				break
			}
		}
		p.alternatives = append(p.alternatives, alternative{t, segments})
	}
	if len(p.alternatives) == 0 {
		return nil, fmt.Errorf("%w: the braces of pattern %q stand for more than %d patterns, or more than %d bytes",
			execution.ErrInvalid, text, maxAlternatives, maxBytes)
	}
	return p, nil
}

// Matches reports whether the pattern stands for path.
func (p *Pattern) Matches(path string) bool {
	path = legible(path)
	return slices.ContainsFunc(p.alternatives, func(a alternative) bool {
		return doublestar.MatchUnvalidated(a.text, path)
	})
}

// MayMatchBelow reports whether the pattern can stand for anything in the
// directory path. It may err on the side of yes.
func (p *Pattern) MayMatchBelow(path string) bool {
	path = legible(path)
	return slices.ContainsFunc(p.alternatives, func(a alternative) bool { return a.mayMatchBelow(path) })
}

// legible gives each byte that is no UTF-8 a character of its own, from the last
// ones that there are. To doublestar all such bytes are the same.
func legible(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	const lastPlane = 0x10ff00
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			r = lastPlane + rune(s[0])
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

func (a alternative) mayMatchBelow(path string) bool {
	if a.segments == nil {
		return true
	}
	depth := 0
	for name := range strings.SplitSeq(path, "/") {
		if depth == len(a.segments) {
			return false
		}
		if a.segments[depth] == "**" {
			return true
		}
		if !doublestar.MatchUnvalidated(a.segments[depth], name) {
			return false
		}
		depth++
	}
	return depth < len(a.segments)
}
