package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func hostEnv(name string) (string, bool) {
	value, ok := map[string]string{"HOME": "/home/me", "EMPTY": ""}[name]
	return value, ok
}

// The format is docker's: values as they stand, names alone from the host,
// files before flags.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "env")
	content := "\ufeff# comment\n\nA=1\n  B=two words \nC=\"quoted\"\nD=a=b # no comment\nHOME\nMISSING\nE=\r\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := environment([]string{file}, []string{"A=2", "EMPTY", "GONE", "X="}, hostEnv)
	want := []string{"A=1", "B=two words ", `C="quoted"`, "D=a=b # no comment", "HOME=/home/me", "E=", "A=2", "EMPTY=", "X="}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("environment = %q, %v; want %q", got, err, want)
	}
}

// Mistakes name the place, and never show what may be a secret.
func TestEnvironmentMistakes(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"A=1\n=secret\n":                       "line 2",
		"MY KEY=secret\n":                      "white space",
		"A=\xffsecret\n":                       "not UTF-8",
		"A=" + strings.Repeat("x", maxEnvLine): "too long",
	} {
		file := filepath.Join(t.TempDir(), "env")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := environment([]string{file}, nil, hostEnv)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: error is %v", content, err)
		}
	}
	if _, err := environment(nil, []string{"=secret"}, hostEnv); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("--env =secret: error is %v", err)
	}
	if _, err := environment([]string{"/does/not/exist"}, nil, hostEnv); err == nil {
		t.Error("a missing file is accepted")
	}
}
