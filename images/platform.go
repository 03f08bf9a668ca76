package images

import (
	"fmt"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
)

// platform is "os/arch" or "os/arch/variant" taken apart, in Go's names.
type platform struct {
	os, arch, variant string
}

func parsePlatform(text string) (platform, error) {
	parts := strings.Split(text, "/")
	for _, part := range parts {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			parts = nil
		}
	}
	if len(parts) < 2 || len(parts) > 3 {
		return platform{}, fmt.Errorf("%w: platform %q: want os/arch or os/arch/variant, such as linux/arm64",
			execution.ErrInvalid, text)
	}
	p := platform{os: strings.ToLower(parts[0]), arch: strings.ToLower(parts[1])}
	if len(parts) == 3 {
		p.variant = strings.ToLower(parts[2])
	}
	return p.normal(), nil
}

// normal replaces the other names of a platform: engines and users write
// "x86_64", "aarch64" or "arm64/v8".
func (p platform) normal() platform {
	switch p.arch {
	case "x86_64", "x86-64":
		p.arch = "amd64"
	case "aarch64":
		p.arch = "arm64"
	case "armhf":
		p.arch = "arm"
	case "i386", "i686":
		p.arch = "386"
	}
	if p.arch == "arm64" && p.variant == "v8" || p.arch == "amd64" && p.variant == "v1" {
		p.variant = ""
	}
	return p
}

// matches reports whether an image for q runs where p is wanted. A variant
// that one side leaves out is no difference.
func (p platform) matches(q platform) bool {
	return p.os == q.os && p.arch == q.arch &&
		(p.variant == q.variant || p.variant == "" || q.variant == "")
}

// debianArch is Debian's name for the architecture.
func (p platform) debianArch() string {
	switch p.arch {
	case "386":
		return "i386"
	case "arm":
		return "armhf"
	case "ppc64le":
		return "ppc64el"
	}
	return p.arch
}

// checkPlatform reports that image is for another platform than the wanted
// one; "" wants any.
func checkPlatform(image Image, wanted string) error {
	if wanted == "" {
		return nil
	}
	want, err := parsePlatform(wanted)
	if err != nil {
		return err
	}
	have := platform{image.OS, image.Architecture, image.Variant}.normal()
	if !want.matches(have) {
		return &unavailableError{
			text: fmt.Sprintf("it is for %s, and %s is wanted", image.Platform(), wanted),
			errs: []error{execution.ErrImage},
		}
	}
	return nil
}
