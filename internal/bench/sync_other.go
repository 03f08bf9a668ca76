//go:build !unix

package main

// syncDisks does nothing where there is no call for it.
func syncDisks() {}
