//go:build unix && !linux

package process

import "golang.org/x/sys/unix"

// openDirFlags open a directory to name files in it.
const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
