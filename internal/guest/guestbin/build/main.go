// Build compiles the guest for each architecture and puts it, compressed, into
// package guestbin. It is run there by `go generate`. Files that would not
// change are not touched.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"

	"github.com/pinfold-dev/pinfold/internal/guest/guestbin"
	"github.com/pinfold-dev/pinfold/internal/guest/guestbin/compile"
)

func main() {
	for _, goarch := range guestbin.Architectures() {
		if err := build(context.Background(), goarch); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func build(ctx context.Context, goarch string) error {
	data, err := compile.Guest(ctx, goarch)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	name := "pinfold-guest_linux_" + goarch + ".gz"
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, packed.Bytes()) {
		return nil
	}
	// Whole or not at all: somebody may be building against it.
	if err := os.WriteFile("new-"+name, packed.Bytes(), 0o644); err != nil { //nolint:gosec // it is no secret
		return err
	}
	if err := os.Rename("new-"+name, name); err != nil {
		return err
	}
	fmt.Printf("%s: %d KiB, %d KiB packed\n", name, len(data)>>10, packed.Len()>>10)
	return nil
}
