package proto

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

func tasks() map[string]execution.TaskInfo {
	ended := execution.ExitStatus{Ending: execution.EndingExited, Code: 7, Duration: time.Second}
	leftovers := make([]execution.ProcessInfo, execution.MaxLeftovers)
	for i := range leftovers {
		leftovers[i] = execution.ProcessInfo{PID: maxPID, Command: strings.Repeat("c", maxCommand)}
	}
	return map[string]execution.TaskInfo{
		"running": {ID: "task-1", Shell: "make\x00\xff", Dir: "-x", Started: time.Unix(1, 2), Stdout: execution.OutputInfo{Bytes: 3, Dropped: 2}},
		"ended": {
			ID: "task-2", Args: []string{"a", "", "\n"}, Started: time.Unix(1, 0), Ended: time.Unix(math.MaxInt32, 999_999_999), Status: ended,
			Stderr: execution.OutputInfo{Bytes: math.MaxInt64, Dropped: math.MaxInt64},
		},
		"the largest": {
			ID: strings.Repeat("x", maxTaskID), Args: make([]string, execution.MaxTaskCommand), Dir: strings.Repeat("d", maxPath),
			Started: time.Unix(maxUnix, 999_999_999), Ended: time.Unix(minUnix, 999_999_999),
			Status: execution.ExitStatus{
				Ending: execution.EndingLost, Code: -1, Signal: 64, Reason: strings.Repeat("r", maxText), Duration: math.MaxInt64,
				UserTime: math.MaxInt64, SystemTime: math.MaxInt64, StdoutBytes: math.MaxInt64, StderrBytes: math.MaxInt64, Leftovers: leftovers,
			},
			Stdout: execution.OutputInfo{Bytes: math.MaxInt64, Dropped: math.MaxInt64},
			Stderr: execution.OutputInfo{Bytes: math.MaxInt64, Dropped: math.MaxInt64},
		},
	}
}

func TestTasksSurviveTheWire(t *testing.T) {
	for name, info := range tasks() {
		b := EncodeTask(info)
		if got, failure, err := DecodeTask(b); err != nil || failure != nil || !reflect.DeepEqual(got, info) {
			t.Errorf("%s: %+v, %v, %v; want %+v", name, got, failure, err, info)
		}
		if len(b) > wire.MaxReply {
			t.Errorf("%s: %d bytes do not fit into an answer", name, len(b))
		}
		for n := range min(len(b), 1000) {
			if _, _, err := DecodeTask(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		list := AppendTask(AppendTask(nil, info), info)
		if got, n, err := CutTask(list); err != nil || n != len(list)/2 || !reflect.DeepEqual(got, info) {
			t.Errorf("%s in a list: %+v, %d of %d, %v", name, got, n, len(list), err)
		}
		if number, got, _, err := DecodeEvent(EncodeEvent(1<<63, info)); info.Running() != (err != nil) || err == nil &&
			(number != 1<<63 || !reflect.DeepEqual(got, info)) {
			t.Errorf("%s as an event: %d, %+v, %v", name, number, got, err)
		}
	}
}

func TestChunksSurviveTheWire(t *testing.T) {
	for _, row := range []struct {
		offset int64
		length int
		want   bool
	}{
		{0, 1, true},
		{math.MaxInt64 - MaxChunk, MaxChunk, true},
		{0, 0, false},
		{0, MaxChunk + 1, false},
		{-1, 1, false},
		{math.MaxInt64, 1, false},
	} {
		var header ChunkHeader
		copy(header[:], AppendChunk(nil, row.offset, row.length))
		offset, length, err := header.Decode()
		if (err == nil) != row.want || err == nil && (offset != row.offset || length != row.length) {
			t.Errorf("%+v: %d, %d, %v", row, offset, length, err)
		}
	}
}

// checkTasks decodes what a guest sends of tasks.
func checkTasks(t *testing.T, b []byte) {
	t.Helper()
	if info, failure, err := DecodeTask(b); err == nil && failure == nil {
		if !ValidTaskID(info.ID) || info.Stdout.Dropped > info.Stdout.Bytes {
			t.Errorf("accepted %+v", info)
		}
		if again, _, err := DecodeTask(EncodeTask(info)); err != nil || !reflect.DeepEqual(again, info) {
			t.Errorf("task %+v came again as %+v, %v", info, again, err)
		}
	}
	if _, info, failure, err := DecodeEvent(b); err == nil && failure == nil && info.Running() {
		t.Errorf("accepted the ending of a task that runs: %+v", info)
	}
	if _, n, _ := CutTask(b); n > len(b) {
		t.Errorf("cut %d of %d bytes", n, len(b))
	}
	var header ChunkHeader
	copy(header[:], b)
	if offset, length, err := header.Decode(); err == nil && (offset < 0 || length <= 0 || offset+int64(length) < 0) {
		t.Errorf("accepted %d bytes at %d", length, offset)
	}
}
