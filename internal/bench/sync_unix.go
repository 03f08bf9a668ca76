//go:build unix

package main

import "golang.org/x/sys/unix"

// syncDisks waits until what was written so far is on the disks.
func syncDisks() { unix.Sync() }
