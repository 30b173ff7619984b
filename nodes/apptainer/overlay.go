package apptainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MakeOverlay makes a file for Options.Overlay, which takes at most size bytes of changes: an empty file system whose bound the kernel,
// or fuse2fs for an ordinary user, keeps. It takes room on the disk as it is filled. One that is there is replaced. The
// caller gives it to the job's user.
func MakeOverlay(ctx context.Context, path string, size int64) error {
	mke2fs, err := findSystem("mke2fs")
	if err != nil {
		return fmt.Errorf("make a writable image: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make a writable image: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make a writable image: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("make a writable image: %w", err)
	}
	// ext3, as Apptainer takes no newer one; a journal, as it takes none without, and the smallest, as nothing survives the job. To
	// root belongs what is the job's user's in his user namespace.
	out, err := exec.CommandContext(ctx, mke2fs, "-q", "-F", "-t", "ext3", "-J", "size=4", "-O", "^resize_inode", "-m", "0",
		"-E", "root_owner=0:0,lazy_itable_init=1", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make a writable image: mke2fs: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// CanOverlay says what a machine lacks for writable images of ordinary users.
func CanOverlay() error {
	for _, name := range []string{"mke2fs", "fuse2fs", "fuse-overlayfs"} {
		if _, err := findSystem(name); err != nil {
			return err
		}
	}
	return nil
}

// findSystem finds a program that an ordinary user's PATH may not have.
func findSystem(name string) (string, error) {
	p, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		p, err = exec.LookPath(filepath.Join(dir, name))
	}
	if err != nil {
		return "", fmt.Errorf("no %s on this machine, which writable images need; etc/setup.sh installs it", name)
	}
	return p, nil
}
