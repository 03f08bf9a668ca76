package proto

import (
	"encoding/binary"
	"io/fs"
	"math"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// EncodeFailed returns the payload of a RESULT that is an error.
func EncodeFailed(err error) []byte {
	e := encoder{[]byte{1}}
	e.failure(NewFailure(err))
	return e.b
}

// EncodeDone returns the payload of a RESULT that has nothing to tell.
func EncodeDone() []byte { return []byte{0} }

// EncodeInfo returns the payload of a RESULT that is a FileInfo.
func EncodeInfo(info execution.FileInfo) []byte {
	e := encoder{[]byte{0}}
	e.info(info)
	return e.b
}

// EncodeStatus returns the payload of a RESULT that is an ending, together
// with the error of Process.Wait if there is one.
func EncodeStatus(s execution.ExitStatus, err error) []byte {
	e := encoder{[]byte{0}}
	e.status(s)
	e.bool(err != nil)
	if err != nil {
		e.failure(NewFailure(err))
	}
	return e.b
}

// decodeResult starts the decoding of a RESULT.
func decodeResult(b []byte) (*decoder, *Failure, error) {
	d := &decoder{b: b}
	if !d.bool() {
		return d, nil, d.err
	}
	f := d.failure()
	return d, f, d.end()
}

// DecodeDone reads a RESULT that has nothing to tell but failure.
func DecodeDone(b []byte) (*Failure, error) {
	d, failure, err := decodeResult(b)
	if failure != nil || err != nil {
		return failure, err
	}
	return nil, d.end()
}

// DecodeInfo reads a RESULT that is a FileInfo.
func DecodeInfo(b []byte) (execution.FileInfo, *Failure, error) {
	d, failure, err := decodeResult(b)
	if failure != nil || err != nil {
		return execution.FileInfo{}, failure, err
	}
	info := d.info()
	return info, nil, d.end()
}

// DecodeStatus reads a RESULT that is an ending; failed is the error that came
// with it.
func DecodeStatus(b []byte) (s execution.ExitStatus, failed, refused *Failure, err error) {
	d, refused, err := decodeResult(b)
	if refused != nil || err != nil {
		return s, nil, refused, err
	}
	s = d.status()
	if d.bool() {
		failed = d.failure()
	}
	return s, failed, nil, d.end()
}

// MaxInfo bounds the encoding of one FileInfo in a list, in bytes.
const MaxInfo = 2*maxPath + 128

// AppendInfo appends an entry of a list to b: its length, then itself.
func AppendInfo(b []byte, info execution.FileInfo) []byte {
	e := encoder{}
	e.info(info)
	b = binary.AppendUvarint(b, uint64(len(e.b)))
	return append(b, e.b...)
}

// CutInfo takes the first entry of a list off b. Without a whole one in b it
// returns n = 0.
func CutInfo(b []byte) (info execution.FileInfo, n int, err error) {
	entry, n, err := cut(b, MaxInfo)
	if n == 0 || err != nil {
		return info, 0, err
	}
	d := decoder{b: entry}
	info = d.info()
	return info, n, d.end()
}

func (e *encoder) info(i execution.FileInfo) {
	e.string(clip(i.Name, maxPath))
	e.int(i.Size)
	e.uint(uint64(i.Mode))
	e.time(i.ModTime)
	e.uint(uint64(i.UID))
	e.uint(uint64(i.GID))
	e.string(clip(i.Target, maxPath))
}

// Times are within the years 1 to 9999, which can be printed and encoded
// everywhere; in seconds since 1970.
const (
	minUnix = -62_135_596_800
	maxUnix = 253_402_300_799
)

func (d *decoder) info() (i execution.FileInfo) {
	i.Name = d.string(maxPath)
	i.Size = d.int(0, math.MaxInt64)
	i.Mode = fs.FileMode(d.uint(math.MaxUint32)) //nolint:gosec // bounded
	i.ModTime = d.time()
	i.UID = uint32(d.uint(math.MaxUint32)) //nolint:gosec // bounded
	i.GID = uint32(d.uint(math.MaxUint32)) //nolint:gosec // bounded
	i.Target = d.string(maxPath)
	return i
}

// int64 reads a number from 0 to limit.
func (d *decoder) int64(limit uint64) int64 {
	return int64(d.uint(min(limit, math.MaxInt64))) //nolint:gosec // bounded
}

// endings are those that a guest may tell, by the number under which they
// travel.
func endings() []execution.Ending {
	return []execution.Ending{
		execution.EndingExited, execution.EndingSignalled, execution.EndingTimedOut,
		execution.EndingCancelled, execution.EndingOutOfMemory, execution.EndingOutputLimit,
		execution.EndingLost,
	}
}

const (
	maxPID     = 1 << 22
	maxCommand = 256
)

func (e *encoder) status(s execution.ExitStatus) {
	number := uint64(len(endings()))
	for n, ending := range endings() {
		if ending == s.Ending {
			number = uint64(n)
		}
	}
	e.uint(number)
	e.int(int64(s.Code))
	e.int(int64(s.Signal))
	e.string(clip(s.Reason, maxText))
	e.int(int64(s.Duration))
	e.int(int64(s.UserTime))
	e.int(int64(s.SystemTime))
	e.int(s.StdoutBytes)
	e.int(s.StderrBytes)
	left := s.Leftovers[:min(len(s.Leftovers), execution.MaxLeftovers)]
	e.uint(uint64(len(left)))
	for _, p := range left {
		e.int(int64(p.PID))
		e.string(clip(p.Command, maxCommand))
	}
}

func (d *decoder) status() (s execution.ExitStatus) {
	if n := d.int64(uint64(len(endings())) - 1); d.err == nil {
		s.Ending = endings()[n]
	}
	s.Code = int(d.int(-1, 255))
	s.Signal = execution.Signal(d.int(0, 64))
	s.Reason = Printable(d.string(maxText))
	s.Duration = time.Duration(d.int(0, math.MaxInt64))
	s.UserTime = time.Duration(d.int(0, math.MaxInt64))
	s.SystemTime = time.Duration(d.int(0, math.MaxInt64))
	s.StdoutBytes = d.int(0, math.MaxInt64)
	s.StderrBytes = d.int(0, math.MaxInt64)
	for range d.uint(execution.MaxLeftovers) {
		p := execution.ProcessInfo{PID: int(d.int(1, maxPID)), Command: clip(Printable(d.string(maxCommand)), maxCommand)}
		if d.err != nil {
			break
		}
		s.Leftovers = append(s.Leftovers, p)
	}
	if exited := s.Ending == execution.EndingExited; exited != (s.Code >= 0) {
		d.fail("code %d of a command that %s", s.Code, s.Ending)
	}
	if s.Ending == execution.EndingSignalled && s.Signal == 0 {
		d.fail("ended by no signal")
	}
	return s
}
