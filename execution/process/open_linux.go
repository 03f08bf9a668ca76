package process

import "golang.org/x/sys/unix"

// openDirFlags open a directory to name files in it, which needs no right to
// list it.
const openDirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
