package tasks

import (
	"bytes"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// A model is what a stream must do, done the simplest way.
type model struct {
	all        []byte
	head, tail int64
}

func (m *model) bounds() (headEnd, tailStart int64) {
	n := int64(len(m.all))
	return min(n, m.head), max(min(n, m.head), n-m.tail)
}

// FuzzStreams writes to three streams of one spool whose blocks are small, and
// reads from them, as the input says, and compares with the model.
func FuzzStreams(f *testing.F) {
	f.Add([]byte{20, 40, 7, 0, 200, 1, 100, 2, 9, 3, 0, 0, 255, 4, 0})
	f.Add([]byte{0, 1, 2, 0, 5, 0, 5, 1, 255, 1, 255, 2, 1, 2, 1, 2, 1, 5, 0, 3, 3})
	f.Add([]byte{255, 255, 255, 0, 255, 1, 255, 2, 255, 0, 255, 1, 255, 2, 255, 6, 0, 7, 0, 8, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 3 || len(script) > 400 {
			return
		}
		for _, open := range []func(int64) (store, error){openFile, openMemory} {
			playStreams(t, newSpool(open, 16, 0), script)
		}
	})
}

func playStreams(t *testing.T, spool *spool, script []byte) {
	t.Helper()
	defer spool.close()
	streams, models := [3]stream{}, [3]model{}
	for i := range streams {
		each := int64(script[i])
		streams[i] = stream{spool: spool, head: each - each/2, tail: each / 2}
		models[i] = model{head: each - each/2, tail: each / 2}
	}
	for script = script[3:]; len(script) >= 2; script = script[2:] {
		i, size := int(script[0])%3, int(script[1])
		s, m := &streams[i], &models[i]
		if script[0] >= 250 {
			s.empty()
			m.head, m.tail = 0, 0
			continue
		}
		data := make([]byte, size)
		for k := range data {
			data[k] = byte(len(m.all)+k) ^ byte(i*85) ^ byte((len(m.all)+k)>>8)
		}
		if n, err := s.Write(data); n != len(data) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
		m.all = append(m.all, data...)
		for k := range streams {
			checkStream(t, &streams[k], &models[k], int64(script[0])*int64(size))
		}
	}
	held := int64(0)
	for i := range streams {
		held += int64(len(streams[i].heads) + len(streams[i].tails))
	}
	if free := int64(len(spool.warm) + len(spool.cold)); held+free != int64(spool.made) {
		t.Fatalf("%d blocks are held and %d free, of %d", held, free, spool.made)
	}
}

// checkStream reads everything from some offset on.
func checkStream(t *testing.T, s *stream, m *model, from int64) {
	t.Helper()
	headEnd, tailStart := m.bounds()
	n := int64(len(m.all))
	if info := s.info(); info != (execution.OutputInfo{Bytes: n, Dropped: tailStart - headEnd}) {
		t.Fatalf("told %+v, want %d bytes and %d dropped", info, n, tailStart-headEnd)
	}
	at := from % (n + 1)
	buf := make([]byte, 50)
	for {
		got, next, _, err := s.read(buf, at, n)
		if err != nil {
			t.Fatal(err)
		}
		if at >= headEnd && at < tailStart {
			at = tailStart
		}
		if next != at+int64(got) || !bytes.Equal(buf[:got], m.all[at:next]) {
			t.Fatalf("read %d bytes from %d to %d: %x, want %x", got, at, next, buf[:got], m.all[at:min(n, at+int64(got))])
		}
		if at = next; got == 0 {
			break
		}
	}
	if at != n {
		t.Fatalf("reading ended at %d of %d (kept up to %d and from %d)", at, n, headEnd, tailStart)
	}
}

// TestFullSpoolKeepsHeadAndTail writes far more than the spool has room for,
// though not more than the stream would keep.
func TestFullSpoolKeepsHeadAndTail(t *testing.T) {
	for _, limit := range []int64{4, 5, 8, 21} {
		spool := newSpool(openFile, 16, limit*16)
		s := stream{spool: spool, head: 1000, tail: 1000}
		var all []byte
		for i := range 150 {
			data := bytes.Repeat([]byte{byte(i), byte(i >> 4)}, i%9)
			if n, err := s.Write(data); n != len(data) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
			all = append(all, data...)
		}
		read, buf := 0, make([]byte, 7)
		for at := int64(0); at < int64(len(all)); {
			n, next, _, err := s.read(buf, at, int64(len(all)))
			if err != nil || !bytes.Equal(buf[:n], all[next-int64(n):next]) {
				t.Fatalf("read %x up to %d, %v", buf[:n], next, err)
			}
			read, at = read+n, next
		}
		info := s.info()
		if int64(read) != info.Bytes-info.Dropped || int64(read) > limit*16 || int64(read) < (limit-2)*16-16 || info.Bytes != int64(len(all)) {
			t.Errorf("with room for %d bytes, %d of %+v are kept", limit*16, read, info)
		}
		if tail := info.Bytes - s.tailStart(); tail < 16 || s.headEnd() < 16 {
			t.Errorf("with room for %d bytes, %d of the head and %d of the tail are kept", limit*16, s.headEnd(), tail)
		}
		spool.close()
	}
}

func TestSpoolGivesMemoryBack(t *testing.T) {
	spool := newSpool(openFile, blockSize, 0)
	defer spool.close()
	s := stream{spool: spool, head: 4 << 20, tail: 4 << 20}
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for range 256 {
		if _, err := s.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if most := int32(8<<20/blockSize + 1); spool.made > most {
		t.Errorf("%d blocks were made for what fits into %d", spool.made, most)
	}
	before := heldBytes(t, spool)
	s.empty()
	if after := heldBytes(t, spool); after > maxWarm*blockSize || before < 8<<20 {
		t.Errorf("the spool takes %d bytes, and after all was given up %d", before, after)
	}
}

func BenchmarkWrite(b *testing.B) {
	spool := newSpool(openFile, blockSize, 0)
	defer spool.close()
	s := stream{spool: spool, head: 4 << 20, tail: 4 << 20}
	chunk := make([]byte, 64<<10)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := s.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
