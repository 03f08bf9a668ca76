// Package guestbin holds the guest's binary for each architecture.
package guestbin

import "errors"

// A Guest is one built guest.
type Guest struct {
	Data   []byte // the static ELF executable
	Digest string // sha256 of Data in hex
}

// Binary returns the guest for a GOARCH, "amd64" or "arm64". It matches
// [errors.ErrUnsupported] for others, and ErrNotBuilt where the build left it
// out.
func Binary(goarch string) (Guest, error) { return Guest{}, ErrNotBuilt }

// ErrNotBuilt says that this program was built without the guests, and what to
// run.
var ErrNotBuilt = errors.New("this build carries no guest: run `make guest` in the pinfold checkout and build again")
