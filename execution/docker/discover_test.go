package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// testEnvironment has a home with nothing in it, and these variables.
func testEnvironment(t *testing.T, vars map[string]string) environment {
	t.Helper()
	return environment{getenv: func(name string) string { return vars[name] }, home: t.TempDir(), goos: "linux", uid: 1000}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contextFile(home, name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(home, ".docker", "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
}

// What the user has named is the only place that is looked at.
func TestEngineIsFoundAsTheDockerCommandFindsIt(t *testing.T) {
	vars := map[string]string{}
	env := testEnvironment(t, vars)
	writeFile(t, contextFile(env.home, "colima"), `{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///colima.sock"}}}`)
	writeFile(t, contextFile(env.home, "far"), `{"Name":"far","Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":true}}}`)
	config := filepath.Join(env.home, ".docker", "config.json")
	for _, row := range []struct {
		name    string
		host    string
		vars    map[string]string
		config  string
		want    string
		tls     string // folder
		skipTLS bool
	}{
		{name: "option before all", host: "unix:///a.sock", vars: map[string]string{"DOCKER_HOST": "unix:///b.sock"}, want: "unix:///a.sock"},
		{name: "DOCKER_HOST", vars: map[string]string{"DOCKER_HOST": "unix:///b.sock", "DOCKER_CONTEXT": "colima"}, want: "unix:///b.sock"},
		{name: "DOCKER_HOST without scheme", vars: map[string]string{"DOCKER_HOST": "h:2375"}, want: "tcp://h:2375"},
		{
			name: "TLS", vars: map[string]string{"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"},
			want: "tcp://h:2376", tls: "/certs",
		},
		{
			name: "TLS not verified", vars: map[string]string{"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS": "1", "DOCKER_CERT_PATH": "/certs"},
			want: "tcp://h:2376", tls: "/certs", skipTLS: true,
		},
		{name: "no TLS for sockets", vars: map[string]string{"DOCKER_HOST": "unix:///b.sock", "DOCKER_TLS_VERIFY": "1"}, want: "unix:///b.sock"},
		{name: "DOCKER_CONTEXT", vars: map[string]string{"DOCKER_CONTEXT": "colima"}, config: `{"currentContext":"far"}`, want: "unix:///colima.sock"},
		{name: "current context", config: `{"currentContext":"colima"}`, want: "unix:///colima.sock"},
		{
			name: "context with TLS", config: `{"currentContext":"far"}`, want: "tcp://far:2376", skipTLS: true,
			tls: filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(contextFile(env.home, "")))), "tls", sum("far"), "docker"),
		},
		{name: "default context", config: `{"currentContext":"default"}`, want: "unix:///var/run/docker.sock"},
		{name: "nothing", want: "unix:///var/run/docker.sock"},
		{name: "broken configuration", config: `{`, want: "unix:///var/run/docker.sock"},
	} {
		t.Run(row.name, func(t *testing.T) {
			clear(vars)
			maps.Copy(vars, row.vars)
			_ = os.Remove(config)
			if row.config != "" {
				writeFile(t, config, row.config)
			}
			places, err := env.endpoints(row.host)
			if err != nil {
				t.Fatal(err)
			}
			if places[0].Host != row.want {
				t.Errorf("got %q, want %q", places[0].Host, row.want)
			}
			if named := row.name != "nothing" && !strings.HasPrefix(row.want, "unix:///var"); named && len(places) != 1 {
				t.Errorf("other places than the named one are looked at: %v", places)
			}
			switch got := places[0].TLS; {
			case got == nil && row.tls != "":
				t.Error("no TLS")
			case got != nil && (got.Dir != row.tls || got.SkipVerify != row.skipTLS):
				t.Errorf("TLS is %+v, want %q, skip %v", *got, row.tls, row.skipTLS)
			}
		})
	}
}

func sum(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func TestUsualPlacesOfEngines(t *testing.T) {
	env := testEnvironment(t, map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"})
	places, err := env.endpoints("")
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, place := range places {
		hosts = append(hosts, strings.TrimPrefix(place.Host, "unix://"))
	}
	for _, want := range []string{
		"/var/run/docker.sock", "/run/user/7/docker.sock", env.home + "/.docker/run/docker.sock",
		env.home + "/.colima/default/docker.sock", "/run/user/7/podman/podman.sock", "/run/podman/podman.sock",
	} {
		if !strings.Contains(strings.Join(hosts, "\n")+"\n", want+"\n") {
			t.Errorf("%s is not looked at, only %q", want, hosts)
		}
	}
}

// Bad addresses and contexts say what is wrong and what to do.
func TestEnginesThatCannotBeReachedBySaying(t *testing.T) {
	for name, row := range map[string]struct {
		vars map[string]string
		says string
	}{
		"ssh":             {map[string]string{"DOCKER_HOST": "ssh://me@there"}, "ssh -nNT -L"},
		"unknown scheme":  {map[string]string{"DOCKER_HOST": "gopher://there"}, "want unix://"},
		"unknown context": {map[string]string{"DOCKER_CONTEXT": "nowhere"}, "docker context ls"},
		"absent socket":   {map[string]string{"DOCKER_HOST": "unix:///nowhere/e.sock"}, "no such socket"},
		"closed port":     {map[string]string{"DOCKER_HOST": "tcp://127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := testEnvironment(t, row.vars).discover(t.Context(), "")
			if !errors.Is(err, execution.ErrUnavailable) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want ErrUnavailable that says %q", err, row.says)
			}
		})
	}
}

// fakeEngine answers as an engine of that API version does to a ping.
func fakeEngine(t *testing.T, api string) string {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(shortDir(t), "s")) //nolint:noctx // It is closed with the server.
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if api != "" {
			w.Header().Set("Api-Version", api)
		}
		w.WriteHeader(http.StatusOK)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + listener.Addr().String()
}

func TestOldEnginesAreRefusedWithBothVersions(t *testing.T) {
	for _, row := range []struct{ api, negotiated string }{
		{"1.24", ""}, {"1.39", ""}, {"", ""}, {"1.40", "1.40"}, {"1.41", "1.41"}, {"1.99", "1.51"},
	} {
		t.Run("api "+row.api, func(t *testing.T) {
			m, err := testEnvironment(t, nil).discover(t.Context(), fakeEngine(t, row.api))
			if row.negotiated != "" {
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = m.close() }()
				if m.apiVersion() != row.negotiated {
					t.Errorf("negotiated %s, want %s", m.apiVersion(), row.negotiated)
				}
				return
			}
			if !errors.Is(err, execution.ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			if row.api != "" && (!strings.Contains(err.Error(), row.api) || !strings.Contains(err.Error(), minAPI)) {
				t.Errorf("error names not both versions: %v", err)
			}
		})
	}
}

// The error tells each place and what to do.
func TestNoEngineTellsWhatWasTried(t *testing.T) {
	env := testEnvironment(t, map[string]string{"XDG_RUNTIME_DIR": "/nowhere"})
	var tried []error
	for _, place := range env.wellKnown() {
		if strings.HasPrefix(place.Host, "unix:///nowhere") || strings.Contains(place.Host, env.home) {
			_, err := env.try(t.Context(), place)
			tried = append(tried, fmt.Errorf("%s (%s): %w", place.Host, place.From, err))
		}
	}
	err := noEngine(tried)
	for _, want := range []string{"/nowhere/docker.sock", "rootless Docker", "Colima", "no such socket", "DOCKER_HOST", "apt-get install"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// A socket that one may not use says so, once, and what to do.
func TestNoPermissionIsToldPlainly(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	mapped := mapError("ping", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	if !errors.Is(mapped, execution.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", mapped)
	}
	for _, err := range []error{mapped, mapError("ping", refused), execution.ErrPermission} {
		err = noEngine([]error{fmt.Errorf("unix:///x.sock (Docker): %w", err)})
		text := err.Error()
		if strings.Count(text, execution.ErrUnavailable.Error()) != 1 || strings.Count(text, execution.ErrPermission.Error()) > 1 {
			t.Errorf("it is told more than once: %v", err)
		}
		if !errors.Is(err, execution.ErrUnavailable) || strings.Contains(text, "permission") && !strings.Contains(text, "usermod") {
			t.Errorf("got %v, want ErrUnavailable and what to do", err)
		}
	}
}

// An engine that takes the connection and says nothing must not hold a caller.
func TestEngineThatHangsTimesOut(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s")) //nolint:noctx // It never answers.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	m, err := openMoby(endpoint{Host: "unix://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.close() }()
	const brief = 50_000_000 // nanoseconds
	_, err = call(t.Context(), "ping", brief, m.cli.Ping)
	if !errors.Is(err, execution.ErrTimeout) || !strings.Contains(err.Error(), "ping") {
		t.Errorf("got %v, want ErrTimeout that names the call", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := m.attach(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("attach: got %v, want the context's error", err)
	}
}
