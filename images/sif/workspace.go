package sif

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fairslice/images"
)

// leftover is how the names of everything temporary begin. Whoever made it holds a lock: on the file itself, or on the
// file named lockName in the directory. The programs that are run hold it too.
const (
	leftover = ".fairslice-sif-"
	lockName = "lock"
)

// Sweep removes what killed processes have left in a folder in which images are made (Options.Temp, and that of dst). What
// a living process is at work on stays.
func Sweep(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sweep images: %w", err)
	}
	var problems []error
	for _, at := range list {
		if !strings.HasPrefix(at.Name(), leftover) {
			continue
		}
		name := filepath.Join(dir, at.Name())
		if err := sweepOne(name, at.IsDir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("sweep images: %w", errors.Join(problems...))
	}
	return nil
}

func sweepOne(name string, isDir bool) error {
	lock := name
	if isDir {
		lock = filepath.Join(name, lockName)
	}
	f, err := os.OpenFile(lock, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if isDir && errors.Is(err, fs.ErrNotExist) {
		return os.Remove(name) // just made, or nearly removed: it is empty, and a maker that loses it takes another
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !tryLock(f) {
		return nil
	}
	if isDir {
		return removeWorkspace(name)
	}
	return os.Remove(name)
}

func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// lockedAt says that f is locked now and still what the name stands for: a sweeper may have come between.
func lockedAt(f *os.File, name string) bool {
	if !tryLock(f) {
		return false
	}
	mine, err1 := f.Stat()
	named, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}

// workspace is a private directory for one piece of work.
type workspace struct {
	path string
	lock *os.File
}

// newWorkspace makes one in dir. Close removes it.
func newWorkspace(dir string) (*workspace, error) {
	for range 10 {
		p, err := os.MkdirTemp(dir, leftover)
		if err != nil {
			return nil, fmt.Errorf("make a working directory: %w", err)
		}
		name := filepath.Join(p, lockName)
		lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a working directory: %w", err), os.Remove(p))
		}
		if lockedAt(lock, name) {
			return &workspace{p, lock}, nil
		}
		lock.Close()
	}
	return nil, fmt.Errorf("make a working directory in %s: others keep removing it, or the file system has no locks", dir)
}

// sub makes a directory in it, for a user where as is set.
func (w *workspace) sub(name string, as *syscall.Credential) (string, error) {
	p := filepath.Join(w.path, name)
	if err := os.Mkdir(p, 0o700); err != nil {
		return "", err
	}
	if as == nil {
		return p, nil
	}
	// The user has to come through, and no further.
	return p, errors.Join(os.Chmod(w.path, 0o711), os.Chown(p, int(as.Uid), int(as.Gid)))
}

// Close removes it with all that is in it.
func (w *workspace) Close() error {
	err := removeWorkspace(w.path)
	return errors.Join(err, w.lock.Close())
}

// removeWorkspace removes the lock last, so that one that is half removed is still found to be nobody's.
func removeWorkspace(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, at := range list {
		if at.Name() == lockName {
			continue
		}
		name := filepath.Join(dir, at.Name())
		if os.RemoveAll(name) != nil {
			// Trees that programs unpack have directories that even their owner cannot change.
			openUp(name)
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}

func openUp(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	// Best effort: the removal that follows says what could not be done.
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, 0o700)
		}
		if err != nil && d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// target is the file that becomes dst.
type target struct {
	*os.File
	dst string
}

// newTarget makes one beside dst.
func newTarget(dst string) (*target, error) {
	for range 10 {
		f, err := os.CreateTemp(filepath.Dir(dst), leftover)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", dst, err)
		}
		if lockedAt(f, f.Name()) {
			return &target{f, dst}, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("write %s: others keep removing the new file, or the file system has no locks", dst)
}

// discard removes it, unless it was committed.
func (t *target) discard() {
	if t.File != nil {
		os.Remove(t.Name()) // Sweep would find it
		t.File.Close()
	}
}

// commit checks what was written, and gives it its name. digest is of what was written; nil: it is read again for that.
func (t *target) commit(ctx context.Context, digest hash.Hash, mode fs.FileMode) (Info, error) {
	st, err := t.Stat()
	if err != nil {
		return Info{}, err
	}
	info, err := inspect(ctx, t.File, st.Size())
	if err != nil {
		return Info{}, err
	}
	if digest == nil {
		digest = sha256.New()
		if _, err := io.Copy(digest, io.NewSectionReader(reading{ctx, t.File}, 0, st.Size())); err != nil {
			return Info{}, err
		}
	}
	info.Digest = images.DigestOf(digest.Sum(nil))
	if mode == 0 {
		mode = 0o644
	}
	err = t.Chmod(mode)
	if err == nil {
		err = t.Sync()
	}
	if err == nil {
		err = os.Rename(t.Name(), t.dst)
	}
	if err != nil {
		return Info{}, fmt.Errorf("write %s: %w", t.dst, err)
	}
	err = errors.Join(t.Close(), syncDir(filepath.Dir(t.dst)))
	t.File = nil
	return info, err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// place copies a SIF file to dst, and judges the copy, which nobody else can change.
func place(ctx context.Context, src *os.File, size int64, dst string, o Options) (Info, error) {
	t, err := newTarget(dst)
	if err != nil {
		return Info{}, err
	}
	defer t.discard()
	sum := sha256.New()
	p := o.progress(StageCopy, size)
	in := io.NewSectionReader(reading{ctx, src}, 0, size)
	n, err := io.Copy(io.MultiWriter(t.File, sum, p), in)
	if err == nil && n != size {
		err = fmt.Errorf("it shrank from %d to %d bytes while it was read", size, n)
	}
	if err != nil {
		return Info{}, fmt.Errorf("copy %s to %s: %w", src.Name(), dst, err)
	}
	info, err := t.commit(ctx, sum, o.Mode)
	if err != nil {
		return Info{}, fmt.Errorf("%s: %w", src.Name(), err)
	}
	return info, nil
}
