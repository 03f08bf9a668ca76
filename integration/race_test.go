//go:build race

package integration

// raceEnabled is whether the command under test is built with the race
// detector, as this program is.
const raceEnabled = true
