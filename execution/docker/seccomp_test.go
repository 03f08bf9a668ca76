package docker

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "rewrite seccomp.json and other golden files")

// The system call filter is the moby project's current default, with less:
//
//   - Only the socket families that programs for any network use (UNIX, INET,
//     INET6, NETLINK). AF_ALG has written to the page cache of the host
//     (CVE-2026-31431), AF_VSOCK reaches the hypervisor, and the rest load
//     kernel modules that nothing in a sandbox needs.
//   - socketcall, the 32-bit way round that rule, answers ENOSYS. Leaving it out
//     of the allowed ones is not enough: libseccomp allows it together with
//     socket, whatever the family.
//   - What the default allows to containers with further capabilities is left
//     out altogether, since none of our profiles has them.
func TestSeccompProfile(t *testing.T) {
	want, err := json.MarshalIndent(deriveSeccomp(t), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("seccomp.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(want) != seccompProfile && !*update {
		t.Error("seccomp.json is not what the module's default makes: run go test -run TestSeccompProfile -update and read the difference")
	}
}

func TestSeccompProfileAllowsNothingDangerous(t *testing.T) {
	var profile profileJSON
	if err := json.Unmarshal([]byte(seccompProfile), &profile); err != nil {
		t.Fatal(err)
	}
	if profile.DefaultAction != "SCMP_ACT_ERRNO" {
		t.Errorf("default action is %s", profile.DefaultAction)
	}
	for _, rule := range profile.Syscalls {
		if rule.Action != "SCMP_ACT_ALLOW" || len(rule.Args) > 0 {
			continue
		}
		for _, name := range []string{
			"io_uring_setup", "io_uring_enter", "io_uring_register", "socket", "socketcall", "bpf", "mount", "umount2",
			"unshare", "setns", "clone", "clone3", "keyctl", "add_key", "request_key", "userfaultfd", "perf_event_open",
			"open_by_handle_at", "init_module", "finit_module", "kexec_load", "pivot_root", "fsopen", "move_mount", "chroot",
			"syslog", "reboot", "swapon", "quotactl",
		} {
			if slices.Contains(rule.Names, name) {
				t.Errorf("%s is allowed", name)
			}
		}
	}
}

// profileJSON is the engine's format, as far as it is of interest here.
type profileJSON struct {
	DefaultAction   string          `json:"defaultAction"`
	DefaultErrnoRet *uint           `json:"defaultErrnoRet,omitempty"`
	ArchMap         json.RawMessage `json:"archMap"`
	Syscalls        []ruleJSON      `json:"syscalls"`
}

type ruleJSON struct {
	Names    []string        `json:"names"`
	Action   string          `json:"action"`
	ErrnoRet *uint           `json:"errnoRet,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	Includes *conditionJSON  `json:"includes,omitempty"`
	Excludes *conditionJSON  `json:"excludes,omitempty"`
}

type conditionJSON struct {
	Caps      []string `json:"caps,omitempty"`
	Arches    []string `json:"arches,omitempty"`
	MinKernel string   `json:"minKernel,omitempty"`
}

func deriveSeccomp(t *testing.T) profileJSON {
	t.Helper()
	profile := mobyProfile(t)
	var rules []ruleJSON
	for _, rule := range profile.Syscalls {
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			continue
		}
		if rule.Excludes != nil {
			rule.Excludes.Caps = nil
			if len(rule.Excludes.Arches) == 0 {
				rule.Excludes = nil
			}
		}
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return name == "socket" || name == "socketcall" })
		if len(rule.Names) > 0 {
			rules = append(rules, rule)
		}
	}
	nosys := uint(38)
	rules = append(rules, ruleJSON{Names: []string{"socketcall"}, Action: "SCMP_ACT_ERRNO", ErrnoRet: &nosys})
	for _, family := range []string{
		`[{"index":0,"value":3,"op":"SCMP_CMP_LT"}]`,  // UNIX and INET
		`[{"index":0,"value":10,"op":"SCMP_CMP_EQ"}]`, // INET6
		`[{"index":0,"value":16,"op":"SCMP_CMP_EQ"}]`, // NETLINK
	} {
		rules = append(rules, ruleJSON{Names: []string{"socket"}, Action: "SCMP_ACT_ALLOW", Args: json.RawMessage(family)})
	}
	profile.Syscalls = rules
	return profile
}
