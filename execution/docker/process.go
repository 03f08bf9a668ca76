package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// processOwner is "user@host", for people.
func processOwner() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// processID identifies this process among all of all hosts that may use the
// same engine, also when its number is used again: "host:pid:start". Who finds
// it on a container can tell whether that process still lives, if it is on the
// same host.
func processID() string {
	return fmt.Sprintf("%s:%d:%s", hostID(), os.Getpid(), startTime(os.Getpid()))
}

// hostID is the same for all processes that see the same process numbers. It
// tells nothing about the host.
func hostID() string {
	name, _ := os.Hostname()
	machine, _ := os.ReadFile("/etc/machine-id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := sha256.Sum256([]byte(name + "\x00" + string(machine) + "\x00" + bootID() + "\x00" + space))
	const digits = 16
	return hex.EncodeToString(sum[:])[:digits]
}

// bootID changes with each start of the machine.
func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(data)
}

// startTime is when a process started, in ticks since the machine did, or 0
// where that is not known.
func startTime(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "0"
	}
	return statField(string(data), 22)
}

// statField is a field of /proc/PID/stat by its number in proc(5). The second
// may itself hold spaces and parentheses.
func statField(stat string, number int) string {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const first = 3 // the field that follows the parenthesis
	if number-first < len(fields) && number >= first {
		return fields[number-first]
	}
	return "0"
}

// processLives reports whether a process of this host is known to live, by what
// processID told of it.
func processLives(id string) bool {
	start, known := startOf(id)
	return known && start != ""
}

// processDied reports whether a process of this host is known to be dead.
func processDied(id string) bool {
	start, known := startOf(id)
	return known && start == ""
}

// startOf finds a process. known is false for those of other hosts.
func startOf(id string) (start string, known bool) {
	parts := strings.Split(id, ":")
	if len(parts) != 3 || parts[0] != hostID() || parts[2] == "0" {
		return "", false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return "", false
	}
	if now := startTime(pid); now == parts[2] {
		return now, true
	}
	return "", true
}
