package proto

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// maxTaskID bounds the name of a task, in bytes.
const maxTaskID = 64

// MaxTask bounds the encoding of one TaskInfo in a list, in bytes.
const MaxTask = maxTaskID + execution.MaxTaskCommand*2 + maxPath + maxText + execution.MaxLeftovers*(maxCommand+8) + 256

// EncodeTask returns the payload of a RESULT that is a TaskInfo.
func EncodeTask(info execution.TaskInfo) []byte {
	e := encoder{[]byte{0}}
	e.task(info)
	return e.b
}

// DecodeTask reads a RESULT that is a TaskInfo.
func DecodeTask(b []byte) (execution.TaskInfo, *Failure, error) {
	d, failure, err := decodeResult(b)
	if failure != nil || err != nil {
		return execution.TaskInfo{}, failure, err
	}
	info := d.task()
	return info, nil, d.end()
}

// EncodeEvent returns the payload of a RESULT that is the ending of a task, the
// one of that number.
func EncodeEvent(number uint64, info execution.TaskInfo) []byte {
	e := encoder{[]byte{0}}
	e.uint(number)
	e.task(info)
	return e.b
}

// DecodeEvent reads what EncodeEvent made.
func DecodeEvent(b []byte) (number uint64, info execution.TaskInfo, _ *Failure, _ error) {
	d, failure, err := decodeResult(b)
	if failure != nil || err != nil {
		return 0, info, failure, err
	}
	number = d.uint(math.MaxUint64)
	info = d.task()
	if info.Running() {
		d.fail("a task that runs has ended")
	}
	return number, info, nil, d.end()
}

// AppendTask appends an entry of a list to b: its length, then itself.
func AppendTask(b []byte, info execution.TaskInfo) []byte {
	e := encoder{}
	e.task(info)
	b = binary.AppendUvarint(b, uint64(len(e.b)))
	return append(b, e.b...)
}

// CutTask takes the first entry of a list off b. Without a whole one in b it
// returns n = 0.
func CutTask(b []byte) (info execution.TaskInfo, n int, err error) {
	entry, n, err := cut(b, MaxTask)
	if n == 0 || err != nil {
		return info, 0, err
	}
	d := decoder{b: entry}
	info = d.task()
	return info, n, d.end()
}

// cut takes the first entry of a list off b; n = 0 says that it is not whole.
func cut(b []byte, limit int) (entry []byte, n int, err error) {
	length, used := binary.Uvarint(b)
	switch {
	case used < 0 || length > uint64(limit): //nolint:gosec // positive
		return nil, 0, malformed("entry of more than %d bytes", limit)
	case used == 0 || len(b)-used < int(length): //nolint:gosec // at most limit
		return nil, 0, nil
	}
	n = used + int(length) //nolint:gosec // as above
	return b[used:n], n, nil
}

func (e *encoder) task(i execution.TaskInfo) {
	e.string(i.ID)
	e.strings(i.Args)
	e.string(i.Shell)
	e.string(clip(i.Dir, maxPath))
	e.time(i.Started)
	e.bool(i.Running())
	if !i.Running() {
		e.time(i.Ended)
		e.status(i.Status)
	}
	for _, out := range []execution.OutputInfo{i.Stdout, i.Stderr} {
		e.int(out.Bytes)
		e.int(out.Dropped)
	}
}

func (d *decoder) task() (i execution.TaskInfo) {
	i.ID = d.string(maxTaskID)
	if !ValidTaskID(i.ID) {
		d.fail("task %q", i.ID)
	}
	i.Args = d.strings()
	i.Shell = d.string(execution.MaxTaskCommand)
	i.Dir = d.string(maxPath)
	i.Started = d.time()
	if running := d.bool(); !running {
		i.Ended = d.time()
		i.Status = d.status()
	}
	for _, out := range []*execution.OutputInfo{&i.Stdout, &i.Stderr} {
		out.Bytes = d.int(0, math.MaxInt64)
		out.Dropped = d.int(0, out.Bytes)
	}
	return i
}

// ValidTaskID reports whether a task can have that name.
func ValidTaskID(id string) bool {
	if id == "" || len(id) > maxTaskID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func (e *encoder) time(t time.Time) {
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond())) //nolint:gosec // never negative
}

func (d *decoder) time() time.Time {
	seconds := d.int(minUnix, maxUnix)
	return time.Unix(seconds, d.int64(999_999_999))
}

// A chunk of a task's output is its position in the stream, its length and the
// bytes.
const chunkHeader = 12

// MaxChunk is the largest chunk of output, in bytes.
const MaxChunk = 64 << 10

// AppendChunk appends the start of a chunk to b; the bytes follow.
func AppendChunk(b []byte, offset int64, length int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))    //nolint:gosec // never negative
	return binary.LittleEndian.AppendUint32(b, uint32(length)) //nolint:gosec // at most MaxChunk
}

// ChunkHeader is the start of a chunk.
type ChunkHeader [chunkHeader]byte

// Decode reads it.
func (h *ChunkHeader) Decode() (offset int64, length int, err error) {
	position := binary.LittleEndian.Uint64(h[:])
	size := binary.LittleEndian.Uint32(h[8:])
	if position > math.MaxInt64-MaxChunk || size == 0 || size > MaxChunk {
		return 0, 0, malformed("output of %d bytes at %d", size, position)
	}
	return int64(position), int(size), nil
}
