package simdriver

import (
	"fmt"
	"os"
	"path/filepath"
)

// SetMemoryLimits gives the driver of the node whose state is in stateDir the memory limits of control groups that
// NVIDIA's has from 615 on, or takes them away with all that were set (memory_limits.h).
func SetMemoryLimits(stateDir string, supported bool) error {
	path := filepath.Join(stateDir, "limits")
	var err error
	if supported {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			err = f.Close()
		}
	} else if err = os.Remove(path); os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("simulated memory limits: %w", err)
	}
	return nil
}
