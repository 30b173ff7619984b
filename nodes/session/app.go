package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairslice/images"
)

const (
	// appDeadline is how long an app may take until it listens.
	appDeadline = 2 * time.Minute
	// appEvery is how often it is looked for.
	appEvery = 50 * time.Millisecond
	// prestartDeadline is for one command that an app needs before.
	prestartDeadline = time.Minute
	// maxTail is how much of an app's output is kept, to say why it ended.
	maxTail = 1500
	// portTries is how often a free port is chosen again because somebody else was faster.
	portTries = 5
)

// apps are the apps that this server has started, or found.
type apps struct {
	temp string // a directory for their files, of the job's user alone

	mu    sync.Mutex
	known map[string]*app
}

// app is one of them. Its mutex is held while it is being started.
type app struct {
	mu   sync.Mutex
	port int
	auth images.Auth
	base bool
}

// app starts an app, or says how all are.
func (s *server) app(w *writer, o *images.AppOrder) {
	if w.frame(frameTaken, nil) != nil {
		return
	}
	var states []images.AppState
	apps, err := o.Apps, error(nil)
	if o.Labels {
		var labels images.Labels
		if labels, err = readLabels(); err == nil {
			apps, o.Runtime = images.MergeApps(labels.Apps, apps), labels.RuntimePath
		}
	}
	if i := slices.IndexFunc(apps, func(p images.Program) bool { return p.Name == o.Start }); err == nil && o.Start != "" && i < 0 {
		err = fmt.Errorf("there is no app %s in this session: %w", o.Start, os.ErrNotExist)
	}
	for _, p := range apps {
		switch {
		case err != nil:
		case o.Start == "":
			states = append(states, s.appState(&p))
		case p.Name == o.Start:
			var state images.AppState
			if state, err = s.startApp(&p, o); err == nil {
				states = []images.AppState{state}
			}
		}
	}
	if err != nil {
		refuse(w, refusalOf(err), err)
		return
	}
	b, err := json.Marshal(states)
	if err != nil {
		refuse(w, Failed, err)
		return
	}
	if w.frame(frameOutput, b) == nil {
		_ = w.number(frameExit, 0) // who asked may have gone
	}
}

// labelsFile is where Apptainer keeps the labels of a container.
const labelsFile = "/.singularity.d/labels.json"

// readLabels reads what the image says of itself; nothing on the bare node.
func readLabels() (images.Labels, error) {
	f, err := os.Open(labelsFile)
	if errors.Is(err, os.ErrNotExist) {
		return images.Labels{}, nil
	}
	if err != nil {
		return images.Labels{}, err
	}
	defer f.Close()
	var any map[string]any
	if err := json.NewDecoder(io.LimitReader(f, 1<<20)).Decode(&any); err != nil {
		return images.Labels{}, fmt.Errorf("%s: %w", labelsFile, err)
	}
	labels := map[string]string{}
	for k, v := range any {
		labels[k] = fmt.Sprint(v)
	}
	return images.ParseLabels(labels)
}

// named is the app of a name, made when it is not there yet.
func (a *apps) named(name string) *app {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]*app{}
	}
	if a.known[name] == nil {
		a.known[name] = &app{}
	}
	return a.known[name]
}

// appState does not wait for one that is being started: it is not running yet.
func (s *server) appState(p *images.Program) images.AppState {
	state := images.AppState{Name: p.Name, Proto: p.Proto}
	a := s.apps.named(p.Name)
	if a.mu.TryLock() {
		state.Port, state.Auth, state.TakesBase = a.port, a.auth, a.base
		a.mu.Unlock()
	}
	service, ok, err := serviceOf(p)
	if err == nil && ok {
		state.Startable = len(service.Command) > 0 && s.finds(service.Command[0])
		takes, _, _ := service.Takes()
		if state.Port == 0 && len(p.Ports) > 0 && (!takes || p.Proto == images.Preopen) {
			state.Port = p.Ports[0]
		}
	} else if state.Port == 0 && len(p.Ports) > 0 {
		state.Port = p.Ports[0] // where its user is expected to start it
	}
	if state.Port != 0 {
		state.Running, _ = ownPort(state.Port) // what cannot be known is not running
	}
	return state
}

// finds says that a command may be run; one with variables in its name is only known when it is.
func (s *server) finds(command string) bool {
	if strings.Contains(command, "{") {
		return true
	}
	_, err := lookUp(command, s.dir, os.Environ())
	return err == nil
}

// serviceOf is how an app is started: the image's own definition goes before the site's.
func serviceOf(p *images.Program) (s images.Service, ok bool, err error) {
	if p.Image {
		f, err := os.Open(path.Join(images.ServiceDir, p.Name+".json"))
		if err == nil {
			defer f.Close()
			var b bytes.Buffer
			if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > images.MaxServiceBytes {
				return s, false, fmt.Errorf("%s: want a regular file of at most %d bytes", f.Name(), images.MaxServiceBytes)
			}
			if _, err := b.ReadFrom(f); err != nil {
				return s, false, err
			}
			s, err = images.ParseService(b.Bytes())
			return s, true, err
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return s, false, err
		}
	}
	return p.Service(), len(p.Command) > 0, nil
}

// startApp makes sure that an app runs: asked twice, it is started once.
func (s *server) startApp(p *images.Program, o *images.AppOrder) (images.AppState, error) {
	a := s.apps.named(p.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	service, ok, err := serviceOf(p)
	if err != nil {
		return images.AppState{}, fmt.Errorf("%s: %w", p.Name, err)
	}
	free, base, token := service.Takes()
	auth := p.Auth
	if p.Image && token && auth == images.NoAuth {
		auth = images.TokenAuth // the only way that there is a word for in an image's definition
	}
	if !token {
		auth = images.NoAuth
	}
	state := func() images.AppState {
		return images.AppState{Name: p.Name, Proto: p.Proto, Running: true, Startable: len(service.Command) > 0, Port: a.port, Auth: a.auth, TakesBase: a.base}
	}
	if a.port != 0 {
		if own, _ := ownPort(a.port); own {
			return state(), nil
		}
	}
	// Its user may have started it. A port that is not an app's alone may be that of another session of the same user.
	if len(p.Ports) > 0 && (!free || p.Proto == images.Preopen) {
		if own, _ := ownPort(p.Ports[0]); own {
			a.port, a.auth, a.base = p.Ports[0], images.NoAuth, false
			return state(), nil
		}
	}
	if !ok || len(service.Command) == 0 {
		return images.AppState{}, fmt.Errorf("%s is not running, and nothing says how to start it: start it in the session, at port %s", p.Name, ports(p.Ports))
	}
	for try := 1; ; try++ {
		at := p.Ports
		if free {
			if at, err = freePorts(max(1, len(p.Ports))); err != nil {
				return images.AppState{}, err
			}
		}
		taken, err := s.launchApp(p.Name, service, o, at)
		if taken && free && try < portTries {
			continue
		}
		if err != nil {
			return images.AppState{}, err
		}
		a.port, a.auth, a.base = at[0], auth, base
		return state(), nil
	}
}

func ports(list []int) string {
	if len(list) == 0 {
		return "its own"
	}
	return fmt.Sprint(list[0])
}

// freePorts asks the kernel for ports that nobody has at this moment.
func freePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("choose a port: %w", err)
		}
		defer l.Close() // all at the end, so that none is given twice
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}

// launchApp starts a program and waits until it listens at the first of its ports. taken says that somebody else does.
func (s *server) launchApp(name string, service images.Service, o *images.AppOrder, at []int) (taken bool, err error) {
	if len(at) == 0 {
		return false, fmt.Errorf("%s: nothing says at which port it listens", name)
	}
	temp, err := s.apps.tempDir(name)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	launch, err := service.Expand(images.Variables{Ports: at, RuntimePath: o.Runtime, TempDir: temp, Base: o.Base, Token: o.Token})
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	env := slices.Concat(os.Environ(), []string{images.PortEnv + "=" + fmt.Sprint(at[0]), images.BaseEnv + "=" + o.Base, images.TokenEnv + "=" + o.Token})
	for k, v := range launch.Env {
		env = append(env, k+"="+v)
	}
	env = lastOfEach(env)
	out := new(tail)
	for i, step := range launch.Steps {
		if err := s.prestart(step, env, out); err != nil {
			return false, fmt.Errorf("%s: prestart %d (%s): %w%s", name, i+1, step.Kind, err, out)
		}
	}
	ended, kill, err := s.spawn(launch.Command, env, out)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	deadline := time.Now().Add(appDeadline)
	for {
		own, listens, err := whose(at[0])
		switch {
		case err != nil:
			kill()
			return false, fmt.Errorf("%s: who listens at port %d is not known: %w", name, at[0], err)
		case own:
			return false, nil
		case listens: // nobody else can then
			kill()
			return true, fmt.Errorf("%s: somebody else of this host has taken port %d", name, at[0])
		}
		select {
		case status := <-ended:
			if status == 0 {
				ended = nil // it may have gone to the background
				continue
			}
			return false, fmt.Errorf("%s ended before it listened at port %d (%s)%s", name, at[0], words(status), out)
		case <-time.After(appEvery):
		}
		if time.Now().After(deadline) {
			kill()
			return false, fmt.Errorf("%s did not listen at port %d within %s%s", name, at[0], appDeadline, out)
		}
	}
}

// whose says whether anybody takes connections to a port, and whether it is only us.
func whose(port int) (own, listens bool, err error) {
	if own, err = ownPort(port); own || err != nil {
		return own, own, err
	}
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false, false, nil // not yet
	}
	_ = c.Close()
	own, err = ownPort(port) // it may have begun in between
	return own, true, err
}

func words(s syscall.WaitStatus) string {
	if s.Signaled() {
		return s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// tempDir makes a directory for an app's files: it may have secrets.
func (a *apps) tempDir(name string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := filepath.Join(a.temp, name)
	return dir, os.MkdirAll(dir, 0o700)
}

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
