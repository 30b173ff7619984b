package shepherd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func validKey(key string) bool {
	if key == "" || key[0] == '.' {
		return false
	}
	for _, c := range key {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.ContainsRune("._-", c)) {
			return false
		}
	}
	return true
}

// ReadStarted returns what was started under key, for a daemon that did not hear the answer. false: nothing was, or
// the shepherd was killed at the instant of the fork, which only Adopt can tell apart.
func ReadStarted(dir, key string) (Started, bool, error) {
	var s Started
	ok, err := readJSON(filepath.Join(dir, key, "pid"), &s)
	return s, ok, err
}

// ReadStatus returns how the job ended, if it is written down. An unreadable file, as after a power loss, is an error.
func ReadStatus(dir, key string) (Exited, bool, error) {
	var e Exited
	ok, err := readJSON(filepath.Join(dir, key, "status"), &e)
	return e, ok, err
}

func readJSON(path string, into any) (bool, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 && filepath.Base(path) == "pid" {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// writeStatus puts the status in place in one step, so that a reader finds all of it or none.
func writeStatus(dir string, e Exited) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, e.Key, "status.new")
	fd, err := unix.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write status of %s: %w", e.Key, err)
	}
	_, err = unix.Write(fd, text)
	if err = errors.Join(err, unix.Close(fd)); err == nil {
		err = unix.Rename(temp, filepath.Join(dir, e.Key, "status"))
	}
	if err != nil {
		return fmt.Errorf("write status of %s: %w", e.Key, err)
	}
	return nil
}

// claim makes the pid file of this key, which can be done once.
func claim(dir, key string) (fd int, err error) {
	path := filepath.Join(dir, key, "pid")
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	fd, err = unix.Open(path, flags, 0o600)
	if err == unix.ENOENT {
		if err := unix.Mkdir(filepath.Join(dir, key), 0o700); err != nil && err != unix.EEXIST {
			return -1, err
		}
		fd, err = unix.Open(path, flags, 0o600)
	}
	return fd, err
}

// ticksOf returns the start time of a process, zombies included, in clock ticks since boot, and its parent.
func ticksOf(pid int) (ticks uint64, parent int, err error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, 0, err
	}
	text := string(buf[:n])
	// The name in parentheses may hold anything, so fields are counted from its end.
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return 0, 0, unix.EINVAL
	}
	parent, _ = strconv.Atoi(f[1])
	ticks, err = strconv.ParseUint(f[19], 10, 64)
	return ticks, parent, err
}
