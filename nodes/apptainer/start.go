package apptainer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Start is what a job begins with, byte for byte.
type Start struct {
	Args []string // at least one; without a slash, the first is looked for in the PATH of Env, in the container
	Env  []string // NAME=value
	Dir  string   // working directory, absolute, as seen in the container; empty: /

	// ImageEnv keeps the variables that the image (and Apptainer) sets and Env does not name. Without it the job sees
	// Env and nothing else.
	ImageEnv bool
	// GPU adds Apptainer's folder of driver libraries to LD_LIBRARY_PATH, where --nv needs it.
	GPU bool

	// StartedFD, if not 0, is a pipe that enter inherits (through Apptainer, which leaves such files open). Enter
	// writes to it what ParseStarted reads; the job does not get it, and so cannot lie about its own start.
	StartedFD int

	// Fence is proven before the job starts.
	Fence Fence

	// Beside is a program that enter starts before it becomes the job, with what is the job's own: Args, Env and Dir too. It is no
	// child of the job, and has the job as descriptor 3 (a pidfd), with which it has to end. Empty: none.
	Beside []string
}

const (
	startMagic = "fairslice start 3"
	// maxString is the kernel's limit for one argument or variable (MAX_ARG_STRLEN), its closing zero included.
	maxString = 128 << 10
	// fixedFields stand before the arguments.
	fixedFields = 10
)

// WriteStart writes the start file, readable for its owner only; the caller gives it to the job's user.
func WriteStart(path string, s Start) error {
	b, err := s.encode()
	if err != nil {
		return fmt.Errorf("write the start file: %w", err)
	}
	// The mode counts only for a new file, and an old one may be open to others.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write the start file: %w", err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("write the start file: %w", err)
	}
	return nil
}

// encode writes zero-terminated strings, the one byte that can be in none of them: magic, flags, descriptor,
// directory, the three texts of the fence, the numbers of arguments, variables and arguments of the program beside the job (a file cut off by
// a crash is not taken for a whole one), and these.
func (s Start) encode() ([]byte, error) {
	if len(s.Args) == 0 || s.Args[0] == "" {
		return nil, errors.New("no command")
	}
	flags := ""
	if s.ImageEnv {
		flags += "i"
	}
	if s.GPU {
		flags += "g"
	}
	if s.Fence.Optional {
		flags += "o"
	}
	fields := []string{startMagic, flags, strconv.Itoa(s.StartedFD), s.Dir, s.Fence.Probe, s.Fence.Library, s.Fence.Result,
		strconv.Itoa(len(s.Args)), strconv.Itoa(len(s.Env)), strconv.Itoa(len(s.Beside))}
	fields = append(fields, s.Args...)
	fields = append(fields, s.Env...)
	fields = append(fields, s.Beside...)
	for _, e := range s.Env {
		if strings.IndexByte(e, '=') < 1 {
			return nil, fmt.Errorf("variable %.40q is not NAME=value", e)
		}
	}
	size := 0
	for _, f := range fields {
		if strings.IndexByte(f, 0) >= 0 {
			return nil, fmt.Errorf("a zero byte in %.40q", f)
		}
		if len(f) >= maxString {
			return nil, fmt.Errorf("%.40q… has %d bytes; one argument or variable can have %d", f, len(f), maxString-1)
		}
		size += len(f) + 1
	}
	b := make([]byte, 0, size)
	for _, f := range fields {
		b = append(append(b, f...), 0)
	}
	return b, nil
}

func decodeStart(b []byte) (Start, error) {
	text, ended := strings.CutSuffix(string(b), "\x00")
	fields := strings.Split(text, "\x00")
	if !ended || len(fields) < fixedFields+1 || fields[0] != startMagic {
		return Start{}, errors.New("not a start file of this version")
	}
	fd, fdErr := strconv.Atoi(fields[2])
	args, argsErr := strconv.Atoi(fields[7])
	vars, varsErr := strconv.Atoi(fields[8])
	beside, besideErr := strconv.Atoi(fields[9])
	rest := fields[fixedFields:]
	if errors.Join(fdErr, argsErr, varsErr, besideErr) != nil || args < 1 || vars < 0 || beside < 0 ||
		args > len(rest) || vars > len(rest)-args || beside != len(rest)-args-vars {
		return Start{}, errors.New("damaged start file")
	}
	s := Start{
		ImageEnv:  strings.Contains(fields[1], "i"),
		GPU:       strings.Contains(fields[1], "g"),
		StartedFD: fd,
		Dir:       fields[3],
		Fence:     Fence{fields[4], fields[5], fields[6], strings.Contains(fields[1], "o")},
		Args:      rest[:args],
		Env:       rest[args : args+vars],
	}
	if beside > 0 {
		s.Beside = rest[args+vars:]
	}
	return s, nil
}

const startedWord = "started"

// ParseStarted tells, from all that enter wrote to StartedFD, whether the job's own program was reached. When not,
// reason says why, as far as enter knows it; it is empty when not even enter ran, and Apptainer's stderr is the
// place to look. Apptainer keeps its own copy of the pipe, so the end of file comes only with the end of the run;
// "started" can be believed when it comes (a failing execve, such as of a damaged program, still adds its reason).
func ParseStarted(written string) (started bool, reason string) {
	word, rest, _ := strings.Cut(written, "\n")
	if word == startedWord {
		return rest == "", strings.TrimSpace(rest)
	}
	return false, strings.TrimSpace(written)
}
