package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

func TestUsersAreResolvedByTheImage(t *testing.T) {
	files := accounts{
		passwd: []byte("root:x:0:0:root:/root:/bin/sh\nbroken\n:x:5:5::/:\nnode:x:1000:1001:Node:/home/node:/bin/bash\n" +
			"nogid:x:7::::\nhuge:x:99999999999:1:::\n7:x:70:71:::\nevil:x:1002:1002::/home/$(x)\"\n:\n"),
		group: []byte("root:x:0:\nstaff:x:50:node\nbroken\n"),
	}
	for text, want := range map[string]string{
		"1000:1000":  "1000:1000",
		"0:0":        "0:0",
		"node":       "1000:1001",
		"node:staff": "1000:50",
		"node:7":     "1000:7",
		"1000":       "1000:1001", // as its entry has it
		"4242":       "4242:4242", // and not root's group, as engines have it
		"4242:staff": "4242:50",
		"7":          "7:7", // a number is a number, also where a name looks like one
	} {
		who, err := files.resolve(text)
		if err != nil || who.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, who, err, want)
		}
	}
	for _, text := range []string{"nobody", "node:nothing", "nogid", "huge", "", ":staff", "node:", "-1", "99999999999", "1000:-1", "../x"} {
		if who, err := files.resolve(text); !errors.Is(err, execution.ErrUserNotFound) {
			t.Errorf("%q: got %v, %v, want ErrUserNotFound", text, who, err)
		}
	}
}

// An image's passwd is not to be trusted with more than a plain path.
func TestHomeIsTakenFromTheImageWhenPlain(t *testing.T) {
	for line, want := range map[string]string{
		"u:x:1000:1000::/home/u:/bin/sh":                       "/home/u",
		"u:x:1000:1000::/:/bin/sh":                             "",
		"u:x:1000:1000::/nonexistent:/bin/sh":                  "",
		"u:x:1000:1000::/home/$HOME:":                          "",
		"u:x:1000:1000::/a b:":                                 "",
		"u:x:1000:1000::relative:":                             "",
		"u:x:1000:1000::/" + strings.Repeat("a", 5000) + ":sh": "",
		"u:x:1001:1000::/home/u:/bin/sh":                       "",
	} {
		got, ok := accounts{passwd: []byte(line)}.home(1000)
		if ok != (want != "") || (ok && got != want) {
			t.Errorf("%q: got %q, %v, want %q", line, got, ok, want)
		}
	}
}

func TestUserWhereNoneIsNamed(t *testing.T) {
	owners := map[string]owner{
		"/mine":    {identity: identity{501, 20}, known: true},
		"/other":   {identity: identity{502, 20}, known: true},
		"/roots":   {identity: identity{0, 0}, known: true},
		"/unknown": {},
		"/public":  {identity: identity{0, 0}, known: true, othersWrite: true},
	}
	ownerOf := func(name string) (owner, error) {
		if who, ok := owners[name]; ok {
			return who, nil
		}
		return owner{}, execution.ErrNotFound
	}
	bind := func(sources ...string) (mounts []execution.Mount) {
		for _, source := range sources {
			mounts = append(mounts, execution.Mount{Type: execution.MountBind, Source: source, ReadOnly: strings.HasSuffix(source, "#")})
			mounts[len(mounts)-1].Source = strings.TrimSuffix(source, "#")
		}
		return mounts
	}
	const caller = 501
	rootless, remap := engineInfo{Rootless: true}, engineInfo{UserRemap: true}
	for _, row := range []struct {
		name string
		spec execution.Spec
		info engineInfo
		want string
		err  error
	}{
		{"nothing mounted", execution.Spec{}, engineInfo{}, DefaultUser, nil},
		{"dev", execution.Spec{Profile: execution.ProfileDev, Mounts: bind("/mine")}, engineInfo{}, "0:0", nil},
		{"the caller's folder", execution.Spec{Mounts: bind("/mine")}, engineInfo{}, "501:20", nil},
		{"read-only", execution.Spec{Mounts: bind("/roots#")}, engineInfo{}, DefaultUser, nil},
		{"root's folder", execution.Spec{Mounts: bind("/roots")}, engineInfo{}, "", execution.ErrInvalid},
		{"root's folder for all", execution.Spec{Mounts: bind("/public")}, engineInfo{}, DefaultUser, nil},
		{"two of one owner", execution.Spec{Mounts: bind("/mine", "/mine", "/public")}, engineInfo{}, "501:20", nil},
		{"two owners", execution.Spec{Mounts: bind("/mine", "/other")}, engineInfo{}, "", execution.ErrInvalid},
		{"rootless", execution.Spec{Mounts: bind("/mine")}, rootless, "0:0", nil},
		{"rootless, another's", execution.Spec{Mounts: bind("/other")}, rootless, "", execution.ErrInvalid},
		{"mapped users", execution.Spec{Mounts: bind("/mine")}, remap, "", execution.ErrUnsupported},
		{"gone meanwhile", execution.Spec{Mounts: bind("/gone")}, engineInfo{}, "", execution.ErrNotFound},
		{"unknown owner", execution.Spec{Mounts: bind("/unknown")}, engineInfo{}, DefaultUser, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := chooseUser(row.spec, row.info, caller, ownerOf)
			if got != row.want || !errors.Is(err, row.err) {
				t.Errorf("got %q, %v, want %q, %v", got, err, row.want, row.err)
			}
		})
	}
}
