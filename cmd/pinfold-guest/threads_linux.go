package main

import (
	"runtime"
	"sync"
)

// mostSpare is how many threads the guest has in reserve where the limit on
// processes is the usual one or higher: as many operations can be blocked in the
// kernel at once. Each takes some 15 KiB.
const mostSpare = 40

// spareThreads is how many threads the guest is to have in reserve under a limit
// on processes, which counts threads.
func spareThreads(limit int64) int {
	if limit < 0 {
		return mostSpare
	}
	return int(min(limit/8, mostSpare))
}

// reserveThreads makes n threads that wait for work. A thread that is in a system
// call for long is replaced by another; Go's runtime ends the program when it
// cannot have one, and a command can take all processes that there may be.
// Threads that are there stay.
func reserveThreads(n int) {
	var made, done sync.WaitGroup
	release := make(chan struct{})
	made.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread() // so that each has a thread of its own
			made.Done()
			<-release
			runtime.UnlockOSThread()
		})
	}
	made.Wait()
	close(release)
	done.Wait()
}
