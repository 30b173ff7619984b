// Package cgroup keeps the processes of one attempt together: it bounds their memory and CPU, closes devices to them, counts what
// they use, stops them, and ends them, however they fork. It knows nothing of jobs; a group has a name.
//
// Three modes, found by New:
//
//	V1    one directory per group in each of the memory, cpu, cpuacct and freezer hierarchies (some may be
//	      mounted together, some may be missing; memory must be there). A group that denies devices has one
//	      in the devices hierarchy too.
//	V2    one directory in the unified hierarchy, with its memory controller.
//	None  no usable hierarchy, as for an ordinary user without a delegated one. A group is then found by
//	      a mark in the environment (Group.Env), by session and by descent. Memory is only watched, not limited,
//	      and a process that clears its environment, leaves its session and outlives its parent between two
//	      looks at it escapes.
//
// What holds in V1 and V2:
//  1. What Start's function forks is born in the group: there is no instant at which it is outside.
//  2. Kill leaves no process behind, also against one that forks as fast as it can.
//  3. Pids and GroupOf never name the process that starts jobs, although in V1 one of its threads is in the group for
//     the length of a fork.
//  4. No process of a group opens a device that Limits.Deny names, or makes a node of it, as root neither, nor from a group it
//     nests; that outlives the process that denied it. Where it cannot be had, CannotDeny says why and Create fails rather than go
//     without. It binds the job's user: who is root and may write the cgroup file system can leave any group.
//
// The code is our own and small, instead of github.com/containerd/cgroups: that package brings eBPF, D-Bus,
// protobuf and a logger into the process that starts jobs, whose start time and memory count, it reads every file of
// every controller for one figure, and it has no means for a birth inside a v1 group. Devices in V2 do need eBPF: package
// nodes/cgroup/devices has it, and only noded links that.
package cgroup
