package docker

import "os"

// emulated reports whether a local engine's kernel runs programs of another
// architecture through an emulator that works in containers, too.
func emulated(arch string, local bool) bool {
	names := map[string]string{
		"amd64": "x86_64", "arm64": "aarch64", "arm": "arm", "386": "i386", "riscv64": "riscv64",
		"ppc64le": "ppc64le", "s390x": "s390x",
	}
	if !local || names[arch] == "" {
		return false
	}
	_, err := os.Stat("/proc/sys/fs/binfmt_misc/qemu-" + names[arch])
	return err == nil
}
