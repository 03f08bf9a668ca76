//go:build unix

package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pinfold-dev/pinfold/execution"
)

// A pattern is a glob pattern in doublestar's syntax.
type pattern struct {
	text     string
	segments []string // between the slashes; nil where slashes stand in braces
}

func compilePattern(text string) (*pattern, error) {
	text = strings.TrimPrefix(text, "./")
	switch {
	case text == "":
		return nil, fmt.Errorf("%w: pattern is empty", execution.ErrInvalid)
	case strings.IndexByte(text, 0) >= 0:
		return nil, fmt.Errorf("%w: pattern holds a NUL byte", execution.ErrInvalid)
	case strings.HasPrefix(text, "/"):
		return nil, fmt.Errorf("%w: pattern %q is absolute: want one relative to the directory", execution.ErrInvalid, text)
	case !doublestar.ValidatePattern(text):
		return nil, fmt.Errorf("%w: pattern %q is malformed", execution.ErrInvalid, text)
	}
	segments := strings.Split(text, "/")
	if slices.Contains(segments, "..") {
		return nil, fmt.Errorf("%w: pattern %q leads out of the directory", execution.ErrInvalid, text)
	}
	for _, s := range segments {
		if !doublestar.ValidatePattern(s) {
			segments = nil // a slash within braces
			break
		}
	}
	return &pattern{text, segments}, nil
}

// matches reports whether the pattern stands for path.
func (p *pattern) matches(path string) bool {
	return doublestar.MatchUnvalidated(p.text, path)
}

// mayMatchBelow reports whether the pattern can stand for anything in the
// directory path. It may err on the side of yes.
func (p *pattern) mayMatchBelow(path string) bool {
	if p.segments == nil {
		return true
	}
	depth := 0
	for name := range strings.SplitSeq(path, "/") {
		if depth == len(p.segments) {
			return false
		}
		if p.segments[depth] == "**" {
			return true
		}
		if !doublestar.MatchUnvalidated(p.segments[depth], name) {
			return false
		}
		depth++
	}
	return depth < len(p.segments)
}
