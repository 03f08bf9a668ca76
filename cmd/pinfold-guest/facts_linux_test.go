package main

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/pinfold-dev/pinfold/internal/guest/proto"
)

func files(content map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range content {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestLimitsAreReadFromEitherVersionOfCgroups(t *testing.T) {
	const v1 = "12:pids:/docker/abc\n5:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n"
	tests := map[string]struct {
		files map[string]string
		own   string
		want  proto.CgroupLimits
	}{
		"v2 in a namespace": {
			files: map[string]string{
				"cgroup.controllers": "cpu memory pids\n", "memory.max": "2147483648\n", "memory.swap.max": "0\n",
				"pids.max": "512\n", "cpu.max": "150000 100000\n",
			},
			own:  "0::/\n",
			want: proto.CgroupLimits{Memory: 2 << 30, Swap: 0, PIDs: 512, CPUQuota: 150_000, CPUPeriod: 100_000},
		},
		"v2 of the whole machine": {
			files: map[string]string{
				"cgroup.controllers": "cpu memory pids\n", "system.slice/x.scope/memory.max": "1048576\n",
				"system.slice/x.scope/pids.max": "max\n", "memory.max": "max\n", "pids.max": "1\n",
			},
			own: "0::/system.slice/x.scope\n",
			want: proto.CgroupLimits{
				Memory: 1 << 20, Swap: proto.UnknownLimit, PIDs: proto.Unlimited,
				CPUQuota: proto.UnknownLimit, CPUPeriod: proto.UnknownLimit,
			},
		},
		"v2 without limits": {
			files: map[string]string{
				"cgroup.controllers": "", "memory.max": "max\n", "memory.swap.max": "max\n", "pids.max": "max\n", "cpu.max": "max 100000\n",
			},
			own: "0::/\n",
			want: proto.CgroupLimits{
				Memory: proto.Unlimited, Swap: proto.Unlimited, PIDs: proto.Unlimited, CPUQuota: proto.Unlimited, CPUPeriod: 100_000,
			},
		},
		"v1 as docker mounts it": {
			files: map[string]string{
				"memory/memory.limit_in_bytes": "2147483648\n", "memory/memory.memsw.limit_in_bytes": "2147483648\n",
				"pids/pids.max": "512\n", "cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n",
			},
			own:  v1,
			want: proto.CgroupLimits{Memory: 2 << 30, Swap: 0, PIDs: 512, CPUQuota: 200_000, CPUPeriod: 100_000},
		},
		"v1 of the whole machine": {
			files: map[string]string{
				"memory/docker/abc/memory.limit_in_bytes": "1048576\n", "memory/docker/abc/memory.memsw.limit_in_bytes": "3145728\n",
				"memory/memory.limit_in_bytes":    "9223372036854771712\n",
				"pids/docker/abc/pids.max":        "max\n",
				"cpu/docker/abc/cpu.cfs_quota_us": "-1\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n",
			},
			own: v1,
			want: proto.CgroupLimits{
				Memory: 1 << 20, Swap: 2 << 20, PIDs: proto.Unlimited, CPUQuota: proto.Unlimited, CPUPeriod: 100_000,
			},
		},
		"v1 without limits": {
			files: map[string]string{
				"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
			},
			own: v1,
			want: proto.CgroupLimits{
				Memory: proto.Unlimited, Swap: proto.Unlimited, PIDs: proto.UnknownLimit,
				CPUQuota: proto.UnknownLimit, CPUPeriod: proto.UnknownLimit,
			},
		},
		"nothing at all": {
			want: proto.CgroupLimits{
				Memory: proto.UnknownLimit, Swap: proto.UnknownLimit, PIDs: proto.UnknownLimit,
				CPUQuota: proto.UnknownLimit, CPUPeriod: proto.UnknownLimit,
			},
		},
		"nonsense": {
			files: map[string]string{"cgroup.controllers": "", "memory.max": "-5\n", "pids.max": "many\n", "cpu.max": "1\n"},
			own:   "garbage\n::::\n0::/../../etc\n",
			want: proto.CgroupLimits{
				Memory: proto.UnknownLimit, Swap: proto.UnknownLimit, PIDs: proto.UnknownLimit, CPUQuota: 1, CPUPeriod: proto.UnknownLimit,
			},
		},
	}
	for name, test := range tests {
		if got := readLimits(files(test.files), test.own); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestStatusIsRead(t *testing.T) {
	var f proto.Facts
	readStatus(&f, "Name:\tguest\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000001\nCapEff:\t0000000000000002\n"+
		"CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000003\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n")
	want := proto.Facts{
		NoNewPrivs: true, Seccomp: 2,
		CapPermitted: 1, CapEffective: 2, CapBounding: 0x1ff_ffff_ffff, CapAmbient: 3,
	}
	if f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	f = proto.Facts{}
	readStatus(&f, "")
	if f.Seccomp != -1 || f.CapEffective != math.MaxUint64 || f.NoNewPrivs {
		t.Errorf("what is not told counts as held down: %+v", f)
	}
}
