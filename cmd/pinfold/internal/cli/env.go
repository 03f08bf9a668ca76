package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxEnvLine bounds a line of an environment file, in bytes.
const maxEnvLine = 1 << 20

// environment builds a command's environment from --env-file and --env, the
// files first, as docker does. lookup finds a variable of the host, for
// entries that are a name only; one that the host does not have is left out.
func environment(files, entries []string, lookup func(string) (string, bool)) ([]string, error) {
	var env []string
	for _, file := range files {
		fromFile, err := readEnvFile(file, lookup)
		if err != nil {
			return nil, fmt.Errorf("--env-file: %w", err)
		}
		env = append(env, fromFile...)
	}
	for _, entry := range entries {
		name, _, hasValue := strings.Cut(entry, "=")
		if name == "" {
			return nil, fmt.Errorf("--env: an entry has no name before its value; want NAME=value or NAME")
		}
		env = appendEnv(env, name, entry, hasValue, lookup)
	}
	return env, nil
}

func appendEnv(env []string, name, entry string, hasValue bool, lookup func(string) (string, bool)) []string {
	if hasValue {
		return append(env, entry)
	}
	if value, ok := lookup(name); ok {
		return append(env, name+"="+value)
	}
	return env
}

// readEnvFile reads a file in docker's format: NAME=value lines whose value is
// taken as it stands, without quoting; NAME for the host's value; comments
// start with #. Errors name the line and never show a value.
func readEnvFile(path string, lookup func(string) (string, bool)) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	var env []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxEnvLine)
	for number := 1; lines.Scan(); number++ {
		raw := lines.Bytes()
		if number == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		}
		if !utf8.Valid(raw) {
			return nil, fmt.Errorf("%s: line %d: not UTF-8", path, number)
		}
		line := strings.TrimLeftFunc(string(raw), unicode.IsSpace)
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, hasValue := strings.Cut(line, "=")
		if name == "" {
			return nil, fmt.Errorf("%s: line %d: no name before the =", path, number)
		}
		if strings.ContainsFunc(name, unicode.IsSpace) {
			return nil, fmt.Errorf("%s: line %d: white space in the name; want NAME=value", path, number)
		}
		env = appendEnv(env, name, line, hasValue, lookup)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return env, nil
}
