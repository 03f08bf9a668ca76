package process

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/pinfold-dev/pinfold/execution"
)

// groupMembers lists the processes of a group by the names of their programs.
func groupMembers(pgid int) []execution.ProcessInfo {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil {
		return nil
	}
	var infos []execution.ProcessInfo
	for i := range procs[:min(len(procs), execution.MaxLeftovers)] {
		name := procs[i].Proc.P_comm[:]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		infos = append(infos, execution.ProcessInfo{PID: int(procs[i].Proc.P_pid), Command: commandLine(name)})
	}
	return infos
}
