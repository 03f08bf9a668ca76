// Package process runs commands on this host, as the user of this program.
//
// # THERE IS NO ISOLATION
//
// This package is no sandbox. A command can read and write every file that this
// program can, reach the network, talk to the user's other processes and kill
// them, this program included. Use it for commands that you would type into
// your own shell, or inside of something that does isolate: the guest of a
// container runs this very code there. For commands that nobody has looked at,
// use package docker.
//
// What it does promise is the rest of the contract of package execution:
// endings, byte-exact output, files, and on Linux a kill with proof.
//
// # The life of a command
//
// [New] forks the nursery: a tiny process without memory or files of this one,
// which forks a supervisor for each command that runs at the same time. The
// supervisor is a child subreaper, and the command's leader is its only child.
// Whatever the command starts, however often it forks, whatever sessions it
// makes and whatever environment it clears, stays below that supervisor, by a
// rule of the kernel. When the kernel says that the supervisor has no child,
// nothing is left of the command: that is the proof behind Process.Kill, and
// the moment when the supervisor can be used again.
//
// A supervisor whose host has gone, also by SIGKILL, kills all that is below it
// and exits. So does the nursery: a host that dies leaves nothing behind.
//
// Some kernels that run Linux programs have no subreapers, such as gVisor's of
// 2022. There a command's processes are told by a mark that they inherit; see
// the type tags. A process that takes pains can change its mark, which is found
// out in the first process of a container, and elsewhere is not.
//
// On other systems than Linux, and on Linux on other processors than amd64 and
// arm64, there are no supervisors. There Kill reaches the command's process
// group only, and Capabilities.ProvenKill says so. On Windows, Spawn fails with
// execution.ErrUnsupported.
//
// # Processes of the same user
//
// A command that wants to can kill its supervisor, since both belong to the
// same user. What was below it then falls to the nursery, where it is found and
// killed, and the command's status says so. Only when the nursery was killed
// first, and this program is not the first process of a container either, is
// there nothing to find it by: then the command ends as execution.EndingLost.
package process
