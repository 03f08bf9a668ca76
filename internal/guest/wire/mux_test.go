package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is when a test that waits is taken to hang.
const patience = 20 * time.Second

// pipes is two files that make one end of a connection, as a guest has it.
type pipes struct{ in, out *os.File }

func (p pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.in.Close(), p.out.Close()) }

func (p pipes) SyscallConn() (syscall.RawConn, error) { return p.out.SyscallConn() }

// transports are the connections that everything is tried on.
func transports() map[string]func(t *testing.T) (a, b io.ReadWriteCloser) {
	return map[string]func(t *testing.T) (a, b io.ReadWriteCloser){
		"net.Pipe": func(*testing.T) (io.ReadWriteCloser, io.ReadWriteCloser) { return net.Pipe() },
		"os.Pipe": func(t *testing.T) (io.ReadWriteCloser, io.ReadWriteCloser) {
			t.Helper()
			r1, w1, err1 := os.Pipe()
			r2, w2, err2 := os.Pipe()
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			return pipes{r1, w2}, pipes{r2, w1}
		},
		"socket": func(t *testing.T) (io.ReadWriteCloser, io.ReadWriteCloser) {
			t.Helper()
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return a, b
		},
	}
}

// connect makes a greeted connection.
func connect(t *testing.T, a, b io.ReadWriteCloser, serve func(context.Context, *Stream, []byte) []byte) (host, guest *Mux) {
	t.Helper()
	host, guest = New(t.Context(), a, Config{}), New(t.Context(), b, Config{Serve: serve})
	t.Cleanup(func() {
		host.Close(io.ErrClosedPipe)
		guest.Close(io.ErrClosedPipe)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go guest.Answer([]byte("guest"))
	hello, err := host.Greet(ctx, []byte("host"))
	if err != nil || string(hello) != "guest" {
		t.Fatalf("Greet = %q, %v", hello, err)
	}
	if hello, err := guest.AwaitHello(ctx); err != nil || string(hello) != "host" {
		t.Fatalf("AwaitHello = %q, %v", hello, err)
	}
	return host, guest
}

// echo sends back what comes on channel 0, on all channels.
func echo(_ context.Context, s *Stream, call []byte) []byte {
	if err := s.Begin(call); err != nil {
		return nil
	}
	senders := [Channels]*Sender{}
	for ch := range senders {
		senders[ch] = s.Sender(uint8(ch))
		defer senders[ch].Close()
	}
	for {
		p, err := s.Peek(0)
		if err != nil {
			return fmt.Append(call, ": ", err)
		}
		for _, sender := range senders {
			if _, err := sender.Write(p); err != nil {
				return fmt.Append(nil, err)
			}
		}
		s.Advance(0, len(p))
	}
}

// read takes everything that comes on channel 0.
func read(s *Stream) ([]byte, error) {
	var all []byte
	for {
		p, err := s.Peek(0)
		if err != nil {
			return all, err
		}
		all = append(all, p...)
		s.Advance(0, len(p))
	}
}

func TestDataArrivesAsSentOnEveryTransport(t *testing.T) {
	data := make([]byte, 2<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	for name, transport := range transports() {
		t.Run(name, func(t *testing.T) {
			a, b := transport(t)
			host, _ := connect(t, a, b, echo)
			for _, size := range []int{0, 1, smallData, smallData + 1, MaxData + 7, len(data)} {
				roundTrip(t, host, data[:size])
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { roundTrip(t, host, data[:rand.IntN(len(data))]) })
			}
			all.Wait()
			if n := host.Streams(); n != 0 {
				t.Errorf("%d streams are left", n)
			}
		})
	}
}

// roundTrip sends data to echo and checks what comes back on each channel.
func roundTrip(t *testing.T, host *Mux, data []byte) {
	t.Helper()
	var got [Channels]bytes.Buffer
	opts := OpenOptions{Peeks: true}
	for ch := 1; ch < Channels; ch++ {
		opts.Sinks[ch] = func(p []byte) error { got[ch].Write(p); return nil }
	}
	ended := make(chan string, 1)
	opts.Ended = func(_ bool, result []byte, err error) { ended <- fmt.Sprint(string(result), err) }
	s, err := host.Open(t.Context(), []byte("call"), opts)
	if err != nil {
		t.Error(err)
		return
	}
	go func() {
		_ = feed(s, bytes.NewReader(data))
	}()
	if ack, ok, err := s.Acked(t.Context()); string(ack) != "call" || !ok || err != nil {
		t.Errorf("Acked = %q, %v, %v", ack, ok, err)
	}
	all, err := read(s)
	if !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	select {
	case end := <-ended:
		if want := "call: EOF<nil>"; end != want {
			t.Errorf("ended with %q, want %q", end, want)
		}
	case <-time.After(patience):
		t.Fatal("the stream does not end")
	}
	got[0].Write(all)
	for ch := range got {
		if sha256.Sum256(got[ch].Bytes()) != sha256.Sum256(data) {
			t.Errorf("channel %d: %d bytes came back other than the %d sent", ch, got[ch].Len(), len(data))
		}
	}
}

// feed sends everything that r yields, and its end.
func feed(s *Stream, r io.Reader) error {
	sender := s.Sender(0)
	defer sender.Close()
	if _, err := sender.ReadFrom(r); err != nil {
		return err
	}
	return s.CloseSend(0)
}

func TestFilesAndPipesAreSplicedByteForByte(t *testing.T) {
	data := make([]byte, 3<<20+17)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(data)
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	sources := map[string]func() io.ReadCloser{
		"file": func() io.ReadCloser {
			f, err := os.Open(path)
			if err != nil {
				t.Error(err)
			}
			return f
		},
		"pipe": func() io.ReadCloser {
			r, w, err := os.Pipe()
			if err != nil {
				t.Error(err)
			}
			go func() {
				for p := data; len(p) > 0; { // in pieces of all sizes
					n := min(len(p), 1+rand.IntN(100_000))
					_, _ = w.Write(p[:n])
					p = p[n:]
				}
				_ = w.Close()
			}()
			return r
		},
		"procfs, which cannot be spliced": func() io.ReadCloser {
			f, err := os.Open("/proc/self/maps")
			if err != nil {
				t.Skip(err)
			}
			return f
		},
	}
	for name, open := range sources {
		for transport, dial := range transports() {
			t.Run(name+" over "+transport, func(t *testing.T) {
				a, b := dial(t)
				var sent int64
				host, _ := connect(t, a, b, func(_ context.Context, s *Stream, _ []byte) []byte {
					_ = s.Begin(nil)
					src := open()
					defer src.Close()
					sender := s.Sender(0)
					defer sender.Close()
					var err error
					sent, err = sender.ReadFrom(src)
					return fmt.Append(nil, err)
				})
				s, err := host.Open(t.Context(), nil, OpenOptions{Peeks: true})
				if err != nil {
					t.Fatal(err)
				}
				got, err := read(s)
				result, _ := s.Result()
				if !errors.Is(err, io.EOF) || string(result) != "<nil>" || int64(len(got)) != sent {
					t.Fatalf("got %d of %d bytes, %v, %s", len(got), sent, err, result)
				}
				if name != "procfs, which cannot be spliced" && !bytes.Equal(got, data) {
					t.Errorf("%d bytes came other than the %d sent", len(got), len(data))
				}
			})
		}
	}
}

func TestLimitedReaderIsSplicedUpToItsLimit(t *testing.T) {
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(data)
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dial := range transports() {
		t.Run(name, func(t *testing.T) {
			a, b := dial(t)
			host, _ := connect(t, a, b, func(_ context.Context, s *Stream, _ []byte) []byte {
				_ = s.Begin(nil)
				f, err := os.Open(path)
				if err != nil {
					return fmt.Append(nil, err)
				}
				defer f.Close()
				sender := s.Sender(0)
				defer sender.Close()
				_, err = sender.ReadFrom(&io.LimitedReader{R: f, N: 300_001})
				return fmt.Append(nil, err)
			})
			s, err := host.Open(t.Context(), nil, OpenOptions{Peeks: true})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := read(s)
			if result, _ := s.Result(); string(result) != "<nil>" || !bytes.Equal(got, data[:300_001]) {
				t.Errorf("got %d bytes, %s", len(got), result)
			}
		})
	}
}
