package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// frame is a frame as a hostile peer would write it.
func frame(kind frameType, channel uint8, stream uint32, payload []byte) []byte {
	h := header{kind: kind, channel: channel, stream: stream, length: uint32(len(payload))}
	return append(h.append(nil), payload...)
}

func credit(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// greeting is a guest's proper HELLO.
func greeting() []byte { return frame(frameHello, 0, 0, []byte(magic)) }

// pairOfStreams opens what the hostile frames refer to: stream 1 takes data on
// channel 0, stream 2 takes none.
func pairOfStreams(t *testing.T, host *Mux) {
	t.Helper()
	for _, opts := range []OpenOptions{{Peeks: true}, {}} {
		if _, err := host.Open(t.Context(), []byte("call"), opts); err != nil {
			t.Error(err)
		}
	}
}

func TestHostileGuestEndsTheConnection(t *testing.T) {
	ack := frame(frameAck, 0, 1, nil)
	data := frame(frameData, 0, 1, []byte("x"))
	tests := map[string]struct {
		frames []byte
		want   string // in the error
	}{
		"type 0":                        {make([]byte, headerSize), "frame header"},
		"unknown type":                  {frame(frameTypes, 0, 0, nil), "frame header"},
		"reserved bytes":                {[]byte{byte(framePing), 0, 1, 0, 0, 0, 0, 0, 8, 0, 0, 0}, "frame header"},
		"second greeting":               {greeting(), "HELLO"},
		"opening a stream":              {frame(frameCall, 0, 3, nil), "wrong side"},
		"cancelling":                    {frame(frameCancel, 0, 1, nil), "wrong side"},
		"end of file":                   {frame(frameEOF, 0, 1, nil), "wrong side"},
		"ping of the wrong size":        {frame(framePing, 0, 0, make([]byte, 9)), "9 bytes"},
		"ping on a stream":              {frame(framePing, 0, 1, make([]byte, pingSize)), "on stream 1"},
		"result on stream 0":            {frame(frameResult, 0, 0, nil), "on stream 0"},
		"channel out of range":          {frame(frameData, Channels, 1, []byte("x")), "channel"},
		"ack on a channel":              {frame(frameAck, 1, 1, nil), "channel"},
		"oversized data":                {header{frameData, 0, 1, MaxData + 1}.append(nil), "262145 bytes"},
		"oversized reply":               {header{frameResult, 0, 1, MaxReply + 1}.append(nil), "262145 bytes"},
		"four gigabytes":                {header{frameData, 0, 1, 1<<32 - 1}.append(nil), "4294967295 bytes"},
		"empty data":                    {append(slices.Clip(ack), frame(frameData, 0, 1, nil)...), "0 bytes"},
		"data before the ack":           {data, "before its ACK"},
		"data on a channel not open":    {append(slices.Clip(ack), frame(frameData, 1, 1, []byte("x"))...), "closed"},
		"data on a stream without":      {append(frame(frameAck, 0, 2, nil), frame(frameData, 0, 2, []byte("x"))...), "closed"},
		"data beyond the credit":        {append(slices.Clip(ack), bytes.Repeat(frame(frameData, 0, 1, make([]byte, MaxData)), 2)...), "credit"},
		"second ack":                    {append(slices.Clip(ack), ack...), "second ACK"},
		"second result":                 {bytes.Repeat(frame(frameResult, 0, 1, nil), 2), "not open"},
		"data after the result":         {append(append(slices.Clip(ack), frame(frameResult, 0, 1, nil)...), data...), "not open"},
		"ack for an unknown stream":     {frame(frameAck, 0, 99, nil), "not open"},
		"data for an unknown stream":    {frame(frameData, 0, 99, []byte("x")), "not open"},
		"credit for an unknown stream":  {frame(frameCredit, 0, 99, credit(1)), "not open"},
		"credit without end":            {bytes.Repeat(frame(frameCredit, 0, 1, credit(1<<31)), 4), "credit"},
		"credit of the wrong size":      {frame(frameCredit, 0, 1, []byte{1}), "1 bytes"},
		"text instead of frames":        {[]byte("exec /bin/sh: no such file or directory\n"), "frame header"},
		"oversized result after others": {append(slices.Clip(ack), header{frameResult, 0, 1, 1 << 30}.append(nil)...), "bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host, peer := net.Pipe()
			m := New(t.Context(), host, Config{})
			defer m.Close(io.ErrClosedPipe)
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			if _, err := peer.Write(greeting()); err != nil {
				t.Fatal(err)
			}
			pairOfStreams(t, m)
			_, _ = peer.Write(test.frames) // cut off when the host has had enough
			select {
			case <-m.Done():
			case <-time.After(patience):
				t.Fatal("the connection goes on")
			}
			if err := m.Err(); !errors.Is(err, ErrViolation) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ended with %v, want a violation that names %q", err, test.want)
			}
		})
	}
}

func TestGreetingIsChecked(t *testing.T) {
	tests := map[string]struct {
		bytes []byte
		want  string
	}{
		"a runtime's message": {[]byte("exec format error\n"), `"exec format`},
		"another frame":       {frame(framePing, 0, 0, make([]byte, pingSize)), "HELLO first"},
		"another magic":       {frame(frameHello, 0, 0, []byte("pinfolk\x00\x01")), "pinfolk"},
		"another version":     {frame(frameHello, 0, 0, []byte("pinfold\x00\x63")), "protocol 99"},
		"nothing":             {nil, "before the greeting"},
		"cut":                 {greeting()[:headerSize+3], "ended"},
		"too long":            {header{frameHello, 0, 0, maxHelloReply + 1}.append(nil), "bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host, peer := net.Pipe()
			m := New(t.Context(), host, Config{})
			defer m.Close(io.ErrClosedPipe)
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			go func() {
				_, _ = peer.Write(test.bytes)
				_ = peer.Close()
			}()
			if _, err := m.Greet(t.Context(), nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Greet: %v, want an error that names %q", err, test.want)
			}
		})
	}
}

func TestFrameThatIsCutEndsTheConnection(t *testing.T) {
	whole := append(frame(frameAck, 0, 1, []byte("ack")), frame(frameData, 0, 1, []byte("data"))...)
	for n := 1; n < len(whole); n++ {
		host, peer := net.Pipe()
		m := New(t.Context(), host, Config{})
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		if _, err := peer.Write(greeting()); err != nil {
			t.Fatal(err)
		}
		pairOfStreams(t, m)
		_, _ = peer.Write(whole[:n])
		_ = peer.Close()
		select {
		case <-m.Done():
		case <-time.After(patience):
			t.Fatalf("the connection goes on after %d bytes", n)
		}
		if m.Err() == nil {
			t.Errorf("no error after %d bytes", n)
		}
		m.Close(io.ErrClosedPipe)
	}
}

func TestSlowLorisIsNoSignOfLife(t *testing.T) {
	host, peer := net.Pipe()
	m := New(t.Context(), host, Config{})
	defer m.Close(io.ErrClosedPipe)
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	if _, err := peer.Write(greeting()); err != nil {
		t.Fatal(err)
	}
	<-m.helloCh
	pairOfStreams(t, m)
	if _, err := peer.Write(frame(frameAck, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "both frames", func() bool { return m.Beats() == 2 })
	slow := header{frameData, 0, 1, MaxData}.append(nil)
	for _, b := range append(slow, make([]byte, 100)...) {
		if _, err := peer.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Beats(); n != 2 {
		t.Errorf("half a frame counts as a beat: %d", n)
	}
}

func TestTinyFramesTakeNoMoreMemoryThanTheirCredit(t *testing.T) {
	host, peer := net.Pipe()
	m := New(t.Context(), host, Config{})
	defer m.Close(io.ErrClosedPipe)
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	if _, err := peer.Write(greeting()); err != nil {
		t.Fatal(err)
	}
	pairOfStreams(t, m)
	if _, err := peer.Write(frame(frameAck, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	const frames = 50_000
	if _, err := peer.Write(bytes.Repeat(frame(frameData, 0, 1, []byte("x")), frames)); err != nil {
		t.Fatal(err)
	}
	s := m.stream(1)
	waitFor(t, "the data", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.in[0].size == frames })
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for c := s.in[0].head; c != nil; c = c.next {
		held += len(c.data)
	}
	if held > frames+MaxData {
		t.Errorf("%d bytes in tiny frames take %d bytes of memory", frames, held)
	}
}

func TestPeerThatAsksAndNeverReadsIsCutOff(t *testing.T) {
	r, w := io.Pipe()
	m := New(t.Context(), &stuck{Reader: r, closed: make(chan struct{})}, Config{})
	defer func() {
		_ = w.Close()
		m.Close(errTest)
	}()
	if _, err := w.Write(greeting()); err != nil {
		t.Fatal(err)
	}
	// A million pings make one answer.
	ping := bytes.Repeat(frame(framePing, 0, 0, make([]byte, pingSize)), 1000)
	for range 100 {
		if _, err := w.Write(ping); err != nil {
			t.Fatal(err)
		}
	}
	m.queue.mu.Lock()
	if n := len(m.queue.frames); n > 100 {
		t.Errorf("%d bytes are queued as answers", n)
	}
	m.queue.mu.Unlock()
	for range queueLimit/headerSize + queueKept {
		m.push(header{kind: frameCancel, stream: 1}, nil)
	}
	if err := m.Err(); err != nil && !errors.Is(err, ErrViolation) {
		t.Errorf("ended with %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !errors.Is(m.cause, ErrViolation) {
		t.Errorf("queued without bound: %v", m.cause)
	}
}

// FuzzHost feeds a host with what a guest may send.
func FuzzHost(f *testing.F) {
	ack := frame(frameAck, 0, 1, nil)
	f.Add(append(slices.Clip(ack), frame(frameData, 0, 1, []byte("data"))...))
	f.Add(append(frame(frameResult, 0, 1, []byte("result")), frame(frameResult, 0, 2, nil)...))
	f.Add(append(frame(frameCredit, 0, 2, credit(1000)), frame(framePing, 0, 0, make([]byte, pingSize))...))
	f.Add(frame(framePong, 0, 0, make([]byte, pingSize)))
	f.Add([]byte("no frames at all"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := io.MultiReader(bytes.NewReader(greeting()), bytes.NewReader(b))
		checkEnds(t, r, Config{}, func(m *Mux) { pairOfStreams(t, m) })
	})
}

// FuzzGuest feeds a guest with what a host may send.
func FuzzGuest(f *testing.F) {
	f.Add(append(frame(frameCall, 0, 1, []byte("call")), frame(frameData, 0, 1, []byte("data"))...))
	f.Add(append(frame(frameCall, 0, 7, nil), frame(frameCancel, 0, 7, nil)...))
	f.Add(append(frame(frameCall, 0, 7, nil), frame(frameEOF, 0, 7, nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := io.MultiReader(bytes.NewReader(greeting()), bytes.NewReader(b))
		checkEnds(t, r, Config{Serve: echo}, func(*Mux) {})
	})
}

// input is a connection that yields r and takes everything.
type input struct{ io.Reader }

func (input) Write(p []byte) (int, error) { return len(p), nil }
func (input) Close() error                { return nil }

// checkEnds checks that a connection ends with its input, whatever that was.
func checkEnds(t *testing.T, r io.Reader, cfg Config, before func(*Mux)) {
	t.Helper()
	start := make(chan struct{})
	m := New(t.Context(), input{io.MultiReader(waitReader(start), r)}, cfg)
	before(m)
	close(start)
	select {
	case <-m.Done():
	case <-time.After(patience):
		t.Fatal("the connection does not end")
	}
	m.Close(io.ErrClosedPipe)
	if m.Err() == nil {
		t.Error("ended without an error")
	}
}

// waitReader is empty, and ends when it is closed.
type waitReader chan struct{}

func (w waitReader) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

// A peer that takes everything and never tells how much it has got costs no
// more than a bound.
func TestPeerThatNeverTellsWhatItHasGot(t *testing.T) {
	host, peer := net.Pipe()
	m := New(t.Context(), host, Config{})
	defer m.Close(io.ErrClosedPipe)
	m.link.mu.Lock()
	m.link.most = 64 << 10
	m.link.mu.Unlock()
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	if _, err := peer.Write(greeting()); err != nil {
		t.Fatal(err)
	}
	pings := bytes.Repeat(frame(framePing, 0, 0, make([]byte, pingSize)), 100)
	for start := time.Now(); m.Err() == nil; {
		if _, err := peer.Write(pings); err != nil {
			break
		}
		if time.Since(start) > patience {
			m.link.mu.Lock()
			defer m.link.mu.Unlock()
			t.Fatalf("%d bytes are kept for it", m.link.log.size())
		}
	}
	<-m.Done()
	if err := m.Err(); !errors.Is(err, ErrViolation) {
		t.Errorf("it ended with %v", err)
	}
}
