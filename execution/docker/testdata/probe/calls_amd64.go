//go:build linux

package main

import "syscall"

// syscalls are those that the filter is to refuse, and some that it is not.
func syscalls() []trial {
	const newUser, newNS = 0x10000000, 0x20000
	return []trial{
		call("socket AF_UNIX", 41, 1, 1, 0),
		call("socket AF_INET", 41, 2, 1, 0),
		call("socket AF_INET6", 41, 10, 1, 0),
		call("socket AF_NETLINK", 41, 16, 3, 0),
		call("socket AF_ALG", 41, 38, 5, 0),
		call("socket AF_VSOCK", 41, 40, 1, 0),
		call("socket AF_PACKET", 41, 17, 3, 0),
		call("socket AF_BLUETOOTH", 41, 31, 3, 0),
		call("socket AF_TIPC", 41, 30, 4, 0),
		call("socket AF_ALG high bits", 41, 1<<32|38, 5, 0),
		call("io_uring_setup", 425, 8, 0),
		call("io_uring_enter", 426, 0, 0, 0, 0, 0, 0),
		call("io_uring_register", 427, 0, 0, 0, 0),
		call("keyctl", 250, 0, ^uintptr(2), 0),
		call("add_key", 248, text("user"), text("x"), text("x"), 1, ^uintptr(2)),
		call("request_key", 249, text("user"), text("x"), 0, 0),
		call("bpf", 321, 0, 0, 0),
		call("unshare user", 272, newUser),
		call("unshare mount", 272, newNS),
		call("setns", 308, 0, 0),
		call("mount", 165, text("none"), text("/tmp"), text("tmpfs"), 0, 0),
		call("umount2", 166, text("/proc"), 2),
		call("pivot_root", 155, text("/tmp"), text("/tmp")),
		call("fsopen", 430, text("tmpfs"), 0),
		call("move_mount", 429, 0, text("/"), 0, text("/tmp"), 0),
		call("open_tree", 428, ^uintptr(99), text("/"), 1),
		call("chroot", 161, text("/tmp")),
		call("process_vm_readv guest", 310, 1, vector(), 1, vector(), 1, 0),
		call("userfaultfd", 323, 0),
		call("perf_event_open", 298, 0, 0, 0, ^uintptr(0), 0),
		call("open_by_handle_at", 304, ^uintptr(99), 0, 0),
		call("fanotify_init", 300, 0, 0),
		call("kcmp", 312, 1, 1, 0, 0, 0),
		call("pidfd_getfd", 438, 0, 0, 0),
		call("kexec_load", 246, 0, 0, 0, 0),
		call("init_module", 175, 0, 0, text("")),
		call("finit_module", 313, 0, text(""), 0),
		call("delete_module", 176, text("x"), 0),
		call("reboot", 169, 0, 0, 0),
		call("swapon", 167, text("/tmp/x"), 0),
		call("syslog", 103, 3, 0, 0),
		call("acct", 163, 0),
		call("iopl", 172, 3),
		call("ioperm", 173, 0, 1, 1),
		call("settimeofday", 164, 0, 0),
		call("clock_settime", 227, 0, 0),
		call("quotactl", 179, 0, 0, 0, 0),
		call("nfsservctl", 180, 0, 0, 0),
		call("mknod device", 133, text("dev"), syscall.S_IFCHR|0o600, 1<<8|1),
		call("clone3", 435, 0, 0),
		call("clone user namespace", 56, newUser|uintptr(syscall.SIGCHLD), 0, 0, 0, 0),
	}
}
