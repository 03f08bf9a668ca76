package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// frame is one of the engine's.
func frame(kind byte, payload string) []byte {
	header := make([]byte, frameHeader)
	header[0] = kind
	binary.BigEndian.PutUint32(header[4:], uint32(len(payload)))
	return append(header, payload...)
}

// readerConn is a connection that only reads.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func streamOf(buffered []byte, r io.Reader) *stream {
	return newStream(&rawStream{conn: readerConn{Reader: r}, buffered: buffered})
}

// Whatever way the bytes come in and are asked for, standard output is whole
// and nothing else gets into it.
func TestFramesAreTakenOffByteExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var raw, want, stderr bytes.Buffer
	for range 300 {
		payload := make([]byte, rng.IntN(5000))
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		if rng.IntN(5) == 0 {
			raw.Write(frame(kindStderr, string(payload)))
			stderr.Write(payload)
			continue
		}
		raw.Write(frame(kindStdout, string(payload)))
		want.Write(payload)
	}
	for name, r := range map[string]io.Reader{
		"as it comes": bytes.NewReader(raw.Bytes()),
		"by bytes":    iotest.OneByteReader(bytes.NewReader(raw.Bytes())),
		"by halves":   iotest.HalfReader(bytes.NewReader(raw.Bytes())),
		"with end":    iotest.DataErrReader(bytes.NewReader(raw.Bytes())),
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			s := streamOf(nil, r)
			for {
				p := make([]byte, 1+rng.IntN(9000))
				n, err := s.Read(p)
				got.Write(p[:n])
				if n == 0 && err == nil {
					t.Fatal("read nothing without an error")
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("got %d bytes, want %d, or others", got.Len(), want.Len())
			}
			if tail := stderr.Bytes()[stderr.Len()-tailSize:]; !bytes.Equal(s.stderr.data, tail) {
				t.Error("the end of standard error is not kept")
			}
		})
	}
}

func TestBytesThatCameWithTheAnswerAreNotLost(t *testing.T) {
	raw := append(frame(kindStdout, "hello "), frame(kindStdout, "world")...)
	for cut := range len(raw) {
		got, err := io.ReadAll(streamOf(bytes.Clone(raw[:cut]), bytes.NewReader(raw[cut:])))
		if string(got) != "hello world" || err != nil {
			t.Fatalf("cut at %d: got %q, %v", cut, got, err)
		}
	}
}

func TestStreamsThatAreNotFramed(t *testing.T) {
	for name, raw := range map[string][]byte{
		"unknown kind":  frame(9, "x"),
		"input's kind":  frame(0, "x"),
		"not zero":      {1, 1, 0, 0, 0, 0, 0, 1, 'x'},
		"absurd length": {1, 0, 0, 0, 0xff, 0, 0, 0, 'x'},
		"plain text":    []byte("HTTP/1.1 400 Bad Request\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := io.ReadAll(streamOf(nil, bytes.NewReader(raw))); err == nil || len(got) > 0 {
				t.Errorf("got %q and %v, want an error", got, err)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		raw := frame(kindStdout, "hello")
		for cut := 1; cut < len(raw); cut++ {
			if _, err := io.ReadAll(streamOf(nil, bytes.NewReader(raw[:cut]))); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut at %d: got %v", cut, err)
			}
		}
	})
}

// A pending read returns when the stream is closed, also when the connection
// is kept until the container has been removed.
func TestCloseEndsAPendingRead(t *testing.T) {
	for _, keep := range []bool{false, true} {
		here, there := net.Pipe()
		s := newStream(&rawStream{conn: here})
		if keep {
			s.keep()
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 10))
			ended <- err
		}()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("keep %v: got %v, want net.ErrClosed", keep, err)
		}
		if keep {
			// The other side has noticed nothing yet.
			go func() { _, _ = there.Write([]byte{1}) }()
		}
		if err := s.release(); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("keep %v: the connection is still there: %v", keep, err)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tail tail
	for _, part := range []string{"begin", strings.Repeat("x", tailSize-3), "\x1b[31mthe\nend"} {
		tail.add([]byte(part))
	}
	if got := tail.text(); !strings.HasSuffix(got, "xx[31mthe end") || strings.Contains(got, "begin") {
		t.Errorf("got %q", got)
	}
	tail.add(bytes.Repeat([]byte("y"), 3*tailSize))
	if len(tail.data) != tailSize {
		t.Errorf("keeps %d bytes", len(tail.data))
	}
}

func FuzzStream(f *testing.F) {
	f.Add(append(frame(kindStdout, "hello"), frame(kindStderr, "oops")...), 7)
	f.Add([]byte("HTTP/1.1"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		s := streamOf(nil, bytes.NewReader(raw))
		p := make([]byte, 1+min(max(size, 0), 1<<16))
		total := 0
		for {
			n, err := s.Read(p)
			if total += n; total > len(raw) {
				t.Fatal("more came out than went in")
			}
			if err != nil {
				return
			}
		}
	})
}
