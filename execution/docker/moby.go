package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/pinfold-dev/pinfold/execution"
)

// The longest that each kind of call may take. They are for an engine that
// hangs, not for one that is slow: a loaded engine takes seconds to make a
// container.
const (
	pingLimit    = 5 * time.Second
	infoLimit    = 20 * time.Second
	inspectLimit = 20 * time.Second
	createLimit  = 60 * time.Second
	startLimit   = 60 * time.Second
	attachLimit  = 20 * time.Second
	removeLimit  = 60 * time.Second
	archiveLimit = 2 * time.Minute
	commitLimit  = 5 * time.Minute
)

// minAPI is the oldest API that has what is needed here (Docker 19.03).
const minAPI = "1.40"

// moby is an engine behind the Docker Engine API. It and its neighbours
// moby_*.go are the only code that knows the client library.
type moby struct {
	cli    *client.Client
	place  endpoint
	proto  string
	addr   string
	tls    *tls.Config // nil for none
	podman atomic.Bool // known once info was asked
	dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// openMoby prepares a client; nothing is asked yet.
func openMoby(place endpoint) (*moby, error) {
	hostURL, err := client.ParseHostURL(place.Host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", execution.ErrInvalid, err)
	}
	// Not http.DefaultTransport's: fifty sandboxes at once are not to dial
	// anew for each call, and nothing is to be proxied.
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	if place.TLS != nil {
		transport.TLSClientConfig, err = tlsconfig.Client(place.TLS.options())
		if err != nil {
			return nil, fmt.Errorf("%w: TLS: %w", execution.ErrInvalid, err)
		}
	}
	m := &moby{place: place, proto: hostURL.Scheme, addr: hostURL.Host, tls: transport.TLSClientConfig}
	m.cli, err = client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(place.Host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", execution.ErrInvalid, err)
	}
	m.dialer = transport.DialContext
	if m.dialer == nil {
		m.dialer = (&net.Dialer{Timeout: attachLimit, KeepAlive: 30 * time.Second}).DialContext
		transport.DialContext = m.dialer
	}
	return m, nil
}

func (m *moby) where() string      { return m.place.Host }
func (m *moby) local() bool        { return m.proto == "unix" || m.proto == "npipe" }
func (m *moby) apiVersion() string { return m.cli.ClientVersion() }
func (m *moby) close() error       { return m.cli.Close() }

// ping asks whether an engine answers and agrees on the version of the API.
func (m *moby) ping(ctx context.Context) error {
	pong, err := call(ctx, "ping", pingLimit, m.cli.Ping)
	if err != nil {
		return err
	}
	if pong.APIVersion == "" {
		return fmt.Errorf("%w: what answers there does not tell its API version; is it a container engine?", execution.ErrUnavailable)
	}
	if versions.LessThan(pong.APIVersion, minAPI) {
		return fmt.Errorf("%w: %w: it speaks API %s, and pinfold needs %s or later (Docker 19.03); upgrade it",
			execution.ErrUnavailable, errTooOld, pong.APIVersion, minAPI)
	}
	m.cli.NegotiateAPIVersionPing(pong)
	return nil
}

// call runs one engine call within its limit and makes its error one of ours.
func call[T any](ctx context.Context, name string, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := f(bounded)
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil:
		return v, fmt.Errorf("engine's %s: %w", name, context.Cause(ctx))
	case bounded.Err() != nil:
		return v, fmt.Errorf("%w: %s took longer than %v; is the engine stuck?", execution.ErrTimeout, name, limit)
	}
	return v, mapError(name, err)
}

// do is call for calls without an answer.
func do(ctx context.Context, name string, limit time.Duration, f func(context.Context) error) error {
	_, err := call(ctx, name, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

func (m *moby) info(ctx context.Context) (engineInfo, error) {
	info, err := call(ctx, "info", infoLimit, m.cli.Info)
	if err != nil {
		return engineInfo{}, err
	}
	version, err := call(ctx, "version", infoLimit, m.cli.ServerVersion)
	if err != nil {
		return engineInfo{}, err
	}
	told := newInfo(info, version)
	m.podman.Store(told.Podman)
	return told, nil
}

func (m *moby) create(ctx context.Context, req createRequest) (string, error) {
	if m.podman.Load() {
		var err error
		if req, err = m.forPodman(req); err != nil {
			return "", err
		}
	}
	config, host, platform := req.translate(m.apiVersion())
	made, err := call(ctx, "create container", createLimit, func(ctx context.Context) (container.CreateResponse, error) {
		return m.cli.ContainerCreate(ctx, config, host, nil, platform, req.Name)
	})
	return made.ID, err
}

func (m *moby) start(ctx context.Context, id string) error {
	return do(ctx, "start container", startLimit, func(ctx context.Context) error {
		return m.cli.ContainerStart(ctx, id, container.StartOptions{})
	})
}

func (m *moby) inspect(ctx context.Context, id string) (containerState, error) {
	got, err := call(ctx, "inspect container", inspectLimit, func(ctx context.Context) (container.InspectResponse, error) {
		return m.cli.ContainerInspect(ctx, id)
	})
	if err != nil {
		return containerState{}, err
	}
	return newState(got), nil
}

func (m *moby) list(ctx context.Context, labels ...string) ([]containerSummary, error) {
	got, err := call(ctx, "list containers", inspectLimit, func(ctx context.Context) ([]container.Summary, error) {
		return m.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: labelFilter(labels)})
	})
	summaries := make([]containerSummary, 0, len(got))
	for _, c := range got {
		if (c.State == container.StateRemoving || c.State == container.StateDead) && !m.exists(ctx, c.ID) {
			continue // Docker 20.10 goes on listing some that it has removed.
		}
		s := containerSummary{
			ID: c.ID, Image: c.Image, State: c.State, Status: c.Status,
			Created: time.Unix(c.Created, 0), Command: c.Command, Labels: c.Labels,
		}
		for _, name := range c.Names {
			s.Names = append(s.Names, strings.TrimPrefix(name, "/"))
		}
		summaries = append(summaries, s)
	}
	return summaries, err
}

// exists reports whether a container is there, as far as can be told.
func (m *moby) exists(ctx context.Context, id string) bool {
	_, err := m.inspect(ctx, id)
	return !errors.Is(err, execution.ErrNotFound)
}

func (m *moby) remove(ctx context.Context, id string) error {
	err := do(ctx, "remove container", removeLimit, func(ctx context.Context) error {
		return m.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	})
	return markRemoving(err)
}

func (m *moby) waitRemoved(ctx context.Context, id string) error {
	// The client's own goroutine behind the two channels ends with this ctx.
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone, failed := m.cli.ContainerWait(waitCtx, id, container.WaitConditionRemoved)
	select {
	case <-gone:
		return nil
	case err := <-failed:
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the container's removal: %w", context.Cause(ctx))
		}
		return mapError("wait for removal", err)
	}
}

func (m *moby) putArchive(ctx context.Context, id string, tar io.Reader) error {
	return do(ctx, "copy into container", archiveLimit, func(ctx context.Context) error {
		return m.cli.CopyToContainer(ctx, id, "/", tar, container.CopyToContainerOptions{CopyUIDGID: false})
	})
}

func (m *moby) commit(ctx context.Context, id string, req commitRequest) (string, error) {
	made, err := call(ctx, "commit image", commitLimit, func(ctx context.Context) (container.CommitResponse, error) {
		return m.cli.ContainerCommit(ctx, id, container.CommitOptions{
			Reference: req.Reference, Comment: req.Comment, Changes: req.Changes,
			Config: &container.Config{}, // Podman wants a body.
		})
	})
	return made.ID, err
}

func (m *moby) imageIDs(ctx context.Context, dangling bool, labels ...string) ([]string, error) {
	args := labelFilter(labels)
	if dangling {
		args.Add("dangling", "true")
	}
	got, err := call(ctx, "list images", inspectLimit, func(ctx context.Context) ([]image.Summary, error) {
		return m.cli.ImageList(ctx, image.ListOptions{Filters: args})
	})
	var ids []string
	for _, i := range got {
		ids = append(ids, i.ID)
	}
	return ids, err
}

func (m *moby) removeImage(ctx context.Context, id string) error {
	return do(ctx, "remove image", removeLimit, func(ctx context.Context) error {
		_, err := m.cli.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: false})
		return err
	})
}

func (m *moby) events(ctx context.Context, since time.Time, labels []string, ready func(), sink func(engineEvent)) error {
	args := labelFilter(labels)
	args.Add("type", string(events.ContainerEventType))
	opts := events.ListOptions{Filters: args}
	if !since.IsZero() {
		opts.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, failed := m.cli.Events(ctx, opts)
	// From here on the engine answers, or failed has its reason already.
	ready()
	for {
		select {
		case msg := <-messages:
			sink(newEvent(msg))
		case err := <-failed:
			if ctx.Err() != nil {
				return fmt.Errorf("events: %w", context.Cause(ctx))
			}
			return mapError("events", err)
		}
	}
}

func labelFilter(labels []string) filters.Args {
	args := filters.NewArgs()
	for _, label := range labels {
		args.Add("label", label)
	}
	return args
}

// options are go-connections' for these files; what is missing is left out, as
// the docker command does.
func (t *tlsFiles) options() tlsconfig.Options {
	file := func(name string) string {
		path := filepath.Join(t.Dir, name)
		if !exists(path) {
			return ""
		}
		return path
	}
	return tlsconfig.Options{
		CAFile: file("ca.pem"), CertFile: file("cert.pem"), KeyFile: file("key.pem"),
		InsecureSkipVerify: t.SkipVerify,
	}
}

// unreachable reports whether err means that no engine is there (any more).
func unreachable(err error) bool {
	var network *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
