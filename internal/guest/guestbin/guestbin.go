// Package guestbin holds the guest's binary for each architecture.
//
// `make guest` builds them, compressed, next to this file; they are not in
// version control. Released modules carry them.
package guestbin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

//go:generate go run ./build

// The pattern also matches a text that is always there, since one that matches
// nothing does not compile.
//
//go:embed pinfold-guest*
var files embed.FS

// A Guest is one built guest.
type Guest struct {
	Data   []byte // the static ELF executable
	Digest string // sha256 of Data in hex
}

// ErrNotBuilt says that this program was built without the guests, and what to
// run.
var ErrNotBuilt = errors.New("this program was built without the guest; " +
	"in a checkout of pinfold run `make guest` (or `go generate ./internal/guest/guestbin`) and build again")

// Architectures are those that there are guests for, by their GOARCH.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Binary returns the guest for a GOARCH. It fails with an error that matches
// [errors.ErrUnsupported] for an architecture that has none, and with
// ErrNotBuilt where the build left it out. It unpacks anew each time: keep
// what it returns.
func Binary(goarch string) (Guest, error) {
	if !slices.Contains(Architectures(), goarch) {
		return Guest{}, fmt.Errorf("%w: there is no guest for architecture %q, only for %v",
			errors.ErrUnsupported, goarch, Architectures())
	}
	packed, err := files.ReadFile("pinfold-guest_linux_" + goarch + ".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return Guest{}, ErrNotBuilt
	}
	if err != nil {
		return Guest{}, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Guest{}, fmt.Errorf("guest for %s: %w", goarch, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return Guest{}, fmt.Errorf("guest for %s: %w", goarch, err)
	}
	sum := sha256.Sum256(data)
	return Guest{Data: data, Digest: hex.EncodeToString(sum[:])}, nil
}
