//go:build !race

package executiontest

// underRace is whether the race detector watches.
const underRace = false
