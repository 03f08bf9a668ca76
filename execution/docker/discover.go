package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// An endpoint is a place where an engine may be.
type endpoint struct {
	Host string    // as in DOCKER_HOST
	From string    // who says so, for people
	TLS  *tlsFiles // nil for none
}

// tlsFiles is where the keys to an engine are.
type tlsFiles struct {
	Dir        string // with ca.pem, cert.pem and key.pem
	SkipVerify bool
}

// environment is what discovery depends on.
type environment struct {
	getenv func(string) string
	home   string
	goos   string
	uid    int // -1 where there is no such thing
}

func systemEnvironment() environment {
	home, _ := os.UserHomeDir()
	return environment{getenv: os.Getenv, home: home, goos: runtime.GOOS, uid: os.Getuid()}
}

// endpoints lists where to look. What the user has named (host, DOCKER_HOST, a
// docker context) is the only place then: an engine that nobody meant is never
// used in its stead. Otherwise it is the places that engines listen at by
// default, those of Docker first.
func (e environment) endpoints(host string) ([]endpoint, error) {
	if host != "" {
		return one(e.named(host, "Options.Host"))
	}
	if host := e.getenv("DOCKER_HOST"); host != "" {
		return one(e.named(host, "DOCKER_HOST"))
	}
	name, from := e.getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		name, from = e.dockerConfig().CurrentContext, filepath.Join(e.configDir(), "config.json")
	}
	if name != "" && name != "default" {
		return one(e.context(name, from))
	}
	return e.wellKnown(), nil
}

func one(place endpoint, err error) ([]endpoint, error) { return []endpoint{place}, err }

// named is the place that the user has given by its address.
func (e environment) named(host, from string) (endpoint, error) {
	if !strings.Contains(host, "://") {
		host = "tcp://" + host
	}
	place := endpoint{Host: host, From: from}
	switch scheme, _, _ := strings.Cut(host, "://"); scheme {
	case "unix", "npipe":
		return place, nil
	case "tcp", "http", "https":
	case "ssh":
		return place, fmt.Errorf("%w: %s %q: engines behind ssh are not reached directly; forward the socket with "+
			"`ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST` and set DOCKER_HOST=unix:///tmp/engine.sock",
			execution.ErrUnavailable, from, host)
	default:
		return place, fmt.Errorf("%w: %s %q: want unix://, npipe:// or tcp://", execution.ErrUnavailable, from, host)
	}
	verify := e.getenv("DOCKER_TLS_VERIFY") != ""
	if verify || e.getenv("DOCKER_TLS") != "" {
		dir := e.getenv("DOCKER_CERT_PATH")
		if dir == "" {
			dir = e.configDir()
		}
		place.TLS = &tlsFiles{Dir: dir, SkipVerify: !verify}
	}
	return place, nil
}

// context is the place that a docker context names. Its files are keyed by the
// digest of its name.
func (e environment) context(name, from string) (endpoint, error) {
	place := endpoint{From: fmt.Sprintf("docker context %q, from %s", name, from)}
	sum := sha256.Sum256([]byte(name))
	key := hex.EncodeToString(sum[:])
	data, err := os.ReadFile(filepath.Join(e.configDir(), "contexts", "meta", key, "meta.json"))
	if err != nil {
		return place, fmt.Errorf("%w: %s: %w; `docker context ls` shows those that there are", execution.ErrUnavailable, place.From, err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil || meta.Endpoints["docker"].Host == "" {
		return place, fmt.Errorf("%w: %s: its meta.json names no docker endpoint", execution.ErrUnavailable, place.From)
	}
	found := meta.Endpoints["docker"]
	from, place.Host = place.From, found.Host
	dir := filepath.Join(e.configDir(), "contexts", "tls", key, "docker")
	if strings.HasPrefix(found.Host, "tcp://") && (exists(dir) || found.SkipTLSVerify) {
		place.TLS = &tlsFiles{Dir: dir, SkipVerify: found.SkipTLSVerify}
		return place, nil
	}
	// The variables for TLS are DOCKER_HOST's, not a context's.
	plain := e
	plain.getenv = func(string) string { return "" }
	return plain.named(found.Host, from)
}

// wellKnown are the places where engines listen without being told to.
func (e environment) wellKnown() []endpoint {
	if e.goos == "windows" {
		return []endpoint{
			{Host: "npipe:////./pipe/docker_engine", From: "Docker Desktop"},
			{Host: "npipe:////./pipe/dockerDesktopLinuxEngine", From: "Docker Desktop"},
		}
	}
	var places []endpoint
	seen := map[string]bool{}
	add := func(from string, path ...string) {
		if path[0] == "" {
			return
		}
		host := "unix://" + filepath.ToSlash(filepath.Join(path...))
		if !seen[host] {
			seen[host] = true
			places = append(places, endpoint{Host: host, From: from})
		}
	}
	run := e.getenv("XDG_RUNTIME_DIR")
	if run == "" && e.uid > 0 && e.goos == "linux" {
		run = "/run/user/" + strconv.Itoa(e.uid)
	}
	colima := e.getenv("COLIMA_HOME")
	if colima == "" && e.home != "" {
		colima = filepath.Join(e.home, ".colima")
	}
	add("Docker", "/var/run/docker.sock")
	add("rootless Docker", run, "docker.sock")
	add("Docker Desktop", e.home, ".docker/run/docker.sock")
	add("Docker Desktop", e.home, ".docker/desktop/docker.sock")
	add("Colima", colima, "default/docker.sock")
	add("Rancher Desktop", e.home, ".rd/docker.sock")
	add("OrbStack", e.home, ".orbstack/run/docker.sock")
	add("rootless Podman", run, "podman/podman.sock")
	add("Podman", "/run/podman/podman.sock")
	return places
}

// dockerConfig is what matters here of the docker command's config.json.
type dockerConfig struct {
	CurrentContext string            `json:"currentContext"`
	CredsStore     string            `json:"credsStore"`
	CredHelpers    map[string]string `json:"credHelpers"`
	Auths          map[string]struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
}

// dockerConfig reads the docker command's configuration; there need be none.
func (e environment) dockerConfig() dockerConfig {
	var config dockerConfig
	if data, err := os.ReadFile(filepath.Join(e.configDir(), "config.json")); err == nil {
		_ = json.Unmarshal(data, &config) // The docker command warns of it and goes on, too.
	}
	return config
}

func (e environment) configDir() string {
	if dir := e.getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	return filepath.Join(e.home, ".docker")
}

// discover returns the first engine that answers. When none does, the error
// matches ErrUnavailable and tells each place that was tried, and why not.
func (e environment) discover(ctx context.Context, host string) (*moby, error) {
	places, err := e.endpoints(host)
	if err != nil {
		return nil, err
	}
	var tried []error
	for _, place := range places {
		m, err := e.try(ctx, place)
		if err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		tried = append(tried, fmt.Errorf("%s (%s): %w", place.Host, place.From, err))
	}
	return nil, noEngine(tried)
}

// try asks one place.
func (e environment) try(ctx context.Context, place endpoint) (*moby, error) {
	if path, ok := strings.CutPrefix(place.Host, "unix://"); ok {
		// Said here more plainly than by the client library.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("there is no such socket")
		}
	}
	m, err := openMoby(place)
	if err != nil {
		return nil, err
	}
	if err := m.ping(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// noEngine says what was tried and what to do. A single place that failed for
// a reason of its own keeps its kind.
func noEngine(tried []error) error {
	var b strings.Builder
	for _, err := range tried {
		b.WriteString("\n  " + strings.Replace(err.Error(), execution.ErrUnavailable.Error()+": ", "", 1))
	}
	advice := "start the engine, or say where it is with DOCKER_HOST; " +
		"to get one: `apt-get install docker.io` on Debian and Ubuntu, https://docs.docker.com/engine/install/ elsewhere"
	for _, err := range tried {
		if errors.Is(err, errTooOld) {
			return fmt.Errorf("%w: no usable container engine. Tried:%s", execution.ErrUnavailable, b.String())
		}
		if errors.Is(err, execution.ErrPermission) {
			advice = "you may not use that socket: add yourself to its group (`usermod -aG docker $USER`, then log in again), " +
				"or run a rootless engine"
		}
	}
	return fmt.Errorf("%w: no container engine answers. Tried:%s\n%s", execution.ErrUnavailable, b.String(), advice)
}

// errTooOld says that an engine answers but does not speak a late enough API.
var errTooOld = errors.New("engine too old")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
