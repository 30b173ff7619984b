package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"fairslice/nodes/cgroup"
)

// maxDevices bounds one program to a size that every kernel's verifier takes (4096 instructions before Linux 5.2).
const maxDevices = 1000

// Deny makes the kernel refuse the devices to every process in the group at dir, a directory of a cgroup2 file system, and in
// groups nested in it. What an earlier call denied stays denied. It is an argument of cgroup.Manager.DenyWith.
func Deny(dir string, devices []cgroup.Device) error {
	if len(devices) == 0 {
		return nil
	}
	spec, err := program(devices)
	if err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	prog, err := ebpf.NewProgram(spec)
	if errors.Is(err, unix.EPERM) && unix.Geteuid() != 0 {
		return errors.New("load device program: only root may") // the library would speak of locked memory
	}
	if err != nil {
		return fmt.Errorf("load device program: %w", err)
	}
	defer prog.Close() // the group keeps it
	is, err := attached(fd, prog)
	if err != nil {
		return fmt.Errorf("device programs of %s: %w", dir, err)
	}
	if is {
		return nil
	}
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: fd, Program: prog, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("attach device program to %s: %w", dir, err)
	}
	return nil
}

// attached tells whether the group has a program of the same instructions already. The kernel's tags say so: a hash of
// them, which loading ours has made the kernel compute in its own way.
func attached(fd int, prog *ebpf.Program) (bool, error) {
	there, err := link.QueryPrograms(link.QueryOptions{Target: fd, Attach: ebpf.AttachCGroupDevice})
	if err != nil || len(there.Programs) == 0 {
		return false, err
	}
	own, err := prog.Info()
	if err != nil {
		return false, fmt.Errorf("inspect: %w", err)
	}
	for _, p := range there.Programs {
		tag, err := tagOf(p.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else's, and just detached
		}
		if err != nil {
			return false, fmt.Errorf("inspect %d: %w", p.ID, err)
		}
		if tag == own.Tag {
			return true, nil
		}
	}
	return false, nil
}

func tagOf(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", err
	}
	return info.Tag, nil
}

// The context of a device program, struct bpf_cgroup_dev_ctx of linux/bpf.h: three words of 32 bits. The low half of the first is
// the kind of device, its high half what is to be done with it, which we need not look at.
const (
	offsetAccess = 0
	offsetMajor  = 4
	offsetMinor  = 8

	kindMask = 0xffff
	kindChar = 2 // BPF_DEVCG_DEV_CHAR
)

// program returns the program that refuses the devices and allows all others. Equal sets give equal programs.
func program(devices []cgroup.Device) (*ebpf.ProgramSpec, error) {
	devices = slices.Clone(devices)
	slices.SortFunc(devices, func(a, b cgroup.Device) int {
		if a.Major != b.Major {
			return int(a.Major) - int(b.Major)
		}
		return int(a.Minor) - int(b.Minor)
	})
	devices = slices.Compact(devices)
	if len(devices) > maxDevices {
		return nil, fmt.Errorf("deny %d devices: at most %d at once", len(devices), maxDevices)
	}
	in := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, offsetAccess, asm.Word),
		asm.And.Imm(asm.R2, kindMask),
		asm.JEq.Imm(asm.R2, kindChar, "char"),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
		asm.LoadMem(asm.R3, asm.R1, offsetMajor, asm.Word).WithSymbol("char"),
		asm.LoadMem(asm.R4, asm.R1, offsetMinor, asm.Word),
		asm.Mov.Imm(asm.R0, 0),
	}
	for i, d := range devices {
		if err := d.Check(); err != nil {
			return nil, err
		}
		in = append(in,
			asm.JNE.Imm(asm.R3, int32(d.Major), label(i+1)).WithSymbol(label(i)),
			asm.JNE.Imm(asm.R4, int32(d.Minor), label(i+1)),
			asm.Return(),
		)
	}
	in = append(in, asm.Mov.Imm(asm.R0, 1).WithSymbol(label(len(devices))), asm.Return())
	return &ebpf.ProgramSpec{
		Name: "fairslice_deny", Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice, Instructions: in, License: "Apache-2.0",
	}, nil
}

func label(i int) string { return "device" + strconv.Itoa(i) }
