//go:build !linux

package tasks

import (
	"os"
	"runtime"
)

// A file is a store in a temporary file without a name. It grows to the most
// that was ever kept, and goes with the handle.
type file struct{ *os.File }

// openFile takes memory on Windows, where an open file cannot lose its name.
func openFile(size int64) (store, error) {
	if runtime.GOOS == "windows" {
		return openMemory(size)
	}
	f, err := tempFile()
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (file) Discard(int64, int64) error { return nil }
