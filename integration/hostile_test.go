//go:build linux

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// Images that somebody else has made.

// trap is a program that leaves a mark that it has run.
const trap = "#!/bin/busybox sh\n/bin/busybox echo \"$0 $*\" >>/tmp/trapped\nexec /bin/busybox \"${0##*/}\" \"$@\"\n"

func TestAnImageCannotReplaceWhatTheHostDoes(t *testing.T) {
	need(t)
	var files []file
	for _, name := range []string{
		"sh", "bash", "tar", "cat", "ls", "mv", "cp", "mkdir", "rm", "stat", "find", "chmod", "dd", "mktemp", "env", "kill", "ps", "true",
	} {
		for _, dir := range []string{"evil/", "bin/", "usr/bin/", "usr/local/bin/"} {
			files = append(files, file{name: dir + name, mode: 0o755, data: []byte(trap)})
		}
	}
	files = append(files,
		file{name: "evil/rc", mode: 0o755, data: []byte("/bin/busybox echo rc >>/tmp/trapped\n")},
		file{name: "evil/preload.so", mode: 0o755, data: []byte("no library at all")},
		file{name: "etc/ld.so.preload", data: []byte("/evil/preload.so\n")},
		file{name: ".pinfold/guest", mode: 0o755, data: []byte(trap)},
	)
	image := buildImage(t, `FROM scratch
ADD rootfs.tar /
ENV PATH=/evil:/bin LD_PRELOAD=/evil/preload.so LD_LIBRARY_PATH=/evil BASH_ENV=/evil/rc ENV=/evil/rc GODEBUG=netdns=evil GOTRACEBACK=crash
ENTRYPOINT ["/evil/sh"]
CMD ["/evil/sh"]
SHELL ["/evil/sh", "-c"]
USER root
WORKDIR /evil
`, file{name: "rootfs.tar", data: rootfs(t, files...)})

	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Image: image})
	everyFileOperation(t, h)
	// One program, named in full, and its own end: nothing else may run.
	result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"/bin/busybox", "cat", "/tmp/trapped"}})
	if err != nil || len(result.Stdout) > 0 {
		t.Errorf("the image's own programs ran: %q, %v", result.Stdout, err)
	}
	killed := start(t, h, execution.Command{Args: []string{"/bin/busybox", "sleep", "100000"}})
	if err := killed.Kill(t.Context()); err != nil {
		t.Errorf("Kill: %v", err)
	}
	if _, err := h.Stat(t.Context(), "/tmp/trapped"); err == nil {
		t.Error("the image's own programs ran when a command was killed")
	}
}

// everyFileOperation does each of them once.
func everyFileOperation(t *testing.T, h execution.Handle) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("write", execution.WriteFile(ctx, h, "made/by/us", []byte("content")))
	data, err := execution.ReadFile(ctx, h, "made/by/us", 0)
	check("read", err)
	if string(data) != "content" {
		t.Errorf("read %q", data)
	}
	_, err = h.Stat(ctx, "made/by/us")
	check("stat", err)
	_, err = h.Lstat(ctx, "made")
	check("lstat", err)
	for _, err := range h.List(ctx, "made") {
		check("list", err)
	}
	found := ""
	for info, err := range h.Glob(ctx, ".", "**/us") {
		check("glob", err)
		found += info.Name
	}
	if found != "made/by/us" {
		t.Errorf("glob found %q", found)
	}
}

func TestAnImagesOwnSettingsDoNotGetInTheWay(t *testing.T) {
	need(t)
	image := buildImage(t, `FROM scratch
ADD rootfs.tar /
ENV FROM_IMAGE=yes
VOLUME /data /workspace/volume
HEALTHCHECK --interval=1s --timeout=1s CMD ["/bin/touch", "/tmp/health"]
ENTRYPOINT ["/bin/false"]
CMD ["wrong"]
USER somebody
WORKDIR /elsewhere
STOPSIGNAL SIGHUP
EXPOSE 80
`, file{name: "rootfs.tar", data: rootfs(t)})
	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Image: image})
	info := inspect(t, world.engine, h)
	if info.State.Health != nil && info.State.Health.Status != "" && info.State.Health.Status != "none" {
		t.Errorf("there is a health check: %+v", info.State.Health)
	}
	if got := output(t, h, `echo "$FROM_IMAGE $(id -u)"`); got != "yes 1000\n" {
		t.Errorf("the image's variable and our user: %q", got)
	}
	// A volume of the image is a place like any other.
	for _, dir := range []string{"/data", "/workspace/volume"} {
		if got := output(t, h, "ls -d "+dir); got != dir+"\n" {
			t.Errorf("%s: %q", dir, got)
		}
	}
	volumes := []string{}
	for _, m := range info.Mounts {
		if m.Name != "" {
			volumes = append(volumes, m.Name)
		}
	}
	if err := h.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range volumes {
		if _, err := world.engine.VolumeInspect(t.Context(), name); err == nil {
			t.Errorf("the volume %s is left", name)
		}
	}
}

func TestAnImageWithoutAShellHasFilesAndPrograms(t *testing.T) {
	need(t)
	// No /etc, no /tmp, no shell: one program.
	image := buildImage(t, "FROM scratch\nADD rootfs.tar /\n", file{name: "rootfs.tar", data: archive(t,
		file{name: "app/", mode: 0o755}, file{name: "app/echo", mode: 0o755, data: busybox(t)},
	)})
	h := newSandbox(t, newBackend(t, dockerOptions()), execution.Spec{Image: image})
	everyFileOperation(t, h)
	result, err := execution.Exec(t.Context(), h, execution.Command{Args: []string{"/app/echo", "$(no) *", "shell"}})
	if err != nil || string(result.Stdout) != "$(no) * shell\n" {
		t.Errorf("got %v, %q, %v", result.ExitStatus, result.Stdout, err)
	}
	_, err = h.Start(t.Context(), execution.Command{Shell: "echo"})
	isError(t, err, execution.ErrNoShell, "shell")
}

func TestAUserIsFoundInTheImage(t *testing.T) {
	need(t)
	backend := newBackend(t, dockerOptions())
	passwd := "root:x:0:0::/root:/bin/sh\nworker:x:4711:4712::/home/worker:/bin/sh\n"
	image := buildImage(t, "FROM scratch\nADD rootfs.tar /\n", file{name: "rootfs.tar", data: rootfs(t,
		file{name: "etc/passwd", data: []byte(passwd)}, file{name: "etc/group", data: []byte("root:x:0:\nstaff:x:50:\n")},
	)})
	for user, want := range map[string]string{
		"":             "1000:1000",
		"worker":       "4711:4712",
		"worker:staff": "4711:50",
		"12:34":        "12:34",
	} {
		t.Run(user, func(t *testing.T) {
			h := newSandbox(t, backend, execution.Spec{Image: image, User: user})
			if got := strings.TrimSpace(output(t, h, "echo $(id -u):$(id -g)")); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			// What is written through the handle is the user's own.
			if err := execution.WriteFile(t.Context(), h, "file", nil); err != nil {
				t.Fatal(err)
			}
			info, err := h.Stat(t.Context(), "file")
			if got := fmt.Sprintf("%d:%d", info.UID, info.GID); err != nil || got != want {
				t.Errorf("a file belongs to %s, want %s (%v)", got, want, err)
			}
		})
	}
}
