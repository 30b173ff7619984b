// Package devices closes character devices to a group of cgroup v2, where no control file does it: the kernel asks a BPF program
// attached to the group's directory before a device node is opened or made. Package cgroup does it in v1 by
// itself, and takes Deny as an argument for v2, so that the process that starts jobs need not link a BPF library.
//
// Invariants:
//
//  1. A program, once attached, stays until its group is removed, whatever becomes of the process that attached it.
//  2. Programs only take away: the kernel opens a device when the programs of the group and of all groups around it agree,
//     so ours neither widens what systemd or a container runtime has set, nor can a group nested in a job's undo ours.
//  3. Denying the same devices again attaches nothing.
//
// It needs CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN, so root in practice. Before Linux 5.11 each program counts against the
// caller's RLIMIT_MEMLOCK; the error then says so.
package devices
