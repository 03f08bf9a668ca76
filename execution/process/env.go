package process

import (
	"slices"
	"strings"
)

// lookupEnv finds a variable; of two with the same name the later one counts.
func lookupEnv(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if v, found := strings.CutPrefix(entry, name); found && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}
