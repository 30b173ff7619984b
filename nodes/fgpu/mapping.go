package fgpu

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The only unsafe code of the package: memory seen as the layout of the files.

const (
	sliceSize = int(unsafe.Sizeof(sliceFile{}))
	usageSize = int(unsafe.Sizeof(usageFile{}))
)

// mapSlice maps a slice file, which must have its full size and an owner who does not shrink it.
func mapSlice(f *os.File, writable bool) (*sliceFile, error) {
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, sliceSize, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return (*sliceFile)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}

func (s *sliceFile) unmap() error { return unix.Munmap(s.bytes()) }

func (s *sliceFile) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), sliceSize) }

func (u *usageFile) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(u)), usageSize) }

const (
	slotsOffset = int64(unsafe.Offsetof(usageFile{}.slot))
	slotSize    = int64(unsafe.Sizeof(usageSlot{}))
	slotKeySize = int64(unsafe.Sizeof(usageSlot{}.key))
)

// slotOffset is where a slot lies in the usage file; it begins with its key.
func slotOffset(i int) int64 { return slotsOffset + int64(i)*slotSize }
