package process

import "strings"

// lookupEnv finds a variable; of two with the same name the later one counts.
func lookupEnv(env []string, name string) (value string, ok bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, found := strings.CutPrefix(env[i], name); found && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}

// mergeEnv joins environments. Of entries with the same name only the last one
// stays, at its place: what a program does with two is its own affair, and no
// two programs do the same.
func mergeEnv(envs ...[]string) []string {
	total := 0
	for _, env := range envs {
		total += len(env)
	}
	merged := make([]string, 0, total)
	index := make(map[string]int, total)
	for _, env := range envs {
		for _, entry := range env {
			name, _, _ := strings.Cut(entry, "=")
			if i, ok := index[name]; ok {
				merged[i] = entry
				continue
			}
			index[name] = len(merged)
			merged = append(merged, entry)
		}
	}
	return merged
}
