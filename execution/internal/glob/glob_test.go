package glob

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestBracesStandForTheirAlternatives(t *testing.T) {
	for text, want := range map[string][]string{
		"a*":                {"a*"},
		"{a}":               {"a"},
		"{}x":               {"x"},
		"{a,b}":             {"a", "b"},
		"x{a,}y":            {"xay", "xy"},
		"{a,b}{c,d}":        {"ac", "ad", "bc", "bd"},
		"{a,{b,c}d}/**":     {"a/**", "bd/**", "cd/**"},
		`\{a,b\}`:           {`\{a,b\}`},
		`{a\,b,c\}}`:        {`a\,b`, `c\}`},
		"[{]{[,],[}],[^,]}": {"[{][,]", "[{][}]", "[{][^,]"},
	} {
		if got := expand(text); !slices.Equal(got, want) {
			t.Errorf("%q stands for %q, want %q", text, got, want)
		}
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "./", "/a", "../a", "a/../b", "[", "a{b", "a\x00b",
		"{a,../b}", "{a,/b}", // in one of several
		strings.Repeat("{a,b}", 11), // 2,048 patterns
		strings.Repeat("{a,b}", 1000),
		strings.Repeat("{a,", 2000) + strings.Repeat("}", 2000),
		"{" + strings.Repeat("a,", 3000) + "}",
		"{a,b}" + strings.Repeat("a", maxBytes/2),
		strings.Repeat("a", maxBytes+1),
	} {
		if _, err := Compile(text); !errors.Is(err, execution.ErrInvalid) {
			t.Errorf("%.40q: %v, want %v", text, err, execution.ErrInvalid)
		}
	}
}

// What a pattern can do to the time it takes is bounded: none of these ends
// within hours when braces are tried against each other.
func TestMatchingTakesNoTime(t *testing.T) {
	name := strings.Repeat("a", 200)
	path := strings.Repeat("b/", 60) + "x"
	for _, text := range []string{
		strings.Repeat("{a,a}", 10) + "b",
		strings.Repeat("*{a,a}", 10) + "b",
		strings.Repeat("{**/,b/}", 10) + "z",
		strings.Repeat("**/*{b,b}*/", 10) + "z",
		strings.Repeat("*a", 100) + "b",
		strings.Repeat("**/", 100) + "z",
	} {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{name, path} {
			if p.Matches(name) {
				t.Errorf("%q matches %q", text, name)
			}
			p.MayMatchBelow(name)
		}
	}
}

// Names are bytes: one that is no UTF-8 is no other such byte.
func TestBytesThatAreNoText(t *testing.T) {
	for text, names := range map[string][2]string{ // what it matches, and what not
		"\xff":       {"\xff", "\xfe"},
		"?\xff*":     {"a\xffb", "a\xfeb"},
		"[\xff]":     {"\xff", "\xfe"},
		"\xc3{\xa4}": {"\xc3\xa4", "\xc3\xa5"},
		"é\xff/**":   {"é\xff/\xfe", "é\xfe/\xfe"},
	} {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Matches(names[0]) || p.Matches(names[1]) {
			t.Errorf("%q matches %q: %v, %q: %v", text, names[0], p.Matches(names[0]), names[1], p.Matches(names[1]))
		}
	}
}

// FuzzMatches checks that it means what doublestar means, where that answers in
// time. Stars that come together only when braces are gone are another matter.
func FuzzMatches(f *testing.F) {
	f.Add("{a,b*}/**/[!c]{d,}", "b/x/e")
	f.Add(`\{a{b\,c,[}]}`, "{a}")
	f.Add("{**/a,b}/{c,**}", "x/a/y")
	together := regexp.MustCompile(`[*/{][{},]+\*|\*[{},]`)
	f.Fuzz(func(t *testing.T, text, path string) {
		if strings.Count(text, "{") > 4 || strings.Count(text, ",") > 8 || len(text) > 64 || len(path) > 64 ||
			path == "" || !utf8.ValidString(text) || !utf8.ValidString(path) || together.MatchString(text) {
			return
		}
		p, err := Compile(text)
		if err != nil {
			return
		}
		text = strings.TrimPrefix(text, "./")
		if got, want := p.Matches(path), doublestar.MatchUnvalidated(text, path); got != want {
			t.Errorf("%q matches %q: %v, want %v; it stands for %q", text, path, got, want, expand(text))
		}
		if strings.Contains(text, "[") {
			return // for doublestar, what is none of some characters may be a slash
		}
		if dir, _, below := strings.Cut(path, "/"); below && p.Matches(path) && !p.MayMatchBelow(dir) {
			t.Errorf("%q matches %q, but nothing below %q", text, path, dir)
		}
	})
}
