package cgroup_test

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"fairslice/nodes/cgroup"
	"fairslice/nodes/cgroup/devices"
)

// The tests of package cgroup itself cannot import what imports it.
func init() { cgroup.DenyV2, cgroup.TryV2 = devices.Deny, try }

// try attaches the smallest program and takes it away again.
func try(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer prog.Close()
	at := link.RawAttachProgramOptions{Target: fd, Program: prog, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI}
	if err := link.RawAttachProgram(at); err != nil {
		return err
	}
	return link.RawDetachProgram(link.RawDetachProgramOptions{Target: fd, Program: prog, Attach: ebpf.AttachCGroupDevice})
}
