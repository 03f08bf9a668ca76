// Package proto is what host and guest say to each other in the payloads of
// package wire: calls, results, descriptions of files and endings.
//
// The encoding is our own and binary: paths, arguments and environments are
// bytes, the guest stays small without reflection, and every length is checked
// against what is there before anything is allocated. Both sides are of the
// same build or at least of the same wire.Version; fields are never tagged.
//
// Everything that a guest sends is checked here as far as its form goes; what
// it means is checked by who asked for it.
package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrMalformed says that a payload cannot be decoded.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// An encoder appends fields to b.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)     { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.b = append(e.b, s...) }

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) strings(list []string) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

// A decoder takes fields from b. The first fault sticks in err, and everything
// after it reads as zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = malformed(format, args...)
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("ends early")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail("truth value %d", v)
	}
	return v == 1
}

// uint reads a number of at most limit.
func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit {
		d.fail("number above %d, or cut", limit)
		return 0
	}
	d.b = d.b[n:]
	return v
}

// int reads a number from low to high.
func (d *decoder) int(low, high int64) int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 || v < low || v > high {
		d.fail("number outside %d to %d, or cut", low, high)
		return 0
	}
	d.b = d.b[n:]
	return v
}

// duration reads one that is not negative.
func (d *decoder) duration() time.Duration { return time.Duration(d.int(0, math.MaxInt64)) }

// string reads at most limit bytes.
func (d *decoder) string(limit int) string {
	n := d.uint(uint64(limit)) //nolint:gosec // limits are positive
	if n > uint64(len(d.b)) {
		d.fail("string of %d bytes ends early", n)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// strings reads a list; what is there bounds how long it can be.
func (d *decoder) strings() []string {
	n := d.uint(uint64(len(d.b)))
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 1024))
	for range n {
		s := d.string(len(d.b))
		if d.err != nil {
			return nil
		}
		list = append(list, s)
	}
	return list
}

// end checks that nothing is left.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	return d.err
}
