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
	mu     sync.Mutex
	port   int
	auth   images.Auth
	base   bool
	failed string // why it could not be started the last time
}

// app starts an app, at free ports of those kept for it, or says how all are.
func (s *server) app(w *writer, o *images.AppOrder, kept []int) {
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
			if state, err = s.startApp(&p, o, kept); err == nil {
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
		state.Port, state.Auth, state.TakesBase, state.Failed = a.port, a.auth, a.base, a.failed
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
	if state.Running {
		state.Failed = "" // its user has started it
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
func (s *server) startApp(p *images.Program, o *images.AppOrder, kept []int) (images.AppState, error) {
	a := s.apps.named(p.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	state, err := s.ensureApp(a, p, o, kept)
	a.failed = ""
	if err != nil {
		a.failed = printable(err.Error())
	}
	return state, err
}

// printable is a text that ParseAppStates lets through.
func printable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	return strings.ToValidUTF8(text[:min(len(text), images.MaxFailed)], "")
}

// ensureApp is startApp with the app held.
func (s *server) ensureApp(a *app, p *images.Program, o *images.AppOrder, kept []int) (images.AppState, error) {
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
			if at, kept, err = choosePorts(kept, max(1, len(p.Ports))); err != nil {
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

// choosePorts takes n of those that the node keeps for the app, and gives the rest; where there are too few, any.
func choosePorts(kept []int, n int) (at, rest []int, err error) {
	if len(kept) >= n {
		return kept[:n], kept[n:], nil
	}
	at, err = freePorts(n)
	return at, kept, err
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
		own, others, err := listeners(at[0])
		switch {
		case err != nil:
			kill()
			return false, fmt.Errorf("%s: who listens at port %d is not known: %w", name, at[0], err)
		case own && !others:
			return false, nil
		case others: // nobody else can then
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
