package shepherd

import (
	"bytes"
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

// runFile is the attempt's file: made empty and exclusively, then forkMark immediately before the fork, then Started as a line
// of JSON, then Exited as another. A line that its newline does not end is not there.
func runFile(dir, key string) string { return filepath.Join(dir, key, "run") }

// ReadStarted returns what was started under key, for a daemon that did not hear the answer. false: nothing was, or
// the shepherd was killed at the instant of the fork, which only Adopt can tell apart.
func ReadStarted(dir, key string) (Started, bool, error) {
	var s Started
	ok, err := readLine(dir, key, 0, &s)
	return s, ok, err
}

// ReadStatus returns how the job ended, if it is written down. An unreadable file, as after a power loss, is an error.
func ReadStatus(dir, key string) (Exited, bool, error) {
	var e Exited
	ok, err := readLine(dir, key, 1, &e)
	return e, ok, err
}

func readLine(dir, key string, line int, into any) (bool, error) {
	text, err := os.ReadFile(runFile(dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	lines := bytes.Split(text, []byte("\n"))
	if err == nil && line >= len(lines)-1 {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(lines[line], into)
	}
	if err != nil {
		return false, fmt.Errorf("read the run of %s: %w", key, err)
	}
	return true, nil
}

// claim makes the run file of this key, which can be done once.
func claim(dir, key string) (fd int, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	fd, err = unix.Open(runFile(dir, key), flags, 0o600)
	if err == unix.ENOENT {
		if err := unix.Mkdir(filepath.Join(dir, key), 0o700); err != nil && err != unix.EEXIST {
			return -1, err
		}
		fd, err = unix.Open(runFile(dir, key), flags, 0o600)
	}
	return fd, err
}

// forkMark is white space to JSON. Without it in the file nothing can have been executed; with it, and without a line behind
// it, the shepherd was killed around the fork.
const forkMark = " "

// mayRun says whether the attempt's program can have been executed.
func mayRun(dir, key string) bool {
	st, err := os.Stat(runFile(dir, key))
	return err == nil && st.Size() > 0
}

// writeLine adds to a run file. One small write is done or not done, also under kill -9, so that nothing needs to be written
// aside and renamed, which would be half of what a job costs.
func writeLine(fd int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, append(text, '\n'))
	if err == nil && n <= len(text) {
		err = unix.ENOSPC
	}
	return err
}

// writeStatus adds the second line, and the first, where the shepherd could not.
func writeStatus(dir string, s Started, e Exited) error { return appendTo(dir, e.Key, s, &e) }

// writeStarted adds the first line, where the shepherd was killed before it could.
func writeStarted(dir, key string, s Started) error { return appendTo(dir, key, s, nil) }

func appendTo(dir, key string, s Started, e *Exited) error {
	fd, err := unix.Open(runFile(dir, key), unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("write status of %s: %w", key, err)
	}
	defer unix.Close(fd)
	if size, _ := unix.Seek(fd, 0, unix.SEEK_END); size <= int64(len(forkMark)) {
		err = writeLine(fd, s)
	}
	if err == nil && e != nil {
		err = writeLine(fd, *e)
	}
	if err != nil {
		return fmt.Errorf("write status of %s: %w", key, err)
	}
	return nil
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
