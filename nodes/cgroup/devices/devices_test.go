package devices

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"fairslice/nodes/cgroup"
)

// run interprets a program as the kernel is given it, on one question: the kind of device, what is to be done, and the numbers. It
// knows the instructions that we use, by their codes in the kernel's documentation (bpf/standardization/instruction-set.rst),
// and refuses every other, every jump out of the program or back, and reading outside of the context.
func run(code []byte, kind, access, major, minor uint32) (uint64, error) {
	context := binary.LittleEndian.AppendUint32(nil, access<<16|kind)
	context = binary.LittleEndian.AppendUint32(context, major)
	context = binary.LittleEndian.AppendUint32(context, minor)
	var r [11]uint64
	written := [11]bool{1: true}
	for pc := 0; ; pc++ {
		if pc*8+8 > len(code) {
			return 0, fmt.Errorf("runs out of the program at %d", pc)
		}
		in := code[pc*8 : pc*8+8]
		op, dst, src := in[0], in[1]&15, in[1]>>4
		offset, imm := int16(binary.LittleEndian.Uint16(in[2:])), int32(binary.LittleEndian.Uint32(in[4:]))
		if dst > 10 || src > 10 {
			return 0, fmt.Errorf("instruction %d: register %d or %d", pc, dst, src)
		}
		if (op == 0x57 || op == 0x15 || op == 0x55) && !written[dst] {
			return 0, fmt.Errorf("instruction %d reads register %d, which nothing has written", pc, dst)
		}
		taken := false
		switch op {
		case 0x61: // r = *(u32 *)(src + offset)
			if src != 1 || offset < 0 || int(offset)+4 > len(context) || offset%4 != 0 {
				return 0, fmt.Errorf("instruction %d reads at %d", pc, offset)
			}
			r[dst], written[dst] = uint64(binary.LittleEndian.Uint32(context[offset:])), true
		case 0x57: // r &= imm
			r[dst] &= uint64(int64(imm))
		case 0xb7: // r = imm
			r[dst], written[dst] = uint64(int64(imm)), true
		case 0x15: // jump if r == imm
			taken = r[dst] == uint64(int64(imm))
		case 0x55: // jump if r != imm
			taken = r[dst] != uint64(int64(imm))
		case 0x95: // exit
			if !written[0] {
				return 0, fmt.Errorf("instruction %d ends without a result", pc)
			}
			return r[0], nil
		default:
			return 0, fmt.Errorf("instruction %d: code %#x", pc, op)
		}
		if taken {
			if offset < 0 {
				return 0, fmt.Errorf("instruction %d jumps back by %d", pc, offset)
			}
			pc += int(offset)
		}
	}
}

func compile(t interface{ Fatal(...any) }, devices []cgroup.Device) []byte {
	spec, err := program(devices)
	if err != nil {
		t.Fatal(err)
	}
	var code bytes.Buffer
	if err := spec.Instructions.Marshal(&code, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	return code.Bytes()
}

func TestProgramRefusesExactlyTheDevices(t *testing.T) {
	number := func(end uint32) *rapid.Generator[uint32] {
		return rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32Range(end-2, end-1), rapid.Uint32Range(0, end-1))
	}
	device := rapid.Custom(func(t *rapid.T) cgroup.Device {
		return cgroup.Device{Major: number(1<<12).Draw(t, "major"), Minor: number(1<<20).Draw(t, "minor")}
	})
	rapid.Check(t, func(t *rapid.T) {
		denied := rapid.SliceOfN(device, 1, 20).Draw(t, "denied")
		code := compile(t, denied)
		asked := rapid.SliceOfN(device, 1, 20).Draw(t, "asked")
		for _, d := range append(asked, denied...) {
			kind := rapid.Uint32Range(0, 3).Draw(t, "kind")
			access := rapid.Uint32Range(0, 7).Draw(t, "access")
			want := uint64(1)
			if kind == kindChar && slices.Contains(denied, d) {
				want = 0
			}
			if got, err := run(code, kind, access, d.Major, d.Minor); err != nil || got != want {
				t.Fatalf("denied %v: kind %d of %v: %d, %v; want %d", denied, kind, d, got, err, want)
			}
		}
		// A major number that no device has, but that is equal in the bits one may have looked at.
		if got, err := run(code, kindChar, 2, denied[0].Major|1<<31, denied[0].Minor); err != nil || got != 1 {
			t.Fatalf("%d, %v", got, err)
		}
	})
}

func TestEqualSetsGiveEqualPrograms(t *testing.T) {
	a, b, c := cgroup.Device{Major: 195, Minor: 1}, cgroup.Device{Major: 195, Minor: 2}, cgroup.Device{Major: 7, Minor: 3}
	given := []cgroup.Device{b, a, c, a}
	if !bytes.Equal(compile(t, []cgroup.Device{a, b, c}), compile(t, given)) {
		t.Error("order and repetition show")
	}
	if !slices.Equal(given, []cgroup.Device{b, a, c, a}) {
		t.Errorf("the caller's list became %v", given)
	}
	if bytes.Equal(compile(t, []cgroup.Device{a, b}), compile(t, []cgroup.Device{a, c})) {
		t.Error("different sets give one program")
	}
}

func many(n int) (out []cgroup.Device) {
	for i := range n {
		out = append(out, cgroup.Device{Major: 195, Minor: uint32(i)})
	}
	return out
}

func TestBadDevicesAreRefused(t *testing.T) {
	for name, bad := range map[string][]cgroup.Device{
		"a major number": {{Major: 1 << 12}}, "a minor number": {{Major: 195}, {Minor: 1 << 20}}, "too many": many(maxDevices + 1),
	} {
		if err := Deny(t.TempDir(), bad); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if n := len(compile(t, many(maxDevices))) / 8; n > 4096 {
		t.Errorf("the largest program has %d instructions", n)
	}
	if err := Deny(filepath.Join(t.TempDir(), "gone"), many(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := Deny("/nowhere", nil); err != nil {
		t.Errorf("nothing to deny: %v", err)
	}
}

// group is a new group in the unified hierarchy, on which the kernel takes device programs.
func group(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[2] != "cgroup2" {
			continue
		}
		dir := filepath.Join(f[1], fmt.Sprintf("fairslice-test-devices-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip("NOT CHECKED with the kernel: ", err)
		}
		t.Cleanup(func() {
			if err := unix.Rmdir(dir); err != nil {
				t.Error(err)
			}
		})
		all, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
		if err != nil {
			t.Skip("NOT CHECKED with the kernel, which takes no device program at all: ", err)
		}
		if err := all.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Skip("NOT CHECKED with the kernel: no unified hierarchy is mounted")
	return ""
}

// count returns how many device programs the group itself has.
func count(t *testing.T, dir string) int {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	there, err := link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		t.Fatal(err)
	}
	return len(there.Programs)
}

// What the attached programs do to processes is tested in package cgroup, where groups are.
func TestKernelTakesEachSetOnce(t *testing.T) {
	dir := group(t)
	a, b := cgroup.Device{Major: 1, Minor: 7}, cgroup.Device{Major: 1, Minor: 5}
	for i, step := range []struct {
		deny []cgroup.Device
		want int
	}{
		{nil, 0}, {[]cgroup.Device{a}, 1}, {[]cgroup.Device{a}, 1}, {[]cgroup.Device{b, a}, 2}, {[]cgroup.Device{a, b, a}, 2}, {[]cgroup.Device{a}, 2},
	} {
		if err := Deny(dir, step.deny); err != nil {
			t.Fatal(err)
		}
		if got := count(t, dir); got != step.want {
			t.Errorf("step %d: %d programs, want %d", i, got, step.want)
		}
	}
}

func TestKernelTakesTheLargestProgram(t *testing.T) {
	if err := Deny(group(t), many(maxDevices)); err != nil {
		t.Error(err)
	}
}

func TestNotAGroupIsRefused(t *testing.T) {
	group(t) // or skipped
	dir := t.TempDir()
	if err := Deny(dir, many(1)); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}

func BenchmarkDeny(b *testing.B) {
	top := "/sys/fs/cgroup"
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
		top = "/sys/fs/cgroup/unified"
	}
	dir := filepath.Join(top, fmt.Sprintf("fairslice-test-bench-%d", os.Getpid()))
	for b.Loop() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Skip(err)
		}
		err := Deny(dir, many(15))
		if err2 := unix.Rmdir(dir); err != nil || err2 != nil {
			b.Fatal(err, err2)
		}
	}
}
