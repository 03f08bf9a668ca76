// Package compile builds the guest from its source.
package compile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the package that the guest is built from.
const source = "github.com/pinfold-dev/pinfold/cmd/pinfold-guest"

// Guest builds the guest for Linux on an architecture with the go command,
// which must be run inside of the module. The same source and toolchain give
// the same bytes.
func Guest(ctx context.Context, goarch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pinfold-guest-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory; nothing hangs on it
	out := filepath.Join(dir, "guest")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid=", "-o", out, source)
	cmd.Env = environment(goarch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the guest for %s: %w\n%s", goarch, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return os.ReadFile(out)
}

// environment is ours without what would change the result.
func environment(goarch string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED", "GOCOVERDIR":
		default:
			env = append(env, entry)
		}
	}
	return append(env, "GOOS=linux", "GOARCH="+goarch, "CGO_ENABLED=0")
}
