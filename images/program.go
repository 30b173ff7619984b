package images

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Program is an app with the way to start it: the image's own Service where Image is set and it has one, else Command.
type Program struct {
	App
	Image   bool     `json:"image,omitempty"`
	Command []string `json:"command,omitempty"` // as Service.Command; none: nothing can be started
	Env     []string `json:"env,omitempty"`     // NAME=value, with Command
	Auth    Auth     `json:"auth,omitempty"`    // with Command
}

// Auth says how a proxy shows an app's token to it: in the header Authorization.
type Auth string

const (
	NoAuth     Auth = "" // it takes none
	TokenAuth  Auth = "token"
	BearerAuth Auth = "bearer"
	BasicAuth  Auth = "basic" // user fairslice
)

// MergeApps gives the apps of an image with the site's ways to start those that the image does not start itself, and after
// them the site's others.
func MergeApps(image []App, site []Program) []Program {
	var out []Program
	for _, a := range image {
		p := Program{App: a, Image: true}
		if i := slices.IndexFunc(site, func(s Program) bool { return s.Name == a.Name }); i >= 0 {
			p.Command, p.Env, p.Auth = site[i].Command, site[i].Env, site[i].Auth
		}
		out = append(out, p)
	}
	for _, p := range site {
		if !slices.ContainsFunc(image, func(a App) bool { return a.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// The variables in the environment of an app that is started, for what cannot take its arguments from a template.
const (
	PortEnv  = "FAIRSLICE_APP_PORT"
	BaseEnv  = "FAIRSLICE_APP_BASE"  // the path that it is shown below; begins and ends with a slash
	TokenEnv = "FAIRSLICE_APP_TOKEN" // a random text to let in nobody else with
)

// Service makes a service of an app's own command.
func (p *Program) Service() Service {
	s := Service{Command: p.Command, Env: map[string]string{}}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		s.Env[name] = value
	}
	return s
}

// Takes says which variables a service makes use of.
func (s Service) Takes() (port, base, token bool) {
	text, err := json.Marshal(s)
	if err != nil {
		return false, false, false // internal error: impossible; then nothing is chosen for it
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) })
	}
	return has("{port}", "{ports[", PortEnv), has("{base}", BaseEnv), has("{token}", TokenEnv)
}

// AppOrder asks the server beside a job for its apps: to start one, or, without Start, how they are.
type AppOrder struct {
	Start string    `json:"start,omitempty"` // a name of Apps
	Apps  []Program `json:"apps"`
	Base  string    `json:"base,omitempty"`  // with Start: {base}
	Token string    `json:"token,omitempty"` // with Start: {token}
	// Runtime is {runtime_path}: of the image's labels.
	Runtime string `json:"runtime,omitempty"`
	// Labels says that Apps and Runtime are without what the image's labels say: they are to be read in the session.
	Labels bool `json:"labels,omitempty"`
}

// AppState is how an app of a session is.
type AppState struct {
	Name      string `json:"name"`
	Proto     Proto  `json:"proto"`
	Running   bool   `json:"running,omitempty"`   // a program of the job's user listens at Port
	Startable bool   `json:"startable,omitempty"` // the session has its program
	Port      int    `json:"port,omitempty"`      // 0: not chosen yet
	TakesBase bool   `json:"takes_base,omitempty"`
	Auth      Auth   `json:"auth,omitempty"` // how to show it the token of the AppOrder that started it
	// Failed is why it could not be started the last time, for its user: the lines after the first are its own last words.
	Failed string `json:"failed,omitempty"`
}

// MaxFailed is how many bytes AppState.Failed may have.
const MaxFailed = 4096

const maxPrograms = 512

// Check says what is wrong with an order.
func (o *AppOrder) Check() error {
	if len(o.Apps) > maxPrograms {
		return fmt.Errorf("%d apps; at most %d are looked at", len(o.Apps), maxPrograms)
	}
	found := o.Start == "" || o.Labels
	for _, p := range o.Apps {
		if !word(p.Name) || len(p.Name) > 64 {
			return fmt.Errorf("app %s: the name is none", brief(p.Name))
		}
		for _, port := range p.Ports {
			if port < MinPort || port > MaxPort {
				return fmt.Errorf("app %s: port %d: want %d to %d", p.Name, port, MinPort, MaxPort)
			}
		}
		found = found || p.Name == o.Start
		for _, text := range slices.Concat(p.Command, p.Env) {
			if strings.ContainsRune(text, 0) {
				return fmt.Errorf("app %s: a zero byte in %s", p.Name, brief(text))
			}
		}
		for _, e := range p.Env {
			if name, _, ok := strings.Cut(e, "="); !ok || !variable(name) {
				return fmt.Errorf("app %s: variable %s is not NAME=value", p.Name, brief(e))
			}
		}
	}
	if !found {
		return fmt.Errorf("app %s is not among those named", brief(o.Start))
	}
	if strings.ContainsRune(o.Base+o.Token+o.Runtime, 0) {
		return fmt.Errorf("a zero byte in a variable")
	}
	return nil
}

// ParseAppStates reads what the server beside a job says of the apps of an order. That server is its user's, so nothing of it
// is believed beyond what Check would let through.
func ParseAppStates(data []byte, o *AppOrder) ([]AppState, error) {
	if len(data) > 1<<20 {
		return nil, fmt.Errorf("apps of the session: more than %d bytes", 1<<20)
	}
	var out []AppState
	if err := decodeStrict(data, &out); err != nil {
		return nil, fmt.Errorf("apps of the session: %w", err)
	}
	if len(out) > maxPrograms {
		return nil, fmt.Errorf("apps of the session: more than %d", maxPrograms)
	}
	for _, s := range out {
		known := slices.ContainsFunc(o.Apps, func(p Program) bool { return p.Name == s.Name })
		if !known && !o.Labels || !word(s.Name) || len(s.Name) > 64 {
			return nil, fmt.Errorf("apps of the session: nobody asked for %s", brief(s.Name))
		}
		if !slices.Contains([]Proto{HTTP, TCP, Preopen, VNC, RDP}, s.Proto) {
			return nil, fmt.Errorf("apps of the session: %s: %s is no protocol", s.Name, brief(string(s.Proto)))
		}
		if (s.Running || s.Port != 0) && (s.Port < MinPort || s.Port > MaxPort) {
			return nil, fmt.Errorf("apps of the session: %s: port %d: want %d to %d", s.Name, s.Port, MinPort, MaxPort)
		}
		if !slices.Contains([]Auth{NoAuth, TokenAuth, BearerAuth, BasicAuth}, s.Auth) {
			return nil, fmt.Errorf("apps of the session: %s: %s is no way to show a token", s.Name, brief(string(s.Auth)))
		}
		if len(s.Failed) > MaxFailed || strings.ContainsRune(s.Failed, 0) {
			return nil, fmt.Errorf("apps of the session: %s: %s says too much of why it could not be started", s.Name, brief(s.Failed))
		}
	}
	return out, nil
}
