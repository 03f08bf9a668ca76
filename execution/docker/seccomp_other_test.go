//go:build !linux

package docker

import (
	"encoding/json"
	"testing"
)

func mobyProfile(t *testing.T) profileJSON {
	t.Helper()
	var profile profileJSON
	if err := json.Unmarshal([]byte(seccompProfile), &profile); err != nil {
		t.Fatal(err)
	}
	t.Skip("the module has its default as code for Linux only")
	return profile
}
