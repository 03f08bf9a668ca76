package docker

import (
	"strconv"
	"strings"
)

// An advisory is a known fault of an engine's part that lets code out of its
// container, or comes near it.
type advisory struct {
	component string // as in engineInfo.Components, or "docker"
	// fixed are the versions that mend it, one for each series that was
	// mended, in order; a version counts as mended when it is at or above that
	// of its series, or of a later series than all of them.
	fixed  []string
	names  []string
	effect string
}

// advisories come from the projects' own security pages. Faults that pinfold
// keeps out of reach whatever the version are left out: the engine's file copy
// on running containers (CVE-2026-41567, CVE-2026-42306) is never used, and
// AF_ALG (CVE-2026-31431) is filtered.
func advisories() []advisory {
	return []advisory{
		{
			component: "runc", fixed: []string{"1.1.12"},
			names:  []string{"CVE-2024-21626"},
			effect: "a leaked file descriptor reaches the host's files; pinfold refuses the working directories that use it",
		},
		{
			component: "runc", fixed: []string{"1.2.8", "1.3.3"},
			names:  []string{"CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"},
			effect: "races while a container's masked paths and console are mounted write to the host's /proc; images are the way in",
		},
		{
			component: "runc", fixed: []string{"1.0.0"},
			names:  []string{"CVE-2019-5736", "CVE-2021-30465"},
			effect: "the host's runc can be overwritten, or a mount led astray, from inside",
		},
		{
			component: "containerd", fixed: []string{"1.6.18", "1.7.0"},
			names:  []string{"CVE-2023-25173"},
			effect: "supplementary groups are set up wrongly, which lets a user inside bypass group restrictions",
		},
		{
			component: "containerd", fixed: []string{"1.7.29", "2.0.7", "2.1.5", "2.2.0"},
			names:  []string{"CVE-2024-25621", "CVE-2025-64329"},
			effect: "folders of containerd are open to local users; attaching leaks memory",
		},
		{
			component: "docker", fixed: []string{"23.0.11", "24.0.9", "25.0.2"},
			names:  []string{"CVE-2024-24557"},
			effect: "the classic builder takes a poisoned cache for its own",
		},
	}
}

// A vulnerability is an advisory that holds for an engine.
type vulnerability struct {
	advisory
	has string
}

// fixedIn names the versions that mend it.
func (a advisory) fixedIn() string { return strings.Join(a.fixed, " or ") }

// vulnerabilities are the advisories that hold by what the engine tells of its
// versions. One that tells nothing of a part has none there.
func vulnerabilities(i engineInfo) []vulnerability {
	var found []vulnerability
	for _, a := range advisories() {
		has := i.Components[a.component]
		if a.component == "docker" && !i.Podman {
			has = i.Version
		}
		if version, ok := parseVersion(has); ok && !a.mended(version) {
			found = append(found, vulnerability{a, has})
		}
	}
	return found
}

func (a advisory) mended(has version) bool {
	for i, text := range a.fixed {
		fixed, _ := parseVersion(text)
		sameSeries := has[0] == fixed[0] && has[1] == fixed[1]
		last := i == len(a.fixed)-1
		if (sameSeries || last) && !has.less(fixed) {
			return true
		}
	}
	return false
}

type version [3]int

// parseVersion reads the numbers at the start of "v1.1.5+ds1-1+deb12u1". A
// release candidate counts as its release.
func parseVersion(text string) (version, bool) {
	var v version
	text = strings.TrimPrefix(text, "v")
	end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		text = text[:end]
	}
	parts := strings.SplitN(strings.Trim(text, "."), ".", 4)
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, false
		}
		if i < len(v) {
			v[i] = n
		}
	}
	return v, true
}

func (v version) less(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}
