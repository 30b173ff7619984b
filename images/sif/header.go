package sif

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sylabs/sif/v2/pkg/sif"
)

// What is believed of a SIF file's headers. Real files have a table of 48 descriptors, and some KiB of metadata.
const (
	maxDescriptors = 1024
	maxMetadata    = 4 << 20 // bytes of one object that is read into memory
	maxInodes      = 16 << 20
)

// The global header, little endian; the library trusts its numbers, so they are checked before it sees them.
const (
	headerSize     = 128
	magicAt        = 32
	versionAt      = 42
	numbersAt      = 80 // free, total, table's place and size, data's place and size: 8 bytes each
	descriptorSize = 585
)

// checkHeader says why the library must not read a file of this size.
func checkHeader(r io.ReaderAt, size int64) error {
	header := make([]byte, headerSize)
	if size < headerSize {
		return fmt.Errorf("not a SIF file: it has only %d bytes", size)
	}
	if _, err := r.ReadAt(header, 0); err != nil {
		return err
	}
	if !isSIF(header) {
		return errors.New("not a SIF file: it does not begin like one")
	}
	if v := string(header[versionAt : versionAt+2]); v != "01" {
		return fmt.Errorf("SIF version %q is unknown; 01 is known", v)
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(header[numbersAt+8*i:])) }
	total, tableAt, tableSize, dataAt, dataSize := number(1), number(2), number(3), number(4), number(5)
	switch {
	case total < 1 || total > maxDescriptors:
		return fmt.Errorf("damaged: a table of %d descriptors; 1 to %d are possible", total, maxDescriptors)
	case tableAt < headerSize || tableSize < total*descriptorSize || !fits(tableAt, tableSize, size):
		return fmt.Errorf("damaged or cut off: the table of descriptors (%d bytes at %d) is not in the file of %d bytes", tableSize, tableAt, size)
	case !fits(dataAt, dataSize, size):
		return fmt.Errorf("damaged or cut off: it has %d bytes, and should have %d at %d", size, dataSize, dataAt)
	}
	return nil
}

func isSIF(header []byte) bool {
	return len(header) >= headerSize && string(header[magicAt:magicAt+10]) == "SIF_MAGIC\x00"
}

// fits says that length bytes at the given place lie within size bytes; hostile numbers must not overflow.
func fits(at, length, size int64) bool {
	return at >= 0 && length >= 0 && at <= size && length <= size-at
}

// contents are the parts of a SIF file that was found good.
type contents struct {
	info Info
	root sif.Descriptor
}

// parse reads and judges everything of a SIF file but its files and its digest.
func parse(r sif.ReadWriter, size int64) (contents, error) {
	var c contents
	if err := checkHeader(r, size); err != nil {
		return c, err
	}
	f, err := sif.LoadContainer(r, sif.OptLoadWithCloseOnUnload(false))
	if err != nil {
		return c, err
	}
	c.info = Info{Size: size, Created: f.CreatedAt().UTC()}
	roots, oci := 0, false
	numbers := map[uint32]bool{}
	f.WithDescriptors(func(d sif.Descriptor) bool {
		if numbers[d.ID()] { // a signature names objects by their numbers
			err = fmt.Errorf("damaged: two objects have the number %d", d.ID())
			return true
		}
		numbers[d.ID()] = true
		if !fits(d.Offset(), d.Size(), size) || d.Offset() < headerSize {
			err = fmt.Errorf("damaged or cut off: object %d (%s, %d bytes at %d) is not in the file of %d bytes", d.ID(), d.DataType(), d.Size(), d.Offset(), size)
			return true
		}
		switch d.DataType() {
		case sif.DataPartition:
			if roots++; roots > 1 {
				err = errors.New("it holds more than one file system; an image here has one, the squashfs that it runs on")
				return true
			}
			c.root = d
			err = c.partition(d)
		case sif.DataOCIRootIndex, sif.DataOCIBlob:
			oci = true
		default:
			err = c.metadata(d)
		}
		return err != nil
	})
	switch {
	case err != nil:
		return contents{}, err
	case roots == 0 && oci:
		return contents{}, errors.New("an OCI-SIF file, which Apptainer does not run; convert the OCI image that it was made of")
	case roots == 0:
		return contents{}, errors.New("it holds no file system")
	}
	return c, checkSuperblock(r, c.root.Offset(), c.root.Size(), &c.info)
}

func (c *contents) partition(d sif.Descriptor) error {
	fsType, part, arch, err := d.PartitionMetadata()
	switch {
	case err != nil:
		return err
	case fsType == sif.FsEncryptedSquashfs:
		return errors.New("its file system is encrypted; jobs have no key for it")
	case fsType != sif.FsSquash:
		return fmt.Errorf("its file system is of type %s; want squashfs", fsType)
	case part != sif.PartPrimSys:
		return fmt.Errorf("its file system is of kind %s; want a primary system partition", part)
	case arch == "unknown":
		return errors.New("it does not say for what architecture it is")
	}
	c.info.Arch = arch
	return nil
}

func (c *contents) metadata(d sif.Descriptor) error {
	switch t := d.DataType(); t {
	case sif.DataDeffile, sif.DataLabels, sif.DataGenericJSON:
		if t == sif.DataGenericJSON && d.Name() != inspectName {
			return nil
		}
		if d.Size() > maxMetadata {
			return fmt.Errorf("object %d (%s) has %d bytes; at most %d are read", d.ID(), t, d.Size(), maxMetadata)
		}
		data, err := d.GetData()
		if err != nil {
			return fmt.Errorf("read object %d (%s): %w", d.ID(), t, err)
		}
		switch t {
		case sif.DataDeffile:
			c.info.Definition = string(data)
		case sif.DataLabels:
			c.info.Labels, err = parseLabelsFile(data)
		default:
			c.info.Labels, err = parseInspect(data)
		}
		if err != nil {
			return fmt.Errorf("object %d (%s): %w", d.ID(), t, err)
		}
	case sif.DataSignature:
		if d.Size() > maxMetadata {
			return fmt.Errorf("object %d (%s) has %d bytes; at most %d are read", d.ID(), t, d.Size(), maxMetadata)
		}
		_, fingerprint, err := d.SignatureMetadata()
		if err != nil {
			return fmt.Errorf("object %d (%s): %w", d.ID(), t, err)
		}
		c.info.Signatures = append(c.info.Signatures, fmt.Sprintf("%X", fingerprint))
	}
	return nil
}

// The superblock of squashfs 4.0, little endian.
const (
	superblockSize = 96
	squashMagic    = 0x73717368
)

// Compressions by their number in the superblock. The kernel reads no lzma, the second.
var compressions = map[uint16]string{1: "gzip", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}

func checkSuperblock(r io.ReaderAt, at, size int64, info *Info) error {
	b := make([]byte, superblockSize)
	if size < superblockSize {
		return fmt.Errorf("its file system is damaged: it has only %d bytes", size)
	}
	if _, err := r.ReadAt(b, at); err != nil {
		return err
	}
	u16 := func(i int) uint16 { return binary.LittleEndian.Uint16(b[i:]) }
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	place := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[i:])) }
	inodes, block, log, used := u32(4), u32(12), u16(22), place(40)
	compression, known := compressions[u16(20)]
	switch {
	case u32(0) != squashMagic || u16(28) != 4 || u16(30) != 0:
		return errors.New("its file system is not squashfs 4.0")
	case !known:
		return fmt.Errorf("its file system has compression %d, which the kernel cannot read", u16(20))
	case log < 12 || log > 20 || block != 1<<log:
		return fmt.Errorf("its file system is damaged: blocks of %d bytes", block)
	case used < superblockSize || used > size:
		return fmt.Errorf("its file system is damaged or cut off: it needs %d bytes, and has %d", used, size)
	case inodes == 0 || inodes > maxInodes:
		return fmt.Errorf("its file system has %d files; 1 to %d are possible", inodes, maxInodes)
	case u32(16) > inodes: // fragments
		return fmt.Errorf("its file system is damaged: %d fragments of %d files", u32(16), inodes)
	}
	// Tables: ids, inodes and directories are always there; extended attributes, fragments and exports may be -1.
	for i, name := range map[int]string{48: "id", 56: "attribute", 64: "inode", 72: "directory", 80: "fragment", 88: "export"} {
		optional := name == "attribute" || name == "fragment" || name == "export"
		if p := place(i); (p < superblockSize || p >= used) && !(optional && p == -1) {
			return fmt.Errorf("its file system is damaged: the %s table is at %d of %d bytes", name, p, used)
		}
	}
	// The place of the root's inode: a block of the inode table, and within its 8 KiB.
	if root := binary.LittleEndian.Uint64(b[32:]); int64(root>>16) >= used-place(64) || root&0xffff >= 8192 {
		return errors.New("its file system is damaged: there is no root directory")
	}
	info.Compression, info.Files = compression, int(inodes)
	return nil
}
