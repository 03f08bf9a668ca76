//go:build unix

package process

import (
	"os"
	"syscall"
)

// owner is the user and group that a file belongs to.
func owner(info os.FileInfo) (uid, gid uint32) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid, stat.Gid
	}
	return 0, 0
}
