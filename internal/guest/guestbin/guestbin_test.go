package guestbin_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/pinfold-dev/pinfold/internal/guest/guestbin"
)

func TestBinaryIsStaticForItsArchitecture(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, goarch := range guestbin.Architectures() {
		g, err := guestbin.Binary(goarch)
		if errors.Is(err, guestbin.ErrNotBuilt) {
			t.Skip("run `make guest` to check what it built")
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(g.Data))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machines[goarch] {
			t.Errorf("%s: built for %v", goarch, f.Machine)
		}
		if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
			t.Errorf("%s: not static: needs %v, %v", goarch, libs, err)
		}
		if sum := sha256.Sum256(g.Data); g.Digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: digest %s is another's", goarch, g.Digest)
		}
	}
}

func TestUnknownArchitectureIsUnsupported(t *testing.T) {
	if _, err := guestbin.Binary("riscv64"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error is %v", err)
	}
}
