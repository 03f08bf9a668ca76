// Command probe tries from inside a sandbox what is to fail there, and prints a
// line for each: its name, and "ok" or the error. It is static, and so needs
// nothing of the image. Arguments choose what to try; none is all of it.
//
//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// A trial is one thing to try.
type trial struct {
	name string
	try  func() error
}

func main() {
	all := append(append(syscalls(), files()...), processes()...)
	all = append(all, networks()...)
	for _, t := range all {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], t.name) {
			continue
		}
		result := "ok"
		if err := t.try(); err != nil {
			result = err.Error()
		}
		fmt.Printf("%s\t%s\n", t.name, result)
	}
}

// call makes a raw system call by its number on this architecture.
func call(name string, number uintptr, args ...uintptr) trial {
	var a [6]uintptr
	copy(a[:], args)
	return trial{name, func() error {
		_, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}}
}

// text is a pointer to a C string that lives for ever.
func text(s string) uintptr {
	p, err := syscall.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

var kept []*byte

// vector is an iovec of one byte that lives for ever.
func vector() uintptr {
	v := &syscall.Iovec{Base: new(byte), Len: 1}
	vectors = append(vectors, v)
	return uintptr(unsafe.Pointer(v))
}

var vectors []*syscall.Iovec

func open(name, path string, flags int) trial {
	return trial{name, func() error {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if flags&os.O_WRONLY != 0 {
			_, err = f.WriteString("x")
			return err
		}
		n, err := f.Read(make([]byte, 1))
		if n == 0 && err != nil {
			return err
		}
		return nil
	}}
}

func files() []trial {
	return []trial{
		open("read /proc/kcore", "/proc/kcore", os.O_RDONLY),
		open("read /proc/keys", "/proc/keys", os.O_RDONLY),
		open("read /proc/timer_list", "/proc/timer_list", os.O_RDONLY),
		open("read /proc/1/environ", "/proc/1/environ", os.O_RDONLY),
		open("read /proc/1/mem", "/proc/1/mem", os.O_RDONLY),
		open("write /proc/1/mem", "/proc/1/mem", os.O_WRONLY),
		open("write /proc/sysrq-trigger", "/proc/sysrq-trigger", os.O_WRONLY),
		open("write core_pattern", "/proc/sys/kernel/core_pattern", os.O_WRONLY),
		open("write modprobe", "/proc/sys/kernel/modprobe", os.O_WRONLY),
		open("write drop_caches", "/proc/sys/vm/drop_caches", os.O_WRONLY),
		open("write uevent_helper", "/sys/kernel/uevent_helper", os.O_WRONLY),
		open("write release_agent", "/sys/fs/cgroup/memory/release_agent", os.O_WRONLY),
		open("write cgroup limit", "/sys/fs/cgroup/memory/memory.limit_in_bytes", os.O_WRONLY),
		open("write cgroup2 limit", "/sys/fs/cgroup/memory.max", os.O_WRONLY),
		open("read /dev/mem", "/dev/mem", os.O_RDONLY),
		open("read /dev/kmsg", "/dev/kmsg", os.O_RDONLY),
		open("read /dev/sda", "/dev/sda", os.O_RDONLY),
		open("read /dev/vda", "/dev/vda", os.O_RDONLY),
		open("read /dev/fuse", "/dev/fuse", os.O_RDONLY),
		open("read /dev/kvm", "/dev/kvm", os.O_RDONLY),
		open("write the guest", "/.pinfold/guest", os.O_WRONLY),
		open("read docker.sock", "/var/run/docker.sock", os.O_RDONLY),
		{"remove the guest", func() error { return os.Remove("/.pinfold/guest") }},
		{"rename the guest's folder", func() error { return os.Rename("/.pinfold", "/.other") }},
		{"list /proc/1/fd", func() error { _, err := os.ReadDir("/proc/1/fd"); return err }},
		{"readlink /proc/1/exe", func() error { _, err := os.Readlink("/proc/1/exe"); return err }},
		{"list /proc/1/root", func() error { _, err := os.ReadDir("/proc/1/root"); return err }},
		{"own file", func() error { return os.WriteFile("own", []byte("x"), 0o600) }},
	}
}

func processes() []trial {
	return []trial{
		{"kill guest", func() error { return syscall.Kill(1, syscall.SIGKILL) }},
		{"stop guest", func() error { return syscall.Kill(1, syscall.SIGSTOP) }},
		{"ptrace guest", func() error { return syscall.PtraceAttach(1) }},
		{"ptrace own child", ptraceChild},
		{"setuid 0", func() error {
			if os.Getuid() == 0 {
				return fmt.Errorf("is root")
			}
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETUID, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			return nil
		}},
	}
}

// ptraceChild is what debuggers and strace do, and is to work.
func ptraceChild() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"probe", "none"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("it did not stop: %x", status)
	}
	var regs syscall.PtraceRegs
	err = syscall.PtraceGetRegs(pid, &regs)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	_, _ = syscall.Wait4(pid, &status, 0, nil)
	return err
}

func networks() []trial {
	var trials []trial
	dial := func(network, address string) {
		trials = append(trials, trial{"connect " + address, func() error {
			conn, err := net.DialTimeout(network, address, 2*time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}})
	}
	dial("tcp", "169.254.169.254:80")
	dial("tcp", "[fd00:ec2::254]:80")
	dial("tcp", "172.17.0.1:2375")
	dial("tcp", "1.1.1.1:443")
	dial("udp", "8.8.8.8:53")
	trials = append(trials,
		trial{"resolve", func() error { _, err := net.LookupHost("example.com"); return err }},
		trial{"interfaces", func() error {
			found, err := net.Interfaces()
			if err != nil {
				return err
			}
			for _, i := range found {
				if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
					return fmt.Errorf("there is %s", i.Name)
				}
			}
			return nil
		}},
		trial{"loopback", loopback})
	return trials
}

// loopback is to work: servers and their tests need it.
func loopback() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	return conn.Close()
}
