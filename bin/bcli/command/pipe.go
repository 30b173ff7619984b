package command

import "syscall"

// errPipe is what writing to a closed pipe gives.
const errPipe = syscall.EPIPE
