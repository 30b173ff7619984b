package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ListenUnix opens the Unix socket at path, for every user of the machine. A socket that a dead
// daemon left is replaced; one that answers is an error, so that two daemons never share a name.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		info, statErr := os.Lstat(path)
		if statErr != nil || info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("listen on %s: something that is no socket has this name", path)
		}
		if c, dialErr := net.DialTimeout("unix", path, time.Second); dialErr == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen on %s: another daemon answers there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return l, nil
}
