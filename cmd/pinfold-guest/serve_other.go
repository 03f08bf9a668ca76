//go:build !linux

package main

import (
	"fmt"
	"os"
)

func serve() int {
	fmt.Fprintln(os.Stderr, "pinfold-guest: runs on Linux only")
	return 2
}

func dial(string) int { return serve() }
