package sif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// command is a program to run. It gets no terminal, no input, and nothing of our environment.
type command struct {
	args    []string
	env     []string // added to the few that every program gets
	dir     string
	as      *syscall.Credential // nil: as we are
	log     io.Writer           // gets stdout and stderr as they come; nil: none
	most    int                 // bytes of stdout to keep; more is an error. 0: stdout is kept with stderr, for errors
	memory  int64               // bytes of address space that it may have; 0: no limit
	hold    []*os.File          // files that the program keeps open: whose locks live as long as it does
	timeout time.Duration       // 0: until the context ends
}

// searchPath has the sbin folders: mksquashfs calls nothing, but apptainer looks for tools there.
const searchPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// exitError is a program that was there and has failed.
type exitError struct {
	name string
	err  error
	said string // the end of what it wrote
}

func (e *exitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.name, e.err)
	}
	return fmt.Sprintf("%s: %v: %s", e.name, e.err, e.said)
}

func (e *exitError) Unwrap() error { return e.err }

func (e *exitError) mentions(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(e.said, t) {
			return true
		}
	}
	return false
}

// run runs a program to its end, and gives its stdout. With the context it is killed, and all that it has started.
func run(ctx context.Context, c command) ([]byte, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("it ran for more than %v", c.timeout))
		defer cancel()
	}
	name := filepath.Base(c.args[0])
	program, err := exec.LookPath(c.args[0])
	if err != nil {
		return nil, fmt.Errorf("run %s: %w; etc/setup.sh installs what is needed", name, err)
	}
	said := &tail{most: 4 << 10}
	var kept limited
	argv := append([]string{program}, c.args[1:]...)
	if c.memory > 0 {
		argv = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, c.memory>>10)}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{"PATH=" + searchPath, "LC_ALL=C"}, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.as}
	cmd.ExtraFiles = c.hold
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var everything io.Writer = said
	if c.log != nil {
		everything = io.MultiWriter(said, c.log)
	}
	cmd.Stderr, cmd.Stdout = everything, everything
	if c.most > 0 {
		kept.most = c.most
		cmd.Stdout = &kept
	}
	err = cmd.Run()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return nil, fmt.Errorf("%s was stopped: %w", name, cause)
	case kept.over:
		return nil, fmt.Errorf("%s: more than %d bytes", name, c.most)
	case err != nil:
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, fmt.Errorf("run %s: %w", name, err)
		}
		return kept.Bytes(), &exitError{name, err, said.String()}
	}
	return kept.Bytes(), nil
}

// tail keeps the end of what is written.
type tail struct {
	most int
	b    []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - t.most; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String is the text without colours and what else a terminal would hide, on one line.
func (t *tail) String() string {
	s := strings.ToValidUTF8(string(t.b), "?")
	var b strings.Builder
	for len(s) > 0 {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			s = strings.TrimLeft(rest, "0123456789;")
			if s != "" {
				s = s[1:]
			}
			continue
		}
		if s[0] < ' ' || s[0] == 0x7f {
			b.WriteByte(' ')
		} else {
			b.WriteByte(s[0])
		}
		s = s[1:]
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// limited keeps up to most bytes, and breaks the pipe of who writes more.
type limited struct {
	bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		l.over = true
		return 0, errors.New("too much")
	}
	return l.Buffer.Write(p)
}
