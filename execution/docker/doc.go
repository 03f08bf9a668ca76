// Package docker makes sandboxes that are containers of a Docker or Podman
// engine, one container per handle.
//
// # The life of a sandbox
//
// [New] finds the engine as the docker command does. Spawn then
//
//  1. validates the spec and refuses what must never be mounted or joined,
//     before the engine is asked (refuse.go);
//  2. ensures the image, and an image derived from it that also holds the
//     guest: made once per image and guest, and reused by every process that
//     uses the engine (derive.go);
//  3. creates a container with the controls of the profile (profile.go),
//     attaches to it and starts it. Its first process is the guest, and the
//     attached stream is the only way in;
//  4. greets the guest and compares what the kernel tells inside with what was
//     asked for (verify.go). A control that does not hold fails Spawn.
//
// Commands and files are the guest's work. This package only watches the
// container's life: the engine's events tell when it is paused, killed or out
// of memory, and why (events.go, explain.go). Destroy removes the container by
// force. A host that dies leaves nothing: the stream ends, the guest exits, and
// the engine removes the container.
//
// # What holds
//
// The default profile is for code that nobody has looked at: user 1000:1000,
// no capabilities, no-new-privileges, a system call filter that is stricter
// than the engine's, no network, 2 GiB of memory without swap, 512 processes, a
// bounded share of the processors. [execution.ProfileDev] runs as root with the
// few capabilities that package managers need, under the same limits and
// filter.
//
// Under gVisor some of it is different, since its kernel stands between. The
// limits on memory and processors hold for the sandbox as a whole: one that
// needs too much memory is lost, with that reason, where elsewhere a single
// command ends with it. Spawn refuses a limit on processes, also the default
// one, unless it is relaxed, and Start refuses a terminal. The system call
// filter is gVisor's own. The first process can be killed from inside, and the
// sandbox is then lost.
//
// Nothing here trusts the container once it has started: the engine's file
// copy is only used on containers that never ran.
package docker
