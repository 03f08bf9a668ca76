package proto

import (
	"io/fs"
	"math"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A Method says what a call asks for.
type Method uint8

// The methods.
const (
	MethodStart  Method = 1 + iota // Command; ACK, output on 1 and 2, ExitStatus
	MethodSignal                   // Process, Signal
	MethodKill                     // Process
	MethodResize                   // Process, Size
	MethodOpen                     // Path, Offset, Length; ACK, content on 0
	MethodWrite                    // Path, Mode; content on 0 from the host
	MethodStat                     // Path; FileInfo
	MethodLstat                    // Path; FileInfo
	MethodList                     // Path; ACK, FileInfos on 0
	MethodGlob                     // Path, Pattern; ACK, FileInfos on 0

	MethodStartTask  // Command, Keep; TaskInfo
	MethodTask       // Task; TaskInfo
	MethodWaitTask   // Task; TaskInfo once it has ended
	MethodSignalTask // Task, Signal
	MethodKillTask   // Task
	MethodOutput     // Task, Output, Offset, Length, Follow; ACK, Chunks on 0
	MethodTasks      // ACK, TaskInfos on 0
	MethodNextEvent  // Told; Event, once there is one
	MethodTold       // Told
	MethodShutdown   // the guest ends
	MethodLeave      // the host is about to hang up, for good
	methods
)

// A Call is what a host asks for. Which fields count depends on the method.
type Call struct {
	Method  Method
	Process uint64 // the host's number for a process, given with MethodStart
	Command Command
	Signal  execution.Signal
	Size    execution.TerminalSize
	Path    string
	Pattern string
	Offset  int64
	Length  int64
	Mode    fs.FileMode
	Task    string
	Keep    int64
	Output  execution.OutputStream
	Follow  bool
	Told    uint64
}

// A Command is an execution.Command as it travels: which streams there are
// instead of the streams.
type Command struct {
	execution.Command
	HasStdin, HasStdout, HasStderr bool
}

// Encode returns the payload of a CALL.
func (c *Call) Encode() []byte {
	e := encoder{make([]byte, 0, 128)}
	e.byte(byte(c.Method))
	switch c.Method {
	case MethodStart:
		e.uint(c.Process)
		e.command(&c.Command)
	case MethodSignal:
		e.uint(c.Process)
		e.uint(uint64(c.Signal)) //nolint:gosec // checked by the caller
	case MethodKill:
		e.uint(c.Process)
	case MethodResize:
		e.uint(c.Process)
		e.size(c.Size)
	case MethodOpen:
		e.string(c.Path)
		e.int(c.Offset)
		e.int(c.Length)
	case MethodWrite:
		e.string(c.Path)
		e.uint(uint64(c.Mode))
	case MethodStat, MethodLstat, MethodList:
		e.string(c.Path)
	case MethodGlob:
		e.string(c.Path)
		e.string(c.Pattern)
	case MethodStartTask:
		e.command(&c.Command)
		e.int(c.Keep)
	case MethodTask, MethodWaitTask, MethodKillTask:
		e.string(c.Task)
	case MethodSignalTask:
		e.string(c.Task)
		e.uint(uint64(c.Signal)) //nolint:gosec // checked by the caller
	case MethodOutput:
		e.string(c.Task)
		e.byte(byte(c.Output))
		e.int(c.Offset)
		e.int(c.Length)
		e.bool(c.Follow)
	case MethodNextEvent, MethodTold:
		e.uint(c.Told)
	case MethodTasks, MethodShutdown, MethodLeave, methods:
	}
	return e.b
}

// DecodeCall reads the payload of a CALL.
func DecodeCall(b []byte) (*Call, error) {
	d := decoder{b: b}
	c := &Call{Method: Method(d.byte())}
	switch c.Method {
	case MethodStart:
		c.Process = d.uint(math.MaxUint64)
		d.command(&c.Command)
	case MethodSignal:
		c.Process = d.uint(math.MaxUint64)
		c.Signal = execution.Signal(d.uint(64)) //nolint:gosec // at most 64
	case MethodKill:
		c.Process = d.uint(math.MaxUint64)
	case MethodResize:
		c.Process = d.uint(math.MaxUint64)
		c.Size = d.size()
	case MethodOpen:
		c.Path = d.string(len(b))
		c.Offset = d.int(math.MinInt64, math.MaxInt64)
		c.Length = d.int(math.MinInt64, math.MaxInt64)
	case MethodWrite:
		c.Path = d.string(len(b))
		c.Mode = fs.FileMode(d.uint(math.MaxUint32)) //nolint:gosec // bounded
	case MethodStat, MethodLstat, MethodList:
		c.Path = d.string(len(b))
	case MethodGlob:
		c.Path = d.string(len(b))
		c.Pattern = d.string(len(b))
	case MethodStartTask:
		d.command(&c.Command)
		c.Keep = d.int(math.MinInt64, math.MaxInt64)
	case MethodTask, MethodWaitTask, MethodKillTask:
		c.Task = d.string(len(b))
	case MethodSignalTask:
		c.Task = d.string(len(b))
		c.Signal = execution.Signal(d.uint(64)) //nolint:gosec // at most 64
	case MethodOutput:
		c.Task = d.string(len(b))
		c.Output = execution.OutputStream(d.byte())
		c.Offset = d.int(math.MinInt64, math.MaxInt64)
		c.Length = d.int(math.MinInt64, math.MaxInt64)
		c.Follow = d.bool()
	case MethodNextEvent, MethodTold:
		c.Told = d.uint(math.MaxUint64)
	case MethodTasks, MethodShutdown, MethodLeave:
	default:
		d.fail("method %d", c.Method)
	}
	return c, d.end()
}

func (e *encoder) size(s execution.TerminalSize) {
	e.uint(uint64(s.Rows))
	e.uint(uint64(s.Cols))
}

func (d *decoder) size() (s execution.TerminalSize) {
	s.Rows = uint16(d.uint(math.MaxUint16)) //nolint:gosec // bounded
	s.Cols = uint16(d.uint(math.MaxUint16)) //nolint:gosec // bounded
	return s
}

func (e *encoder) command(c *Command) {
	e.strings(c.Args)
	e.string(c.Shell)
	e.string(c.Dir)
	e.strings(c.Env)
	e.bool(c.HasStdin)
	e.bool(c.HasStdout)
	e.bool(c.HasStderr)
	e.int(int64(c.Timeout))
	e.int(c.OutputLimit)
	e.int(int64(c.Grace))
	e.bool(c.TTY != nil)
	if c.TTY != nil {
		e.size(*c.TTY)
	}
}

func (d *decoder) command(c *Command) {
	size := len(d.b)
	c.Args = d.strings()
	c.Shell = d.string(size)
	c.Dir = d.string(size)
	c.Env = d.strings()
	c.HasStdin = d.bool()
	c.HasStdout = d.bool()
	c.HasStderr = d.bool()
	c.Timeout = time.Duration(d.int(math.MinInt64, math.MaxInt64))
	c.OutputLimit = d.int(math.MinInt64, math.MaxInt64)
	c.Grace = time.Duration(d.int(math.MinInt64, math.MaxInt64))
	if d.bool() {
		size := d.size()
		c.TTY = &size
	}
}
