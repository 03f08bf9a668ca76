package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// This file is the docker command, run as a script would run it.

// dockerCommand runs it and hands on its output. It is killed when ctx ends.
func dockerCommand(ctx context.Context, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.WaitDelay = 30 * time.Second // 200 of them at once take their time
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

func (b *bed) cliExec(ctx context.Context, stdout io.Writer, args ...string) error {
	return dockerCommand(ctx, stdout, append([]string{"exec", b.twin}, args...)...)
}

// cliRun starts a twin and returns its ID.
func (b *bed) cliRun(ctx context.Context) (string, error) {
	var out bytes.Buffer
	err := dockerCommand(ctx, &out, b.runArgs()...)
	return strings.TrimSpace(out.String()), err
}

// runArgs are our options as flags of docker run.
func (b *bed) runArgs() []string {
	h, c := b.hostConfig, b.config
	args := []string{
		"run", "--detach", "--interactive", "--pull=never", "--no-healthcheck",
		"--label", benchLabel + "=" + b.id,
		"--user", c.User, "--workdir", c.WorkingDir,
		"--network", string(h.NetworkMode), "--ipc", string(h.IpcMode),
		"--log-driver", h.LogConfig.Type,
		"--memory", strconv.FormatInt(h.Memory, 10),
		"--memory-swap", strconv.FormatInt(h.MemorySwap, 10),
		"--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64),
		"--entrypoint", "sleep",
	}
	if h.PidsLimit != nil {
		args = append(args, "--pids-limit", strconv.FormatInt(*h.PidsLimit, 10))
	}
	if h.CgroupnsMode != "" {
		args = append(args, "--cgroupns", string(h.CgroupnsMode))
	}
	if h.ReadonlyRootfs {
		args = append(args, "--read-only")
	}
	for _, name := range h.CapDrop {
		args = append(args, "--cap-drop", name)
	}
	for _, name := range h.CapAdd {
		args = append(args, "--cap-add", name)
	}
	for _, opt := range h.SecurityOpt {
		if strings.HasPrefix(opt, seccompOption) {
			opt = seccompOption + b.profile
		}
		args = append(args, "--security-opt", opt)
	}
	for target, opts := range h.Tmpfs {
		args = append(args, "--tmpfs", target+":"+opts)
	}
	for _, m := range h.Mounts {
		args = append(args, "--mount", fmt.Sprintf("type=%s,source=%s,destination=%s,readonly=%t", m.Type, m.Source, m.Target, m.ReadOnly))
	}
	return append(args, c.Image, "infinity")
}

const seccompOption = "seccomp="

// writeProfile puts the system call filter into a file: the API takes its
// text, the docker command a file's name.
func (b *bed) writeProfile() error {
	for _, opt := range b.hostConfig.SecurityOpt {
		if text, ok := strings.CutPrefix(opt, seccompOption); ok {
			b.profile = filepath.Join(b.dir, "seccomp.json")
			return os.WriteFile(b.profile, []byte(text), 0o600)
		}
	}
	return nil
}
