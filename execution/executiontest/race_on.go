//go:build race

package executiontest

// underRace is whether the race detector watches, which makes moving bytes
// some twenty times slower.
const underRace = true
