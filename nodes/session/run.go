package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainGrace is how long the output of a program that has ended may still come from processes that it left behind.
const drainGrace = 200 * time.Millisecond

// program is one program beside the job.
type program struct {
	w    *writer
	tty  bool
	in   *os.File
	outs map[byte]*os.File // by the kind of their frames; with a terminal it is in
	proc *os.Process

	mu      sync.Mutex
	changed *sync.Cond // of what follows
	input   []byte     // not yet taken
	ended   bool       // no more input comes
	over    bool       // it has ended: its number may soon be another's
}

// run starts a program and carries its streams until it has ended. Who asked may leave before: then it gets SIGHUP.
func (s *server) run(c *net.UnixConn, r *reader, w *writer, q *Run) {
	p := &program{w: w, tty: q.TTY, outs: map[byte]*os.File{}}
	p.changed = sync.NewCond(&p.mu)
	if err := p.start(s.dir, q); err != nil {
		p.close()
		refuse(w, refusalOf(err), err)
		return
	}
	defer p.close()
	if w.frame(frameTaken, nil) != nil {
		p.hangUp() // and go on, to wait for it
	}
	var pumps, ends sync.WaitGroup
	for kind, f := range p.outs {
		pumps.Go(func() { p.pump(kind, f) })
	}
	ends.Go(p.feed)
	ends.Go(func() { p.obey(r) })
	status := p.wait()
	for _, f := range p.outs {
		_ = f.SetReadDeadline(time.Now().Add(drainGrace)) // a pipe or terminal always has one
	}
	pumps.Wait()
	_ = w.number(frameExit, uint32(status)) // whoever asked may have gone
	_ = c.Close()
	_ = p.in.Close()
	ends.Wait()
}

func (p *program) start(dir string, q *Run) error {
	env := os.Environ()
	if q.TTY && q.Term != "" {
		env = append(env, "TERM="+q.Term)
	}
	for _, e := range q.Env {
		env = append(env, string(e))
	}
	env = lastOfEach(env)
	if d := string(q.Dir); path.IsAbs(d) {
		dir = d
	} else {
		dir = path.Join(dir, d)
	}
	if st, err := os.Stat(dir); err != nil {
		return err
	} else if !st.IsDir() {
		return &os.PathError{Op: "enter", Path: dir, Err: syscall.ENOTDIR}
	}
	args := make([]string, len(q.Args))
	for i, a := range q.Args {
		args[i] = string(a)
	}
	if len(args) == 0 {
		args = []string{shell(env)}
	}
	name, err := lookUp(args[0], dir, env)
	if err != nil {
		return err
	}
	attr := &os.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	if q.TTY {
		attr.Sys.Setctty = true // of descriptor 0
		attr.Files, err = p.openTerminal(q.Rows, q.Cols)
	} else {
		attr.Files, err = p.openPipes()
	}
	defer func() {
		for i, f := range attr.Files {
			if i == 0 || f != attr.Files[0] {
				_ = f.Close() // the program's end, which it has now
			}
		}
	}()
	if err != nil {
		return err
	}
	p.proc, err = os.StartProcess(name, args, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script without "#!": what every shell takes for granted
		p.proc, err = os.StartProcess("/bin/sh", append([]string{"sh", name}, args[1:]...), attr)
	}
	return err
}

func (p *program) openPipes() (theirs []*os.File, err error) {
	for i, kind := range []byte{frameInput, frameOutput, frameError} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		if i == 0 {
			p.in, theirs = w, append(theirs, r)
		} else {
			p.outs[kind], theirs = r, append(theirs, w)
		}
	}
	return theirs, nil
}

func (p *program) openTerminal(rows, cols uint16) (theirs []*os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	p.in = os.NewFile(uintptr(fd), "terminal")
	p.outs[frameOutput] = p.in
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock a terminal: %w", err)
	}
	// The other end without a path: the container may show another /dev/pts than its ptmx belongs to.
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, fmt.Errorf("open a terminal's other end: %w", errno)
	}
	p.resize(rows, cols)
	f := os.NewFile(other, "tty")
	return []*os.File{f, f, f}, nil
}

func (p *program) resize(rows, cols uint16) {
	raw, err := p.in.SyscallConn()
	if err == nil && p.tty && rows > 0 && cols > 0 {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}) // a wrong size is no reason to stop
		})
	}
}

func (p *program) close() {
	if p.in != nil {
		_ = p.in.Close()
	}
	for _, f := range p.outs {
		_ = f.Close()
	}
}

// wait returns the wait status. It reaps only when nobody signals any more by number.
func (p *program) wait() syscall.WaitStatus {
	for {
		err := unix.Waitid(unix.P_PID, p.proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	p.mu.Lock()
	p.over = true
	p.changed.Broadcast()
	p.mu.Unlock()
	state, err := p.proc.Wait()
	if err != nil {
		return syscall.WaitStatus(255 << 8)
	}
	return state.Sys().(syscall.WaitStatus)
}

// signal goes to the program's process group.
func (p *program) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = unix.Kill(-p.proc.Pid, sig) // what cannot be signalled is gone, or another user's
	}
}

// hangUp is what happens to a program when whoever started it goes.
func (p *program) hangUp() {
	p.signal(unix.SIGHUP)
	p.mu.Lock()
	p.ended = true
	p.changed.Broadcast()
	p.mu.Unlock()
}

// pump carries one output until its end.
func (p *program) pump(kind byte, f *os.File) {
	buf := make([]byte, MaxData)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) { // what is there already is still the program's
			if n = readNow(f, buf); n > 0 {
				err = nil
			}
		}
		if n > 0 && p.w.frame(kind, buf[:n]) != nil {
			_ = f.Close() // nobody reads: the program gets SIGPIPE
			return
		}
		if err != nil {
			return
		}
	}
}

func readNow(f *os.File, buf []byte) (n int) {
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) // nothing is as good as an error
	}
	return n
}

// obey carries out what comes, until the connection ends.
func (p *program) obey(r *reader) {
	defer p.hangUp()
	for {
		kind, payload, err := r.next()
		if err != nil {
			return
		}
		switch kind {
		case frameInput:
			p.mu.Lock()
			fits := len(p.input)+len(payload) <= Window && !p.ended
			if fits {
				p.input = append(p.input, payload...)
				p.changed.Broadcast()
			}
			p.mu.Unlock()
			if !fits {
				return // it does not keep to the window
			}
		case frameEnd:
			p.mu.Lock()
			p.ended = true
			p.changed.Broadcast()
			p.mu.Unlock()
		case frameResize:
			p.resize(uint16(number(payload)>>16), uint16(number(payload)))
		case frameSignal:
			p.signal(syscall.Signal(payload[0]))
		default:
			return
		}
	}
}

// feed gives the input to the program. What it does not take any more is thrown away, as a closed pipe does.
func (p *program) feed() {
	for broken := false; ; {
		p.mu.Lock()
		for len(p.input) == 0 && !p.ended && !p.over {
			p.changed.Wait()
		}
		data, last := p.input, p.over || p.ended && len(p.input) == 0
		p.input = nil
		p.mu.Unlock()
		if last {
			break
		}
		if !broken {
			_, err := p.in.Write(data)
			broken = err != nil
		}
		if p.w.number(frameWindow, uint32(len(data))) != nil {
			break
		}
	}
	if p.tty {
		_, _ = p.in.Write([]byte{4}) // what the terminal's user would type
		return
	}
	_ = p.in.Close()
}

// lastOfEach keeps of a variable given twice the last.
func lastOfEach(env []string) []string {
	at := map[string]int{}
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if i, twice := at[name]; twice {
			out[i] = e
			continue
		}
		at[name] = len(out)
		out = append(out, e)
	}
	return out
}

func variable(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// shell is the user's where this image has it, else the image's.
func shell(env []string) string {
	for _, s := range []string{variable(env, "SHELL"), "/bin/bash"} {
		if path.IsAbs(s) && executable(s) == nil {
			return s
		}
	}
	return "/bin/sh"
}

func executable(name string) error {
	st, err := os.Stat(name)
	if err == nil && (st.IsDir() || st.Mode()&0o111 == 0) {
		return &os.PathError{Op: "run", Path: name, Err: os.ErrPermission}
	}
	return err
}

// defaultPath serves a job without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookUp finds a program as a shell in dir would.
func lookUp(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		if !path.IsAbs(command) {
			command = path.Join(dir, command)
		}
		return command, executable(command)
	}
	list := variable(env, "PATH")
	if list == "" {
		list = defaultPath
	}
	for _, in := range strings.Split(list, ":") {
		if !path.IsAbs(in) {
			in = path.Join(dir, in)
		}
		if name := path.Join(in, command); executable(name) == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: not in the session's PATH (%s): %w", command, list, os.ErrNotExist)
}
