package shepherd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// heedInternalSignals undoes what glibc's posix_spawn leaves behind: a program started by it (by make, for one)
// ignores the two signals that glibc keeps for itself, which package signal does not know, and so would every job.
func heedInternalSignals() {
	var byDefault struct { // the kernel's struct sigaction
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for _, sig := range []uintptr{32, 33} {
		// It cannot fail for a valid signal and address; a job that ignores one of these would not notice either.
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, unsafe.Sizeof(byDefault.mask), 0, 0)
	}
}
