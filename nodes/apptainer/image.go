package apptainer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Why an image cannot be used; CheckImage's errors wrap one of them.
var (
	ErrImageMissing    = errors.New("there is no such image file")
	ErrImageUnreadable = errors.New("the image file cannot be read")
	ErrImageCorrupt    = errors.New("the file is not a whole SIF image")
)

// The global header of a SIF file, little endian: where its parts lie, and that they lie within the file.
const (
	sifHeaderSize  = 128
	sifMagicAt     = 32
	sifMagic       = "SIF_MAGIC\x00"
	sifFreeAt      = 80 // unused descriptors, then: total, where the table lies, its size, where the data lie, their size
	sifDescriptor  = 585
	sifPartition   = 0x4004 // data type of a file system
	sifDescUsedAt  = 4
	sifDescPlaceAt = 17 // offset, size
)

// CheckImage tells a usable SIF file from a missing, an unreadable and a damaged one, by its headers: it reads
// a few KiB, not the image. Run it as the job's user, or unreadable cannot be seen.
func CheckImage(path string) error {
	// Without the flag, opening a named pipe would wait for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("image %s: %w", path, ErrImageMissing)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w (%w)", path, ErrImageUnreadable, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("image %s: %w (%w)", path, ErrImageUnreadable, err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("image %s: %w (it is not a regular file)", path, ErrImageCorrupt)
	}
	if err := checkSIF(f, st.Size()); err != nil {
		return fmt.Errorf("image %s: %w", path, err)
	}
	return nil
}

func checkSIF(f io.ReaderAt, size int64) error {
	corrupt := func(why string) error { return fmt.Errorf("%w (%s)", ErrImageCorrupt, why) }
	header := make([]byte, sifHeaderSize)
	if size < sifHeaderSize {
		return corrupt(fmt.Sprintf("it has only %d bytes", size))
	}
	if _, err := f.ReadAt(header, 0); err != nil {
		return fmt.Errorf("%w (%w)", ErrImageUnreadable, err)
	}
	if string(header[sifMagicAt:sifMagicAt+len(sifMagic)]) != sifMagic {
		return corrupt("it does not begin like one")
	}
	field := func(i int) int64 { return int64(binary.LittleEndian.Uint64(header[sifFreeAt+8*i:])) }
	total, tableAt, tableSize, dataAt, dataSize := field(1), field(2), field(3), field(4), field(5)
	if !fits(dataAt, dataSize, size) || !fits(tableAt, tableSize, size) || total < 0 || total > tableSize/sifDescriptor {
		return corrupt(fmt.Sprintf("it is cut off, or its header is damaged: it has %d bytes, and should have %d", size, dataAt+dataSize))
	}

	partitions := 0
	descriptor := make([]byte, sifDescriptor)
	for i := range total {
		if _, err := f.ReadAt(descriptor, tableAt+i*sifDescriptor); err != nil {
			return fmt.Errorf("%w (%w)", ErrImageUnreadable, err)
		}
		if descriptor[sifDescUsedAt] == 0 {
			continue
		}
		at := int64(binary.LittleEndian.Uint64(descriptor[sifDescPlaceAt:]))
		length := int64(binary.LittleEndian.Uint64(descriptor[sifDescPlaceAt+8:]))
		if !fits(at, length, size) {
			return corrupt(fmt.Sprintf("part %d of it is cut off", i+1))
		}
		if binary.LittleEndian.Uint32(descriptor) == sifPartition {
			partitions++
		}
	}
	if partitions == 0 {
		return corrupt("it holds no file system")
	}
	return nil
}

// fits reports whether length bytes at the given place lie within size bytes; hostile numbers must not overflow.
func fits(at, length, size int64) bool {
	return at >= 0 && length >= 0 && at <= size && length <= size-at
}
