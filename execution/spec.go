package execution

import (
	"io/fs"
	"time"
)

// A Spec says what sandbox to make. The zero value is the backend's default
// sandbox, which is the most restricted one.
//
// Where a field is marked with a capability, a backend without it fails Spawn
// with ErrUnsupported when the field is set.
type Spec struct {
	// Image is what the sandbox's files start from; "" is the backend's
	// default. [Capabilities.Images]
	Image string

	// Platform is the image's system and architecture, such as "linux/arm64";
	// "" is the engine's own. [Capabilities.Images]
	Platform string

	// Pull says when the image is fetched. [Capabilities.Images]
	Pull PullPolicy

	// Name is a name for people; "" makes a unique one. A name that is taken
	// fails with ErrConflict. [Capabilities.Names]
	Name string

	// Dir is the absolute working directory; "" is the backend's default. It
	// must exist, or Spawn fails with ErrDirNotFound.
	Dir string

	// Env is the environment of every command, as "NAME=value", on top of
	// the image's. The host's own never gets in.
	Env []string

	// User is "name", "uid", "name:group" or "uid:gid". A name that the
	// sandbox does not know fails with ErrUserNotFound. [Capabilities.Users]
	User string

	// Mounts puts folders of the host or of memory into the sandbox.
	// [Capabilities.Mounts]
	Mounts []Mount

	// Limits bound what the sandbox may use.
	Limits Limits

	// ReadOnly makes the sandbox's root file system read-only; mounts are as
	// they say. [Capabilities.ReadOnlyRoot]
	ReadOnly bool

	// Network is what the sandbox is connected to: "" and NetworkNone mean
	// nothing at all. Other names are the backend's. [Capabilities.Networks]
	Network string

	// Runtime is the engine's runtime for the sandbox, such as "runsc"; ""
	// is the engine's default. [Capabilities.Runtimes]
	Runtime string

	// Profile is how much the sandbox is held down; "" is ProfileDefault.
	// [Capabilities.Profiles]
	Profile Profile

	// Relax lifts single controls of the profile by name.
	// [Capabilities.Profiles]
	Relax []Relaxation

	// Labels are the host's own notes on the sandbox. Names that start with
	// LabelPrefix are reserved. [Capabilities.Labels]
	Labels map[string]string

	// Detach makes a sandbox that lives without a host, until its Lifetime
	// ends, which has to be set. Without Detach it ends when nothing was heard
	// of its host for the backend's lease. [Capabilities.Attach]
	Detach bool

	// Lifetime ends the sandbox after that time, whatever it does then. 0 is
	// no bound. Time during which the sandbox is paused or the machine
	// suspended does not count. [Capabilities.Lifetimes]
	Lifetime time.Duration

	// IdleTimeout ends the sandbox once it has been idle for that long: no
	// command or task ran in it, and no host asked anything of it but whether
	// it lives. 0 is no bound. [Capabilities.Lifetimes]
	IdleTimeout time.Duration
}

// NetworkNone is no network at all: not even a way to the host.
const NetworkNone = "none"

// LabelPrefix starts the labels that are Pinfold's own.
const LabelPrefix = "dev.pinfold."

// A PullPolicy says when an image is fetched from its registry.
type PullPolicy string

// The pull policies, as docker has them. "" is PullMissing.
const (
	PullMissing PullPolicy = "missing"
	PullAlways  PullPolicy = "always"
	PullNever   PullPolicy = "never"
)

// A Profile is a named set of controls.
type Profile string

const (
	// ProfileDefault is for code that nobody has looked at: an unprivileged
	// user, no capabilities, no network.
	ProfileDefault Profile = "default"

	// ProfileDev is for work that needs root inside: apt and useradd work.
	// It keeps the limits, the system call filter and no-new-privileges.
	ProfileDev Profile = "dev"
)

// A Relaxation lifts one control of a profile.
type Relaxation string

// The controls that can be lifted one by one.
const (
	RelaxMemory  Relaxation = "memory"  // no memory limit
	RelaxPIDs    Relaxation = "pids"    // no limit on processes
	RelaxCPUs    Relaxation = "cpus"    // no bound on processor time
	RelaxSeccomp Relaxation = "seccomp" // no system call filter, for tracing and the like
)

// Limits bound what a sandbox may use. 0 is the backend's default, which the
// handle's Spec tells; to have no limit, use [Spec.Relax].
type Limits struct {
	Memory  int64   `json:"memory_bytes,omitempty"`  // [Capabilities.MemoryLimit]; swap is never added
	CPUs    float64 `json:"cpus,omitempty"`          // in processors; [Capabilities.CPULimit]
	PIDs    int64   `json:"pids,omitempty"`          // processes and threads; [Capabilities.PIDLimit]
	Storage int64   `json:"storage_bytes,omitempty"` // of the writable root; [Capabilities.StorageLimit]
}

// A MountType says what a mount is made of.
type MountType string

// The types of mount.
const (
	MountBind  MountType = "bind"  // a folder or file of the host
	MountTmpfs MountType = "tmpfs" // memory, gone with the sandbox
)

// A Mount puts something into the sandbox's file tree.
type Mount struct {
	Type     MountType
	Source   string      // absolute path on the host that exists; for bind
	Target   string      // absolute path in the sandbox
	ReadOnly bool        //
	Size     int64       // in bytes; for tmpfs, 0 is the backend's default
	Mode     fs.FileMode // for tmpfs, 0 is 01777
}

// Capabilities says what a backend can do and enforce. The zero value is none
// of it. A field that is true is a promise that executiontest checks; one that
// is false means that asking for it fails with ErrUnsupported.
type Capabilities struct {
	Isolation    bool `json:"isolation"`     // commands cannot reach the host
	Images       bool `json:"images"`        // Spec.Image, Platform and Pull
	Names        bool `json:"names"`         // Spec.Name
	Users        bool `json:"users"`         // Spec.User
	Mounts       bool `json:"mounts"`        // Spec.Mounts
	ReadOnlyRoot bool `json:"readonly_root"` // Spec.ReadOnly
	Networks     bool `json:"networks"`      // Spec.Network other than ""
	Runtimes     bool `json:"runtimes"`      // Spec.Runtime
	Profiles     bool `json:"profiles"`      // Spec.Profile and Spec.Relax
	Labels       bool `json:"labels"`        // Spec.Labels
	MemoryLimit  bool `json:"memory_limit"`  // Limits.Memory, and EndingOutOfMemory
	CPULimit     bool `json:"cpu_limit"`     // Limits.CPUs
	PIDLimit     bool `json:"pid_limit"`     // Limits.PIDs
	StorageLimit bool `json:"storage_limit"` // Limits.Storage
	TTY          bool `json:"tty"`           // Command.TTY, and Resizer
	Attach       bool `json:"attach"`        // Attacher, Detacher and Spec.Detach
	Lifetimes    bool `json:"lifetimes"`     // Spec.Lifetime and Spec.IdleTimeout
	ProvenKill   bool `json:"proven_kill"`   // Process.Kill keeps its whole promise; else only the process group dies
}
