package docker

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/pinfold-dev/pinfold/execution"
)

// attach opens the stream to a container's first process. The client library's
// own attach does not keep to its context while it waits for the answer, and
// tells a refusal's status only in its text; hence this.
func (m *moby) attach(ctx context.Context, id string) (*rawStream, error) {
	return call(ctx, "attach", attachLimit, func(ctx context.Context) (*rawStream, error) {
		conn, err := m.dial(ctx)
		if err != nil {
			return nil, err
		}
		// A deadline in the past makes what is pending return.
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		stream, err := upgrade(ctx, conn, "/v"+m.apiVersion()+"/containers/"+id+
			"/attach?stream=1&stdin=1&stdout=1&stderr=1", "")
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return stream, nil
	})
}

func (m *moby) exec(ctx context.Context, id, user string, args []string) (*rawStream, error) {
	made, err := call(ctx, "create exec", attachLimit, func(ctx context.Context) (container.ExecCreateResponse, error) {
		return m.cli.ContainerExecCreate(ctx, id, container.ExecOptions{
			User: user, Cmd: args, WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		})
	})
	if err != nil {
		return nil, err
	}
	return call(ctx, "start exec", attachLimit, func(ctx context.Context) (*rawStream, error) {
		conn, err := m.dial(ctx)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		stream, err := upgrade(ctx, conn, "/v"+m.apiVersion()+"/exec/"+made.ID+"/start", `{"Detach":false,"Tty":false}`)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return stream, nil
	})
}

// dial connects to the engine anew.
func (m *moby) dial(ctx context.Context) (net.Conn, error) {
	conn, err := m.dialer(ctx, m.proto, m.addr)
	if err != nil || m.tls == nil {
		return conn, err
	}
	config := m.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(m.addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// upgrade asks for a raw stream and returns it once the engine has agreed.
func upgrade(ctx context.Context, conn net.Conn, path, body string) (*rawStream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	early, err := reader.Peek(reader.Buffered())
	return &rawStream{conn: conn, buffered: append([]byte(nil), early...)}, err
}

// refusal reads why the engine did not agree.
func refusal(resp *http.Response) error {
	const limit = 16 << 10
	var reply struct{ Message string }
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if json.Unmarshal(body, &reply) != nil || reply.Message == "" {
		reply.Message = resp.Status
	}
	kind := execution.ErrUnavailable
	switch resp.StatusCode {
	case http.StatusNotFound:
		kind = execution.ErrNotFound
	case http.StatusConflict:
		kind = execution.ErrConflict
	case http.StatusBadRequest:
		kind = execution.ErrInvalid
	}
	return fmt.Errorf("%w: %s", kind, reply.Message)
}

func (m *moby) getFile(ctx context.Context, id, path string, limit int64) ([]byte, error) {
	return call(ctx, "copy from container", archiveLimit, func(ctx context.Context) ([]byte, error) {
		body, _, err := m.cli.CopyFromContainer(ctx, id, path)
		if err != nil {
			return nil, err
		}
		data, err := firstFile(body, limit)
		return data, errors.Join(err, body.Close())
	})
}

// firstFile is the content of the one file in an archive; none when it is no
// regular file.
func firstFile(archive io.Reader, limit int64) ([]byte, error) {
	reader := tar.NewReader(archive)
	header, err := reader.Next()
	if errors.Is(err, io.EOF) || (err == nil && header.Typeflag != tar.TypeReg) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if header.Size > limit {
		return nil, fmt.Errorf("%w: larger than %d bytes", execution.ErrInvalid, limit)
	}
	return io.ReadAll(reader)
}
