//go:build unix

package docker

import (
	"os"
	"syscall"

	"github.com/pinfold-dev/pinfold/execution"
)

// ownerOf looks at a file or folder of this host.
func ownerOf(name string) (owner, error) {
	info, err := os.Stat(name)
	if err != nil {
		return owner{}, execution.ErrNotFound
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, nil
	}
	const writeOthers = 0o002
	return owner{
		identity:    identity{UID: int(stat.Uid), GID: int(stat.Gid)},
		othersWrite: info.Mode().Perm()&writeOthers != 0, known: true,
	}, nil
}
