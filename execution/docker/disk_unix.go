//go:build linux || darwin

package docker

import "golang.org/x/sys/unix"

// freeSpace is how many bytes an ordinary user can still write at a path.
func freeSpace(path string) (int64, bool) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bavail) * int64(stat.Bsize), true //nolint:unconvert,gosec // The types differ between systems; no disk is that large.
}
