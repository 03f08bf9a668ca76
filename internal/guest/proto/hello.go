package proto

import (
	"math"
	"time"

	"github.com/pinfold-dev/pinfold/internal/guest/wire"
)

// DefaultLease is the lease of a Config that has none.
const DefaultLease = 60 * time.Second

// Why a session has ended, though its guest lives.
const (
	Replaced = "another host has taken over"
	Expired  = "the guest has not heard of its host for as long as the lease"
)

// What "pinfold-guest dial" says on its standard error. Without either of them
// it was never run, or had no chance to get that far, which says nothing of the
// guest that it was to lead to.
const (
	Connected     = "connected"      // to the guest, which is to speak next
	NobodyListens = "nobody listens" // so that there is no guest
)

// Config is what a guest is told when it is greeted. It travels over the
// stream only, so that nothing of it shows in what an engine tells of the
// container.
type Config struct {
	// Dir is the absolute working directory of commands and relative paths;
	// "" leaves the choice to the guest. When it does not exist, the greeting
	// fails with ErrDirNotFound.
	Dir string

	// Env adds to the environment that the guest itself was started with, as
	// "NAME=value".
	Env []string

	// Lease is how long the guest goes on without hearing from its host; then
	// it kills everything and exits. Time during which the guest was frozen
	// does not count. 0 means DefaultLease.
	Lease time.Duration

	// Key and Socket let a host come back: the guest listens on the socket of
	// that name, in the abstract namespace, for who knows the key. Without
	// them the guest ends as soon as its stream does.
	//
	// SocketUser is who may connect. It should be nobody's that runs there, so
	// that no command can keep the host away.
	Key        []byte
	Socket     string
	SocketUser uint32

	// Session names what the host has with the guest, by which it is found
	// again.
	Session [wire.SessionSize]byte

	// Detach makes the guest live without a host.
	Detach bool

	// EndWithHost makes the guest end as soon as it sees that the connection to
	// its host has ended, and not only with the lease. Of a host that attaches
	// it is that one's commands in the foreground that end so.
	EndWithHost bool

	// Lifetime and IdleTimeout are execution.Spec's.
	Lifetime, IdleTimeout time.Duration
}

// Facts is what a guest reported of itself and its surroundings when it was
// greeted. A guest may lie; these are for checking that an engine did what it
// was asked to before anything untrusted has run.
type Facts struct {
	Version  string // of the guest's binary
	Arch     string // GOARCH
	PID      int    // of the guest, as seen inside: 1 in a container
	UID, GID uint32
	Dir      string // the working directory in force
	Shell    string // absolute path of the shell for Command.Shell; "" when there is none

	NoNewPrivs bool
	Seccomp    int // mode: 0 off, 1 strict, 2 filter; -1 unknown

	// Capability sets as in /proc/self/status; all bits set where unknown.
	CapInheritable, CapPermitted, CapEffective, CapBounding, CapAmbient uint64

	Limits CgroupLimits

	Lease time.Duration // in force: Config.Lease of the first host
}

// CgroupLimits are limits as read from the cgroup files inside. In each,
// Unlimited means that there is none, and UnknownLimit that the files do not
// tell.
type CgroupLimits struct {
	Memory    int64 // in bytes
	Swap      int64 // in bytes, on top of Memory
	PIDs      int64
	CPUQuota  int64 // in microseconds per CPUPeriod
	CPUPeriod int64 // in microseconds
}

// Values of CgroupLimits that are not limits.
const (
	Unlimited    = -1
	UnknownLimit = -2
)

// Encode returns the payload of the host's HELLO.
func (c *Config) Encode() []byte {
	e := encoder{}
	e.string(c.Dir)
	e.strings(c.Env)
	e.int(int64(c.Lease))
	e.string(string(c.Key))
	e.string(c.Socket)
	e.uint(uint64(c.SocketUser))
	e.b = append(e.b, c.Session[:]...)
	e.bool(c.Detach)
	e.bool(c.EndWithHost)
	e.int(int64(c.Lifetime))
	e.int(int64(c.IdleTimeout))
	return e.b
}

// DecodeConfig reads the payload of the host's HELLO.
func DecodeConfig(b []byte) (*Config, error) {
	d := decoder{b: b}
	c := &Config{Dir: d.string(len(b)), Env: d.strings(), Lease: d.duration()}
	if key := d.string(len(b)); key != "" {
		c.Key = []byte(key)
	}
	c.Socket = d.string(len(b))
	c.SocketUser = uint32(d.uint(math.MaxUint32)) //nolint:gosec // bounded
	for i := range c.Session {
		c.Session[i] = d.byte()
	}
	c.Detach, c.EndWithHost = d.bool(), d.bool()
	c.Lifetime, c.IdleTimeout = d.duration(), d.duration()
	return c, d.end()
}

// Encode returns the payload of the guest's HELLO when it is ready.
func (f *Facts) Encode() []byte {
	e := encoder{[]byte{0}}
	e.string(clip(f.Version, maxText))
	e.string(clip(f.Arch, maxText))
	e.int(int64(f.PID))
	e.uint(uint64(f.UID))
	e.uint(uint64(f.GID))
	e.string(clip(f.Dir, maxText))
	e.string(clip(f.Shell, maxText))
	e.bool(f.NoNewPrivs)
	e.int(int64(f.Seccomp))
	for _, set := range f.sets() {
		e.uint(*set)
	}
	for _, limit := range f.Limits.all() {
		e.int(*limit)
	}
	e.int(int64(f.Lease))
	return e.b
}

// DecodeFacts reads the payload of the guest's HELLO: Facts, or why it cannot
// serve, in which case EncodeFailed made it.
func DecodeFacts(b []byte) (*Facts, *Failure, error) {
	d, failure, err := decodeResult(b)
	if failure != nil || err != nil {
		return nil, failure, err
	}
	f := &Facts{
		Version: Printable(d.string(maxText)),
		Arch:    Printable(d.string(maxText)),
		PID:     int(d.int(1, maxPID)),
		UID:     uint32(d.uint(math.MaxUint32)), //nolint:gosec // bounded
		GID:     uint32(d.uint(math.MaxUint32)), //nolint:gosec // bounded
		Dir:     d.string(maxText),
		Shell:   d.string(maxText),
	}
	f.NoNewPrivs = d.bool()
	f.Seccomp = int(d.int(-1, 2))
	for _, set := range f.sets() {
		*set = d.uint(math.MaxUint64)
	}
	for _, limit := range f.Limits.all() {
		*limit = d.int(UnknownLimit, math.MaxInt64)
	}
	f.Lease = d.duration()
	return f, nil, d.end()
}

func (f *Facts) sets() []*uint64 {
	return []*uint64{&f.CapInheritable, &f.CapPermitted, &f.CapEffective, &f.CapBounding, &f.CapAmbient}
}

func (l *CgroupLimits) all() []*int64 {
	return []*int64{&l.Memory, &l.Swap, &l.PIDs, &l.CPUQuota, &l.CPUPeriod}
}
