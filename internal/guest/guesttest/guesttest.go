// Package guesttest gives tests a guest, also in a checkout where nothing was
// built before.
package guesttest

import (
	"context"

	"github.com/pinfold-dev/pinfold/internal/guest/guestbin/compile"
)

// Binary builds the guest for a GOARCH from the checkout that the test is part
// of. The go command's cache makes it quick from the second time on. It has the
// signature of docker.Options.Guest.
func Binary(goarch string) ([]byte, error) {
	return compile.Guest(context.Background(), goarch)
}
