package fgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Processes looks at the processes of this machine. Root is the proc file system; empty: /proc.
type Processes struct{ Root string }

// Alive says that the process that got this id at this start time still runs. start is in clock ticks since boot; its lower 42
// bits are compared, which is what a slot keeps. One that has ended but was not waited for has ended: the driver took its
// memory back when it closed its files. What cannot be read, other than because the process is gone, is taken for alive.
func (p Processes) Alive(pid int, start uint64) bool {
	st, err := p.stat(pid)
	if err != nil {
		return !gone(err)
	}
	return st.lives() && st.start&startMask == start&startMask
}

// Start returns when a process started, in clock ticks since boot. The error is fs.ErrNotExist for none.
func (p Processes) Start(pid int) (uint64, error) {
	st, err := p.stat(pid)
	return st.start, err
}

// Key is how a slot names a process.
func Key(pid int, start uint64) uint64 { return uint64(pid)<<pidShift | start&startMask }

// gone: a process that ends between open and read of its file gives ESRCH.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

type stat struct {
	state   byte
	threads int
	start   uint64
}

// lives: the first thread of a program may end and leave the others running; it is then shown as a zombie, but its
// files are open. Only one that is alone has ended.
func (s stat) lives() bool {
	return s.state != 'X' && s.state != 'x' && (s.state != 'Z' || s.threads > 1)
}

func (p Processes) stat(pid int) (stat, error) {
	root := p.Root
	if root == "" {
		root = "/proc"
	}
	text, err := os.ReadFile(root + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	st, err := parseStat(string(text))
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return st, nil
}

// parseStat reads the text of /proc/PID/stat; the numbers of its fields are those of proc(5). The second is the program's name in
// parentheses, which may hold anything, parentheses and line breaks too, so fields are counted from its end.
func parseStat(text string) (stat, error) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 22-2 || len(f[0]) != 1 || !letter(f[0][0]) {
		return stat{}, fmt.Errorf("stat %.80q: want a letter and at least 19 numbers after the name", text)
	}
	threads, err := strconv.Atoi(f[20-3])
	if err != nil {
		return stat{}, fmt.Errorf("stat %.80q: number of threads %q", text, f[20-3])
	}
	start, err := strconv.ParseUint(f[22-3], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("stat %.80q: start time %q", text, f[22-3])
	}
	return stat{f[0][0], threads, start}, nil
}

func letter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
