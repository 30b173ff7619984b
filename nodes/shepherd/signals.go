package shepherd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// heedInternalSignals undoes what glibc's posix_spawn leaves behind: a program started by it (by make, for one)
// ignores the two signals that glibc keeps for itself, which package signal does not know, and so would every job.
func heedInternalSignals() {
	type action struct { // the kernel's struct sigaction
		handler, flags, restorer uintptr
		mask                     uint64
	}
	const ignored = 1 // SIG_IGN; anything else is a handler of the C library that this program may be linked with
	for _, sig := range []uintptr{32, 33} {
		var now, byDefault action
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(now.mask), 0, 0)
		if now.handler == ignored {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, unsafe.Sizeof(now.mask), 0, 0)
		}
	}
}
