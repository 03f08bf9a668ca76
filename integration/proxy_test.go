//go:build linux

package integration

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy stands between Pinfold and the engine: it tells of each request, and
// can cut all connections.
type proxy struct {
	host     string // for Options.Host
	listener net.Listener
	seen     func(method, path string)

	away    atomic.Bool // nobody gets through
	serving sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]bool
	paths   []string
}

// startProxy starts one before the machine's engine, for the test. seen may be
// nil; it is called before the request goes on to the engine.
func startProxy(t *testing.T, seen func(method, path string)) *proxy {
	t.Helper()
	return startProxyTo(t, world.engine.DaemonHost(), seen)
}

func startProxyTo(t *testing.T, host string, seen func(method, path string)) *proxy {
	t.Helper()
	target, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		t.Skip("the engine is not behind a socket")
	}
	path := filepath.Join(shortDir(t), "docker.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{host: "unix://" + path, listener: listener, seen: seen, open: map[net.Conn]bool{}}
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if p.away.Load() {
				closeNow(t, conn)
				continue
			}
			p.serving.Go(func() { p.serve(conn, target) })
		}
	})
	t.Cleanup(func() {
		closeNow(t, listener)
		p.cut()
		p.serving.Wait()
	})
	return p
}

func (p *proxy) serve(conn net.Conn, target string) {
	up, err := new(net.Dialer).DialContext(context.Background(), "unix", target)
	if err != nil {
		_ = conn.Close()
		return
	}
	p.keep(true, conn, up)
	defer p.keep(false, conn, up)
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(conn, up)
		halfClose(conn)
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			p.look(buf[:n])
			if _, err := up.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	halfClose(up)
	answers.Wait()
	_ = conn.Close()
	_ = up.Close()
}

func halfClose(conn net.Conn) {
	if unix, ok := conn.(*net.UnixConn); ok {
		_ = unix.CloseWrite()
	}
}

// requestLine is how a request starts. Clients send it in a write of its own
// or at the start of one.
var requestLine = regexp.MustCompile(`^(GET|HEAD|POST|PUT|DELETE) (/\S*) HTTP/1\.1\r\n`)

func (p *proxy) look(data []byte) {
	m := requestLine.FindSubmatch(data)
	if m == nil {
		return
	}
	method, path := string(m[1]), string(m[2])
	p.mu.Lock()
	p.paths = append(p.paths, path)
	p.mu.Unlock()
	if p.seen != nil {
		p.seen(method, path)
	}
}

func (p *proxy) keep(open bool, conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if open {
			p.open[c] = true
		} else {
			delete(p.open, c)
		}
	}
}

// cut ends every connection, as a broken network does. New ones work.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// requests are the paths that were asked for so far.
func (p *proxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.paths...)
}
