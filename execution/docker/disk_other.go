//go:build !linux && !darwin

package docker

// freeSpace is not known here: the engine's files are in a virtual machine.
func freeSpace(string) (int64, bool) { return 0, false }
