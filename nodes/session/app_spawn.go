package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairslice/images"
)

// prestart does one thing that an app needs before.
func (s *server) prestart(step images.Action, env []string, out *tail) error {
	switch step.Kind {
	case images.WriteFile, images.WriteTempfile:
		name := s.absolute([]byte(step.Path))
		if err := os.WriteFile(name, []byte(step.Body), os.FileMode(step.Mode)); err != nil {
			return err
		}
		return os.Chmod(name, os.FileMode(step.Mode)) // also when it was there
	case images.Mkdir:
		return os.MkdirAll(s.absolute([]byte(step.Path)), 0o755)
	case images.Log:
		out.add([]byte(step.Message + "\n"))
	case images.RunCommand:
		ended, kill, err := s.spawn(step.Command, env, out)
		if err != nil {
			return err
		}
		select {
		case status := <-ended:
			if status != 0 {
				return errors.New(words(status))
			}
		case <-time.After(prestartDeadline):
			kill()
			return fmt.Errorf("not done within %s", prestartDeadline)
		}
	}
	return nil
}

// spawn starts a program in a session of its own; it goes on without whoever asked. kill ends it with its children.
func (s *server) spawn(args, env []string, out *tail) (ended <-chan syscall.WaitStatus, kill func(), err error) {
	name, err := lookUp(args[0], s.dir, env)
	if err != nil {
		return nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	proc, err := os.StartProcess(name, args, &os.ProcAttr{Dir: s.dir, Env: env, Files: []*os.File{null, w, w}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	silent := make(chan struct{})
	go func() { // until the last of its children has closed it, or the job ends
		defer close(silent)
		defer r.Close()
		out.readFrom(r)
	}()
	done := make(chan syscall.WaitStatus, 1)
	var mu sync.Mutex
	over := false
	go func() {
		// The number stays the program's until it is reaped, so it is not reaped under kill.
		_ = waitEnd(proc.Pid)
		mu.Lock()
		defer mu.Unlock()
		over = true
		state, err := proc.Wait()
		if err != nil {
			done <- 1 << 8
			return
		}
		select { // its last words may still be in the pipe
		case <-silent:
		case <-time.After(drainGrace):
		}
		done <- state.Sys().(syscall.WaitStatus)
	}()
	return done, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			_ = unix.Kill(-proc.Pid, unix.SIGKILL) // it has ended: the same
		}
	}, nil
}

// waitEnd waits for a child's end and leaves it to be reaped.
func waitEnd(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// tail keeps the last of an output. As text it is what follows an error's first line.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
}

func (t *tail) readFrom(r *os.File) {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		t.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "?"))
	if text == "" {
		return ", and said nothing"
	}
	return "; its last words:\n" + text
}
