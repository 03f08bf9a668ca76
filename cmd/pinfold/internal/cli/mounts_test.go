package cli

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestMountFlags(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	const bind, tmpfs = execution.MountBind, execution.MountTmpfs
	for _, row := range []struct {
		parse func(string) (execution.Mount, error)
		text  string
		want  execution.Mount
	}{
		{parseVolume, "/a:/b", execution.Mount{Type: bind, Source: "/a", Target: "/b"}},
		{parseVolume, "/a:/b:ro", execution.Mount{Type: bind, Source: "/a", Target: "/b", ReadOnly: true}},
		{parseVolume, "/a:/b:rw", execution.Mount{Type: bind, Source: "/a", Target: "/b"}},
		{parseVolume, ".:/b", execution.Mount{Type: bind, Source: here, Target: "/b"}},
		{parseVolume, "./x/../y:/b", execution.Mount{Type: bind, Source: filepath.Join(here, "y"), Target: "/b"}},
		{parseVolume, "x/y:/b", execution.Mount{Type: bind, Source: filepath.Join(here, "x/y"), Target: "/b"}},
		{parseMount, "type=bind,src=/a,dst=/b,readonly", execution.Mount{Type: bind, Source: "/a", Target: "/b", ReadOnly: true}},
		{parseMount, "type=bind,source=/a,target=/b,ro=false", execution.Mount{Type: bind, Source: "/a", Target: "/b"}},
		{
			parseMount, "TYPE=bind,SRC=./a,destination=/b,readonly=1",
			execution.Mount{Type: bind, Source: filepath.Join(here, "a"), Target: "/b", ReadOnly: true},
		},
		{parseMount, `type=bind,"src=/a,b",dst=/b`, execution.Mount{Type: bind, Source: "/a,b", Target: "/b"}},
		{parseMount, "type=bind,src=/a:b,dst=/b", execution.Mount{Type: bind, Source: "/a:b", Target: "/b"}},
		{parseMount, "type=tmpfs,dst=/b", execution.Mount{Type: tmpfs, Target: "/b"}},
		{
			parseMount, "type=tmpfs,dst=/b,tmpfs-size=64m,tmpfs-mode=1770",
			execution.Mount{Type: tmpfs, Target: "/b", Size: 64 << 20, Mode: 0o770 | fs.ModeSticky},
		},
		{parseTmpfs, "/b", execution.Mount{Type: tmpfs, Target: "/b"}},
		{parseTmpfs, "/b:size=1g,mode=700,ro", execution.Mount{Type: tmpfs, Target: "/b", Size: 1 << 30, Mode: 0o700, ReadOnly: true}},
		{parseTmpfs, "/b:rw", execution.Mount{Type: tmpfs, Target: "/b"}},
	} {
		if got, err := row.parse(row.text); got != row.want || err != nil {
			t.Errorf("%q gives %+v, %v; want %+v", row.text, got, err, row.want)
		}
	}
}

// Every mistake says what would be right.
func TestMountMistakes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ volume, mount, tmpfs, says string }{
		{volume: "/a", says: "want HOST-PATH:TARGET"},
		{volume: ":/b", says: "no host path"},
		{volume: "name:/b", says: "write ./name"},
		{volume: "/a:/b:z", says: "want ro or rw"},
		{volume: "/a:/b:ro,z", says: "want ro or rw"},
		{volume: "/a:/b:ro:x", says: "--mount"},
		{mount: "", says: "key=value"},
		{mount: "src=/a,dst=/b", says: "type=bind or type=tmpfs"},
		{mount: "type=volume,src=a,dst=/b", says: "want bind or tmpfs"},
		{mount: "type=bind,dst=/b", says: "add src="},
		{mount: "type=bind,src=/a", says: "add dst="},
		{mount: "type=bind,src=/a,dst=/b,bind-propagation=shared", says: `"bind-propagation" is not supported`},
		{mount: "type=bind,src=/a,dst=/b,readonly=maybe", says: "want true or false"},
		{mount: "type=bind,src,dst=/b", says: "want key=value"},
		{mount: "type=tmpfs,dst=/b,tmpfs-size=big", says: "want a number of bytes"},
		{mount: "type=tmpfs,dst=/b,tmpfs-mode=999", says: "octal"},
		{tmpfs: "/b:exec", says: "want size="},
		{tmpfs: "/b:size=-1", says: "negative"},
	} {
		var err error
		switch {
		case row.volume != "":
			_, err = mounts([]string{row.volume}, nil, nil)
		case row.tmpfs != "":
			_, err = mounts(nil, nil, []string{row.tmpfs})
		default:
			_, err = mounts(nil, []string{row.mount}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%+v: error is %v", row, err)
		}
	}
	if _, err := mounts([]string{"/a:/x"}, nil, []string{"/x"}); err == nil {
		t.Error("two mounts on one target are accepted")
	}
}
