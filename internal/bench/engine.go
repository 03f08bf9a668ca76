package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// This file is the engine's API used plainly.

// startTwin creates and starts a container with our options.
func (b *bed) startTwin(ctx context.Context) (string, error) {
	created, err := b.engine.ContainerCreate(ctx, b.config, b.hostConfig, nil, nil, "")
	if err != nil {
		return "", err
	}
	return created.ID, b.engine.ContainerStart(ctx, created.ID, container.StartOptions{})
}

func (b *bed) removeTwin(ctx context.Context, id string) error {
	return b.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// engineExec runs a command in the twin: create, attach, read to the end,
// inspect.
func (b *bed) engineExec(ctx context.Context, stdout io.Writer, args ...string) error {
	created, err := b.engine.ContainerExecCreate(ctx, b.twin,
		container.ExecOptions{Cmd: args, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	stream, err := b.engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer stream.Close()
	// Of 200 streams at once, one may never end.
	defer context.AfterFunc(ctx, stream.Close)()
	if _, err := stdcopy.StdCopy(stdout, io.Discard, stream.Reader); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	info, err := b.engine.ContainerExecInspect(ctx, created.ID)
	if err != nil {
		return err
	}
	if info.Running || info.ExitCode != 0 {
		return fmt.Errorf("%q: running %v, exit code %d", args, info.Running, info.ExitCode)
	}
	return nil
}

// engineWrite copies size zero bytes to a file of the twin.
func (b *bed) engineWrite(ctx context.Context, file string, size int64) error {
	pr, pw := io.Pipe()
	var packing sync.WaitGroup
	packing.Go(func() {
		archive := tar.NewWriter(pw)
		err := archive.WriteHeader(&tar.Header{Name: path.Base(file), Mode: 0o644, Size: size, Uid: 1000, Gid: 1000})
		if err == nil {
			_, err = io.Copy(archive, zeros(size))
		}
		pw.CloseWithError(errors.Join(err, archive.Close()))
	})
	err := b.engine.CopyToContainer(ctx, b.twin, path.Dir(file), pr, container.CopyToContainerOptions{})
	// It ends the packing where the engine stopped reading.
	_ = pr.CloseWithError(context.Canceled)
	packing.Wait()
	return err
}

// engineRead copies a file of the twin out and drops it.
func (b *bed) engineRead(ctx context.Context, file string, size int64) error {
	content, _, err := b.engine.CopyFromContainer(ctx, b.twin, file)
	if err != nil {
		return err
	}
	archive := tar.NewReader(content)
	if _, err = archive.Next(); err == nil {
		err = expect(size)(io.Copy(io.Discard, archive)) //nolint:gosec // It is dropped.
	}
	return errors.Join(err, content.Close())
}

// killAndWait is the engine's nearest thing to killing a command: it has no
// call for that, so the whole container is killed.
func (b *bed) killAndWait(ctx context.Context, id string) error {
	ended, failed := b.engine.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := b.engine.ContainerKill(ctx, id, "KILL"); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return err
	}
}

// zeros yields size zero bytes.
func zeros(size int64) io.Reader { return io.LimitReader(zeroReader{}, size) }

// writeZeros makes a file of that many zero bytes.
func writeZeros(file string, size int64) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, zeros(size))
	return errors.Join(err, f.Close())
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// expect checks the count that a copy returns.
func expect(size int64) func(int64, error) error {
	return func(n int64, err error) error {
		if err == nil && n != size {
			err = fmt.Errorf("got %d bytes, want %d", n, size)
		}
		return err
	}
}

// A counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
