package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestEnginesWordingsAreKinds(t *testing.T) {
	for text, want := range map[string]struct {
		kind error // nil: none of ours
		says string
	}{
		// 19.03 and before, then 20.10 and later, then Podman.
		"Unknown runtime specified nonsense":                             {execution.ErrUnsupported, "no such runtime"},
		"unknown or invalid runtime name: x":                             {execution.ErrUnsupported, "no such runtime"},
		`default OCI runtime "x" not found`:                              {execution.ErrUnsupported, "no such runtime"},
		"--storage-opt is supported only for xfs":                        {execution.ErrUnsupported, "storage limit"},
		"unable to find user nobody: no matching entries in passwd file": {execution.ErrUserNotFound, "user"},
		"write /x: no space left on device":                              {execution.ErrNoSpace, "disk"},
		"exec /x: exec format error":                                     {execution.ErrImage, "architecture"},

		// Every failure of a runtime speaks of it, and ends in a code.
		"failed to create shim task: OCI runtime create failed: creating container: cannot create sandbox: EOF: unknown": {
			nil, "OCI runtime create failed",
		},
	} {
		err := mapError("start", errors.New(text))
		if want.kind != nil && !errors.Is(err, want.kind) || want.kind == nil && isOurs(err) {
			t.Errorf("%q became %q, want the kind %v", text, err, want.kind)
		}
		if !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q became %q, which does not say %q and the engine's words", text, err, want.says)
		}
	}
}
