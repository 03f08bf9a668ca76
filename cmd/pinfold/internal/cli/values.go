package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A byteSize is a flag that holds a number of bytes, written as docker's
// --memory is: a number with b, k, m, g or t, of powers of 1024.
type byteSize int64

// sizeUnit is how many bytes a unit stands for.
func sizeUnit(unit string) (float64, bool) {
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	power := strings.Index(" kmgt", unit) // "" is found at 0
	if len(unit) > 1 || power < 0 {
		return 0, false
	}
	return float64(int64(1) << (10 * power)), true
}

func parseSize(text string) (int64, error) {
	number := strings.TrimRight(strings.ToLower(text), "bkmgti ")
	unit := strings.TrimSpace(strings.ToLower(text)[len(number):])
	factor, known := sizeUnit(unit)
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || strings.ContainsAny(number, "xXeEpPnN_") {
		return 0, fmt.Errorf("want a number of bytes such as 1048576, 512m or 2g")
	}
	if n < 0 {
		return 0, fmt.Errorf("a size cannot be negative; want a number of bytes such as 512m or 2g")
	}
	if n *= factor; n >= math.MaxInt64 {
		return 0, fmt.Errorf("larger than any machine; want a number of bytes such as 512m or 2g")
	}
	return int64(n), nil
}

// Set parses text.
func (s *byteSize) Set(text string) error {
	n, err := parseSize(text)
	*s = byteSize(n)
	return err
}

// Type is what --help shows for the value.
func (s *byteSize) Type() string { return "bytes" }

func (s *byteSize) String() string {
	if *s == 0 {
		return ""
	}
	return showSize(int64(*s))
}

// showSize writes a number of bytes for people.
func showSize(n int64) string {
	value, unit := float64(n), 0
	for value >= 1024 && unit < 4 {
		value /= 1024
		unit++
	}
	return strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64) + " " +
		[]string{"bytes", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// A span is a flag that holds a length of time: "90s", "1h30m", or a plain
// number of seconds, as timeout(1) takes it.
type span time.Duration

// Set parses text.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, numErr := strconv.ParseFloat(text, 64)
		if numErr != nil || math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/float64(time.Second) {
			return fmt.Errorf("want a duration such as 90s, 5m or 1h30m")
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < 0 {
		return fmt.Errorf("a duration cannot be negative; want one such as 90s or 5m")
	}
	*s = span(d)
	return nil
}

// Type is what --help shows for the value.
func (s *span) Type() string { return "duration" }

func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// Set takes text when it is one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("want %s", orList(c.words))
	}
	c.value = text
	return nil
}

// Type is what --help shows for the value.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

func (c *choice) String() string { return c.value }

// orList is "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
