package executiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pinfold-dev/pinfold/execution"
)

func fileCases() []check {
	return []check{
		{"roundtrip", fileRoundtrip},
		{"roundtrip_64mib", fileLarge},
		{"roundtrip_1gib_in_constant_memory", fileHuge},
		{"commands_see_the_same", fileCommands},
		{"offset_and_length", fileOffset},
		{"close_early", fileCloseEarly},
		{"read_file_limit", fileLimit},
		{"write_is_atomic", fileAtomic},
		{"write_fails_when_its_reader_fails", fileFailingReader},
		{"write_ends_with_its_context", fileWriteContext},
		{"read_after_its_context", fileReadContext},
		{"mode_of_a_new_file", fileNewMode},
		{"mode_is_kept", fileKeepMode},
		{"any_time", fileTimes},
		{"belongs_to_the_user", fileOwner},
		{"parents_are_made", fileParents},
		{"parent_is_a_file", fileParentIsFile},
		{"symbolic_link_is_followed", fileLink},
		{"directory", fileIsDir},
		{"special_files", fileSpecial},
		{"not_found", fileNotFound},
		{"many_at_once", fileMany},
	}
}

// send writes a pattern of size bytes and reads it back.
func (e *env) send(ctx context.Context, h execution.Handle, path string, size int64) {
	e.Helper()
	if err := h.WriteFile(ctx, path, &pattern{size: size}, execution.WriteOptions{}); err != nil {
		e.Fatalf("WriteFile of %d bytes: %v", size, err)
	}
	if info, err := h.Stat(ctx, path); err != nil || info.Size != size {
		e.Fatalf("Stat after writing %d bytes: %+v, %v", size, info, err)
	}
	e.receive(ctx, h, path, execution.ReadOptions{}, size)
}

// receive reads a part of a pattern that must be size bytes long.
func (e *env) receive(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions, size int64) {
	e.Helper()
	r, err := h.OpenFile(ctx, path, opts)
	if err != nil {
		e.Fatalf("OpenFile %+v: %v", opts, err)
	}
	got := &matcher{at: opts.Offset}
	// Nothing but Reads: a backend may offer quicker ways, which others check.
	_, err = io.Copy(got, struct{ io.Reader }{r})
	if err = errors.Join(err, r.Close()); err != nil {
		e.Fatalf("reading %+v: %v", opts, err)
	}
	if got.wrong || got.at-opts.Offset != size {
		e.Errorf("reading %+v: got %d bytes, want %d; wrong bytes: %v", opts, got.at-opts.Offset, size, got.wrong)
	}
}

func fileRoundtrip(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	for _, size := range []int64{0, 1, 2, 4095, 4096, 4097, 65_535, 65_536, 65_537, 262_144, 1<<20 + 1, 3<<20 + 7} {
		e.send(ctx, h, "file", size)
	}
}

func fileLarge(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.send(ctx, h, "large", int64(quantity(64<<20, 8<<20)))
}

func fileHuge(ctx context.Context, e *env) {
	if !e.harness.Large {
		e.Skip("Harness.Large is not set")
	}
	const growth = 64 << 20
	h := e.sandbox(ctx)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e.send(ctx, h, "huge", 1<<30)
	// What the system gave to the heap never shrinks by much within a case:
	// it tells the highest point.
	runtime.ReadMemStats(&after)
	if after.HeapSys > before.HeapSys+growth {
		e.Errorf("moving 1 GiB made the heap grow by %d bytes", after.HeapSys-before.HeapSys)
	}
}

func fileCommands(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "by-api", "from outside")
	if got := e.run(ctx, h, Load, "by-api"); got != "from outside" {
		e.Errorf("a command reads %q", got)
	}
	e.run(ctx, h, Store, "by-command", "from inside")
	if got := e.read(ctx, h, "by-command"); got != "from inside" {
		e.Errorf("ReadFile reads %q", got)
	}
	content := patternBytes(300_000) // more than fits into an argument list
	e.write(ctx, h, "binary", string(content))
	if got := e.run(ctx, h, Load, "binary"); got != string(content) {
		e.Errorf("of %d bytes a command reads %d other ones", len(content), len(got))
	}
}

func fileOffset(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const size = 200_000
	e.send(ctx, h, "file", size)
	for _, row := range []struct{ offset, length, want int64 }{
		{0, 0, size},
		{0, 1, 1},
		{0, size, size},
		{0, size + 1, size},
		{1, 0, size - 1},
		{7, 100_000, 100_000},
		{size - 1, 0, 1},
		{size - 1, 10, 1},
		{size, 0, 0},
		{size + 1, 0, 0},
		{1 << 40, 10, 0},
		{10, 1 << 62, size - 10},
	} {
		e.receive(ctx, h, "file", execution.ReadOptions{Offset: row.offset, Length: row.length}, row.want)
	}
	for _, opts := range []execution.ReadOptions{{Offset: -1}, {Length: -1}} {
		r, err := h.OpenFile(ctx, "file", opts)
		if err == nil {
			_ = r.Close()
		}
		e.wantError(err, execution.ErrInvalid, fmt.Sprintf("OpenFile with %+v", opts))
	}
}

func fileCloseEarly(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const size = 2 << 20
	e.send(ctx, h, "file", size)
	for range 20 {
		r, err := h.OpenFile(ctx, "file", execution.ReadOptions{})
		if err != nil {
			e.Fatalf("OpenFile: %v", err)
		}
		buf := make([]byte, 10)
		if _, err := io.ReadFull(r, buf); err != nil {
			e.Errorf("Read: %v", err)
		}
		if err := r.Close(); err != nil {
			e.Errorf("Close after %d of %d bytes: %v", len(buf), size, err)
		}
		_, err = r.Read(buf)
		e.wantError(err, execution.ErrClosed, "Read after Close")
		if err := r.Close(); err != nil {
			e.Errorf("Close again: %v", err)
		}
	}
	e.receive(ctx, h, "file", execution.ReadOptions{}, size)
}

func fileLimit(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "file", "12345")
	if data, err := execution.ReadFile(ctx, h, "file", 5); err != nil || string(data) != "12345" {
		e.Errorf("ReadFile at its limit: %q, %v", data, err)
	}
	_, err := execution.ReadFile(ctx, h, "file", 4)
	e.wantError(err, execution.ErrInvalid, "ReadFile over its limit")
}

func fileAtomic(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const size = 256 << 10
	e.write(ctx, h, "dir/file", strings.Repeat("a", size))
	var done atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		defer done.Store(true)
		for i := range quantity(60, 20) {
			content := strings.Repeat(string(rune('a'+i%26)), size)
			if err := execution.WriteFile(ctx, h, "dir/file", []byte(content)); err != nil {
				e.Errorf("WriteFile: %v", err)
				return
			}
		}
	})
	for !done.Load() {
		got, err := execution.ReadFile(ctx, h, "dir/file", 2*size)
		if err != nil {
			e.Errorf("ReadFile during a write: %v", err)
			break
		}
		if len(got) != size || strings.Count(string(got), string(got[:1])) != size {
			e.Errorf("read %d bytes during a write that are not of one version", len(got))
			break
		}
	}
	group.Wait()
	if got := e.names(ctx, h, "dir"); !slices.Equal(got, []string{"file"}) {
		e.Errorf("the directory holds %q after all writes", got)
	}
}

func fileFailingReader(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/old", "as it was")
	for _, size := range []int64{0, 1, 2 << 20} {
		for _, name := range []string{"old", "new"} {
			err := h.WriteFile(ctx, "dir/"+name, &pattern{size: size, err: errReader}, execution.WriteOptions{})
			if !errors.Is(err, errReader) {
				e.Errorf("WriteFile: error %v does not wrap the reader's", err)
			}
		}
		if got := e.read(ctx, h, "dir/old"); got != "as it was" {
			e.Errorf("a write that failed after %d bytes left %.20q", size, got)
		}
		if got := e.names(ctx, h, "dir"); !slices.Equal(got, []string{"old"}) {
			e.Errorf("a write that failed after %d bytes left %q in the directory", size, got)
		}
	}
}

func fileWriteContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	e.write(ctx, h, "dir/old", "as it was")
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &pattern{size: 1 << 40, each: func(at int64) {
		if at > 1<<20 {
			cancel()
		}
	}}
	err := h.WriteFile(limited, "dir/old", r, execution.WriteOptions{})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("WriteFile whose context ended: got %v", err)
	}
	if got := e.read(ctx, h, "dir/old"); got != "as it was" {
		e.Errorf("a write that was given up left %.20q", got)
	}
	if got := e.names(ctx, h, "dir"); !slices.Equal(got, []string{"old"}) {
		e.Errorf("a write that was given up left %q in the directory", got)
	}
}

func fileReadContext(ctx context.Context, e *env) {
	h := e.sandbox(ctx)
	const size = 4 << 20
	e.send(ctx, h, "file", size)
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := h.OpenFile(limited, "file", execution.ReadOptions{})
	if err != nil {
		e.Fatalf("OpenFile: %v", err)
	}
	buf := make([]byte, 1000)
	if _, err := io.ReadFull(r, buf); err != nil {
		e.Fatalf("Read: %v", err)
	}
	cancel()
	// The context may end the reading or not; in neither case is it wrong.
	rest := &matcher{at: int64(len(buf))}
	_, err = io.Copy(rest, r)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		e.Errorf("reading on after the context ended: got %v", err)
	case rest.wrong, err == nil && rest.at != size:
		e.Errorf("reading on after the context ended: wrong data up to %d of %d bytes", rest.at, size)
	}
	_ = r.Close()
	e.receive(ctx, h, "file", execution.ReadOptions{}, size)
}
