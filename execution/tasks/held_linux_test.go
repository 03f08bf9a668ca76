package tasks

import (
	"syscall"
	"testing"
)

// heldBytes is what the spool's file really takes.
func heldBytes(t *testing.T, s *spool) int64 {
	t.Helper()
	info, err := s.store.(file).Stat()
	if err != nil {
		t.Fatal(err)
	}
	const unit = 512
	return info.Sys().(*syscall.Stat_t).Blocks * unit
}
