package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long the kernel may take to freeze, or to let go of, a group.
const settle = 2 * time.Second

// read is os.ReadFile in three system calls instead of six: a job costs several such files.
func read(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		text = text[:len(text)+n]
		if n == 0 {
			return text, nil
		}
		text = slices.Grow(text, 256)
	}
}

// readNumber reads a control file of one number. "max" is the largest; a file that is not there is 0.
func readNumber(path string) (int64, error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(text))
	if s == "max" {
		return math.MaxInt64, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// readKey reads one value of a control file of "key value" lines; 0 when file or key is not there.
func readKey(path, key string) (int64, error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}

// readPids reads a list of process or thread ids. A group that is not there has none.
func readPids(path string) ([]int, error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		if pid > 0 { // 0 is a process of an outer pid namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// tree returns dir and the groups nested in it, parents first.
func tree(dir string) []string {
	out := []string{dir}
	for i := 0; i < len(out); i++ {
		var st unix.Stat_t
		if unix.Stat(out[i], &st) == nil && st.Nlink == 2 {
			continue // the kernel counts the directories in it
		}
		entries, err := os.ReadDir(out[i])
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() {
				out = append(out, filepath.Join(out[i], e.Name()))
			}
		}
	}
	return out
}

// removeTree deletes dir and what is nested in it.
func removeTree(dir string) error {
	return within(settle, func() (bool, error) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return true, nil
		}
		if err == unix.EBUSY {
			for _, nested := range tree(dir)[1:] {
				unix.Rmdir(nested) // a parent fails before its child is gone; the next turn takes it
			}
			return false, nil
		}
		return true, &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	})
}

// within asks step until it says it is done; it returns EBUSY when the time is up.
func within(limit time.Duration, step func() (bool, error)) error {
	end := time.Now().Add(limit)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		done, err := step()
		if done {
			return err
		}
		if time.Now().After(end) {
			return unix.EBUSY
		}
		time.Sleep(pause)
	}
}
