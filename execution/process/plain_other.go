//go:build unix && !(linux && (amd64 || arm64))

package process

func newLauncher(int, bool) (launcher, error) { return plainLauncher{}, nil }
