package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// What is mounted below a folder of the host is mounted with it, and what is
// mounted somewhere else is still the same.
func TestWhatIsMountedBelowAMountIsLookedAt(t *testing.T) {
	g, dir := testGuard(t)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "data", "overlay2"), 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	var table strings.Builder
	add := func(device, root, point, kind string) {
		if err := os.MkdirAll(point, 0o755); err != nil {
			t.Fatal(err)
		}
		point = strings.NewReplacer(" ", `\040`, `\`, `\134`).Replace(point)
		table.WriteString("30 1 " + device + " " + root + " " + point + " rw shared:1 - " + kind + " none rw\n")
	}
	add("8:1", "/", "/", "ext4")
	add("0:20", "/", dir, "tmpfs") // holds the engine's socket and data
	add("0:9", "/", home+"/chroot/proc", "proc")
	add("0:20", "/engine", home+"/a folder/run", "tmpfs")
	add("0:20", "/data", home+"/data", "tmpfs")
	add("0:20", "/other", home+"/other", "tmpfs")
	add("0:21", "/engine", home+"/another/device", "tmpfs")
	g.mountinfo = filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(g.mountinfo, []byte("nonsense\n"+table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		source string
		want   string // in the error; "" for none
	}{
		{home, "proc is mounted at " + home + "/chroot/proc"},
		{home + "/chroot", "proc is mounted"},
		{home + "/chroot/proc", "proc is mounted"},
		{home + "/a folder", "by what is mounted at " + home + "/a folder/run"},
		{home + "/a folder/run", "the engine's socket"},
		{home + "/data", "files of the engine"},
		{home + "/other", ""},
		{home + "/another", ""},
		{home + "/another/device", ""},
	} {
		err := g.check(execution.Spec{Mounts: []execution.Mount{
			{Type: execution.MountBind, Source: row.source, Target: "/m", ReadOnly: true},
		}})
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.source, err)
		case row.want != "" && (!errors.Is(err, execution.ErrInvalid) || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: got %v, want %q", row.source, err, row.want)
		}
	}
}
