package sif

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/sylabs/sif/v2/pkg/sif"
)

// fake is a SIF file whose squashfs is only a superblock.
func fake(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, 700) // small, for the fuzz tests
	put := func(at int, v any) {
		if _, err := binary.Encode(b[at:], binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	put(0, uint32(squashMagic))
	put(4, uint32(3))
	put(12, uint32(1<<17))
	put(20, uint16(1))
	put(22, uint16(17))
	put(28, uint16(4))
	put(40, uint64(690))
	for i, at := range []int{48, 56, 64, 72, 80, 88} {
		put(at, uint64(100+90*i))
	}
	labels, err := sif.NewDescriptorInput(sif.DataLabels, strings.NewReader(`{"a": "b", "n": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	def, err := sif.NewDescriptorInput(sif.DataDeffile, strings.NewReader("Bootstrap: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(b), sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, "amd64"), sif.OptObjectAlignment(1))
	if err != nil {
		t.Fatal(err)
	}
	out := sif.NewBuffer(nil)
	if _, err := sif.CreateContainer(out, sif.OptCreateDeterministic(), sif.OptCreateWithDescriptorCapacity(4), sif.OptCreateWithDescriptors(labels, def, part)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestParseDamaged(t *testing.T) {
	good := fake(t)
	c, err := parse(sif.NewBuffer(slices.Clone(good)), int64(len(good)))
	if err != nil || c.info.Labels["a"] != "b" || c.info.Labels["n"] != "1" || c.info.Definition != "Bootstrap: x\n" || c.info.Arch != "amd64" || c.info.Files != 3 {
		t.Fatalf("%+v, %v", c.info, err)
	}
	root := int(c.root.Offset())
	descr := func(i, at int) int { return 4096 + i*descriptorSize + at }
	for _, row := range []struct {
		what string
		at   int
		put  any
		want string
	}{
		{"another magic", magicAt, byte('X'), "does not begin like one"},
		{"another version", versionAt, byte('9'), "SIF version \"91\" is unknown"},
		{"a huge table", numbersAt + 8, int64(1 << 40), "a table of 1099511627776 descriptors"},
		{"a negative table", numbersAt + 8, int64(-1), "a table of -1 descriptors"},
		{"a table outside", numbersAt + 16, int64(1 << 62), "the table of descriptors"},
		{"data outside", numbersAt + 40, int64(1 << 62), "cut off"},
		{"an object outside", descr(2, 17), int64(1 << 50), "object 3 (FS, 700 bytes at 1125899906842624) is not in the file"},
		{"an object at a negative place", descr(0, 17), int64(-5), "object 1"},
		{"a partition that is too long", descr(2, 25), int64(1 << 40), "object 3"},
		{"a partition of another type", descr(2, 201), uint32(2), "of type Ext3; want squashfs"},
		{"an encrypted one", descr(2, 201), uint32(5), "is encrypted"},
		{"not the primary one", descr(2, 205), uint32(4), "of kind Overlay"},
		{"no architecture", descr(2, 209), byte('9'), "for what architecture"},
		{"no partition", descr(2, 4), byte(0), "holds no file system"},
		{"two partitions", descr(0, 0), uint32(0x4004), "file system"},
		{"no squashfs", root, uint32(0), "is not squashfs 4.0"},
		{"lzma", root + 20, uint16(2), "compression 2, which the kernel cannot read"},
		{"more than the partition", root + 40, uint64(1 << 40), "it needs 1099511627776 bytes, and has 700"},
		{"many files", root + 4, uint32(1 << 31), "has 2147483648 files"},
		{"odd blocks", root + 12, uint32(77), "blocks of 77 bytes"},
		{"a table of the squashfs outside", root + 64, uint64(1 << 50), "the inode table is at"},
		{"a root outside", root + 32, uint64(1 << 60), "there is no root directory"},
	} {
		b := slices.Clone(good)
		if _, err := binary.Encode(b[row.at:], binary.LittleEndian, row.put); err != nil {
			t.Fatal(err)
		}
		if _, err := parse(sif.NewBuffer(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", row.what, err, row.want)
		}
	}
	for i := range good[:len(good)-100] {
		if i > 5000 && i%97 != 0 {
			continue
		}
		if _, err := parse(sif.NewBuffer(slices.Clone(good[:i])), int64(i)); err == nil {
			t.Fatalf("cut off at %d of %d: nothing is said", i, len(good))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fake(f), uint16(0), int64(0))
	f.Add(fake(f), uint16(numbersAt+8), int64(1<<40))
	f.Add(fake(f), uint16(4096+17), int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, v int64) {
		if int(at)+8 <= len(data) { // numbers at places are what a header is made of
			binary.LittleEndian.PutUint64(data[at:], uint64(v))
		}
		c, err := parse(sif.NewBuffer(data), int64(len(data)))
		if err == nil && !fits(c.root.Offset(), c.root.Size(), int64(len(data))) {
			t.Fatalf("a partition of %d bytes at %d in a file of %d", c.root.Size(), c.root.Offset(), len(data))
		}
	})
}
