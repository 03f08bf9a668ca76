package docker

import (
	"encoding/json"
	"testing"

	"github.com/moby/profiles/seccomp"
)

// mobyProfile is the default of the module that go.mod names. The module has it
// as Go code for Linux only, hence the golden file.
func mobyProfile(t *testing.T) profileJSON {
	t.Helper()
	data, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	var profile profileJSON
	if err := json.Unmarshal(data, &profile); err != nil {
		t.Fatal(err)
	}
	return profile
}
