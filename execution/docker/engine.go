package docker

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/pinfold-dev/pinfold/images"
)

// An engine is what this package needs of a container engine, in plain types,
// so that the client library stays behind it (moby*.go).
//
// Every call has a deadline of its own; one that runs into it fails with
// execution.ErrTimeout and names the call. Errors match the sentinels of
// package execution: ErrNotFound for a container or image that is not there,
// ErrConflict, ErrInvalid, ErrUnavailable for an engine that does not answer.
// A call whose ctx ends returns an error that wraps ctx's.
type engine interface {
	images.Engine

	// where is the address of the engine, local whether its files are ours,
	// and apiVersion what was agreed upon.
	where() string
	local() bool
	apiVersion() string

	info(ctx context.Context) (engineInfo, error)

	create(ctx context.Context, req createRequest) (id string, err error)
	attach(ctx context.Context, id string) (*rawStream, error)

	// exec runs a program in a container that runs, as user "uid:gid", and
	// returns the connection to its standard streams.
	exec(ctx context.Context, id, user string, args []string) (*rawStream, error)
	start(ctx context.Context, id string) error
	inspect(ctx context.Context, id string) (containerState, error)
	list(ctx context.Context, labels ...string) ([]containerSummary, error)

	// remove ends the container at once and removes it with its anonymous
	// volumes. It returns before the container has gone only with an error;
	// one that matches errRemoving says that somebody else removes it now.
	remove(ctx context.Context, id string) error

	// waitRemoved returns once the container has gone. ctx bounds it.
	waitRemoved(ctx context.Context, id string) error

	// putArchive unpacks a tar stream at the root of a container, getFile
	// reads one file of at most limit bytes, following no link. Both are for
	// containers that have never run.
	putArchive(ctx context.Context, id string, tar io.Reader) error
	getFile(ctx context.Context, id, path string, limit int64) ([]byte, error)

	commit(ctx context.Context, id string, req commitRequest) (imageID string, err error)
	imageIDs(ctx context.Context, dangling bool, labels ...string) ([]string, error)
	removeImage(ctx context.Context, id string) error

	// events tells sink what happens to containers with all of labels, from
	// since on (zero: from now on), until ctx ends or the engine hangs up.
	// It calls ready once nothing will be missed any more.
	events(ctx context.Context, since time.Time, labels []string, ready func(), sink func(engineEvent)) error

	close() error
}

// engineInfo is what an engine says of itself.
type engineInfo struct {
	ID             string
	Name           string // the host's name
	Version        string
	System         string // OSType: "linux", "windows"
	OS             string // "Debian GNU/Linux 12 (bookworm)"
	Kernel         string
	Arch           string // as Go names it
	Variant        string
	CPUs           int
	Memory         int64
	Driver         string
	BackingFS      string
	RootDir        string
	CgroupVersion  string
	CgroupDriver   string
	MemoryLimit    bool
	SwapLimit      bool
	PIDsLimit      bool
	CPUQuota       bool
	Rootless       bool
	UserRemap      bool
	Seccomp        bool
	AppArmor       bool
	SELinux        bool
	Runtimes       []string
	DefaultRuntime string
	Components     map[string]string // "runc", "containerd": their versions
	Podman         bool
	LiveRestore    bool
	Ahead          time.Duration // of our clock; 0 where the engine does not tell
	Warnings       []string
}

// createRequest is a container to be made.
type createRequest struct {
	Name       string
	Image      string
	Platform   string // "" is the image's own
	User       string // "uid:gid"
	Entrypoint []string
	Cmd        []string
	Labels     map[string]string
	Stdin      bool // keep standard input open for one attach

	AutoRemove bool
	ReadOnly   bool
	Network    string
	Runtime    string
	Hostname   string

	CapDrop     []string
	CapAdd      []string
	SecurityOpt []string
	Seccomp     string // a profile in docker's format, or seccompOff; "" is the engine's default
	Memory      int64  // 0 is no limit; swap is never added
	NanoCPUs    int64
	PIDs        int64
	Storage     int64
	Mounts      []mountRequest
	OOMScoreAdj int
}

// mountRequest is a mount to be made.
type mountRequest struct {
	Bind            bool // else tmpfs
	Source, Target  string
	ReadOnly        bool
	NonRecursive    bool // leave out what is mounted below Source
	RecursiveRO     bool // make what is mounted below Source read-only too
	Size, MaxInodes int64
	Mode            uint32
	Owner           *identity // of a tmpfs; nil is root
}

// commitRequest turns a container into an image.
type commitRequest struct {
	Reference string
	Comment   string
	Changes   []string // Dockerfile instructions
}

// containerState is how a container fares.
type containerState struct {
	ID        string
	Name      string
	Image     string // ID of its image
	Labels    map[string]string
	Status    string // "created", "running", "paused", "exited", "removing", "dead"
	Running   bool
	Paused    bool
	OOMKilled bool
	ExitCode  int
	Error     string
	Created   time.Time
}

// containerSummary is a container in a list.
type containerSummary struct {
	ID      string
	Names   []string
	Image   string
	State   string
	Status  string    // for people: "Up 2 minutes"
	Created time.Time // by the engine's clock
	Command string    // program and arguments, as engines show them
	Labels  map[string]string
}

// engineEvent is something that happened to a container.
type engineEvent struct {
	ID       string
	Action   string // as docker names it: "die", "oom", "kill", "pause", "unpause", "destroy"
	ExitCode int    // of die; -1 when the engine left it out
	Signal   string // of kill
	Time     time.Time
}

// rawStream is an attached connection as the engine sends it.
type rawStream struct {
	conn     net.Conn
	buffered []byte // what came with the engine's answer
}
