//go:build !linux

package wire

import (
	"errors"
	"syscall"
)

// relayCache is of use on Linux only, where guests run.
type relayCache struct{}

func (*relayCache) close() {}
func (*relayCache) trim()  {}

var errNoSplice = errors.New("cannot be spliced")

func (*Sender) splice(syscall.Conn, int64) (int64, error) { return 0, errNoSplice }

// spliced is never used: nothing is spliced.
type spliced struct{}

func (*spliced) discard(int) error { return nil }
func (*spliced) read([]byte) error { return nil }
func (*spliced) close()            {}
