package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mounters are the programs by which Apptainer shows an image to an ordinary user. They are processes of the job, and end with it.
var mounters = []string{"squashfuse", "squashfuse_ll", "fuse2fs", "fuse-overlayfs"}

// signalAll sends to every process of the job but those that mount its image: without these there is no program and no file in the container, and
// what the job does to end in good order fails. Whoever takes such a name gets no signals but KILL.
func (t *attempt) signalAll(sig syscall.Signal) error {
	pids, err := t.group.Pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // none: it has ended
		if slices.Contains(mounters, strings.TrimSpace(string(name))) {
			continue
		}
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}
