//go:build linux

package integration

import (
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/pinfold-dev/pinfold/execution"
)

// neighbour is a container that testcontainers starts and removes: a web
// server on a network of its own.
func neighbour(t *testing.T) (address, name string) {
	t.Helper()
	need(t)
	ctx := t.Context()
	net, err := network.New(ctx)
	if err != nil {
		t.Skipf("this engine makes no networks: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := net.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	server, err := testcontainers.Run(ctx, plainImage(t),
		testcontainers.WithCmd("sh", "-c", "echo hello >/tmp/index.html; exec httpd -f -v -p 8080 -h /tmp"),
		network.WithNetwork(nil, net),
		testcontainers.WithWaitStrategy(wait.ForExec([]string{"wget", "-q", "-O", "-", "http://127.0.0.1:8080/index.html"})),
	)
	if server != nil {
		t.Cleanup(func() {
			ctx, cancel := cleanupContext()
			defer cancel()
			// Its PID 1 ignores SIGTERM: do not wait for it.
			if err := server.Terminate(ctx, testcontainers.StopTimeout(0)); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := server.Inspect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info.NetworkSettings.Networks[net.Name].IPAddress, net.Name
}

func TestASandboxReachesNobodyUnlessItIsConnected(t *testing.T) {
	address, name := neighbour(t)
	backend := newBackend(t, dockerOptions())
	get := "timeout 5 wget -q -O - http://" + address + ":8080/index.html"

	connected := newSandbox(t, backend, execution.Spec{Network: name})
	if got := output(t, connected, get); got != "hello\n" {
		t.Fatalf("a connected sandbox got %q", got)
	}
	alone := newSandbox(t, backend, execution.Spec{})
	for _, line := range []string{
		get,
		"timeout 5 wget -q -O - http://169.254.169.254/",
		"timeout 5 wget -q -O - http://2852039166/",
		"timeout 5 wget -q -O - http://[fd00:ec2::254]/",
		"timeout 5 wget -q -O - http://" + strings.Join(append(strings.Split(address, ".")[:3], "1"), ".") + "/",
		"nc -w 3 1.1.1.1 53 </dev/null",
		"timeout 5 wget -q -O - http://example.org/",
	} {
		if result := run(t, alone, line); result.Success() {
			t.Errorf("%s succeeded: %q", line, result.Stdout)
		}
	}
	if got := output(t, alone, "ls /sys/class/net"); got != "lo\n" {
		t.Errorf("its interfaces are %q", got)
	}
}

func TestANeighbourIsLeftAlone(t *testing.T) {
	address, name := neighbour(t)
	backend := newBackend(t, dockerOptions())
	h := newSandbox(t, backend, execution.Spec{Network: name})
	if err := h.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	again := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Network: name})
	if got := output(t, again, "wget -q -O - http://"+address+":8080/index.html"); got != "hello\n" {
		t.Errorf("after another sandbox was destroyed the neighbour says %q", got)
	}
}
