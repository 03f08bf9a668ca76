//go:build linux

package main

// syscalls are those that the filter is to refuse, and some that it is not.
func syscalls() []trial {
	return []trial{
		call("socket AF_UNIX", 198, 1, 1, 0),
		call("socket AF_INET", 198, 2, 1, 0),
		call("socket AF_INET6", 198, 10, 1, 0),
		call("socket AF_NETLINK", 198, 16, 3, 0),
		call("socket AF_ALG", 198, 38, 5, 0),
		call("socket AF_VSOCK", 198, 40, 1, 0),
		call("io_uring_setup", 425, 8, 0),
		call("keyctl", 219, 0, ^uintptr(2), 0),
		call("bpf", 280, 0, 0, 0),
		call("unshare user", 97, 0x10000000),
		call("mount", 40, text("none"), text("/tmp"), text("tmpfs"), 0, 0),
		call("userfaultfd", 282, 0),
		call("perf_event_open", 241, 0, 0, 0, ^uintptr(0), 0),
		call("clone3", 435, 0, 0),
	}
}
