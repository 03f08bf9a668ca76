//go:build unix && !darwin && !linux

package process

import "github.com/pinfold-dev/pinfold/execution"

// groupMembers cannot list a group here; it names the group by its leader.
func groupMembers(pgid int) []execution.ProcessInfo {
	return []execution.ProcessInfo{{PID: pgid}}
}
