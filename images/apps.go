package images

import (
	"fmt"
	"slices"
	"strings"
)

// App is a network service that an image can start, or expects its user to start.
type App struct {
	Name  string `json:"name"`
	Proto Proto  `json:"proto"`
	Ports []int  `json:"ports"` // in the container, at least one; the first is the one to open
}

// Proto says how an app is reached.
type Proto string

const (
	HTTP    Proto = "http"
	TCP     Proto = "tcp"
	Preopen Proto = "preopen" // HTTP too, but the job's user starts it; nothing is started for it
	VNC     Proto = "vnc"
	RDP     Proto = "rdp"
)

// Ports that an app can have, as Backend.AI has them: below are the privileged ones and the first after them.
const (
	MinPort = 1025
	MaxPort = 65534
)

// reservedPorts belong to Backend.AI's own services in a container. Images built for it keep off them, and those
// built here should run there.
var reservedPorts = map[int]string{2000: "repl", 2001: "repl", 2002: "repl", 2003: "repl", 2200: "sshd", 7681: "ttyd"}

// ParseApps reads "name:proto:port,…" where port may be a list, "[8000,8001]". Names and ports are used once. An
// app of Backend.AI's protocol "pty" is left out: it is reached through a terminal.
func ParseApps(s string) ([]App, error) {
	var apps []App
	names, ports := map[string]bool{}, map[int]string{}
	for rest := s; rest != ""; {
		if len(apps) == maxItems {
			return nil, fmt.Errorf("more than %d apps", maxItems)
		}
		var item string
		item, rest = cutApp(rest)
		app, err := parseApp(item)
		if err != nil {
			return nil, err
		}
		if names[app.Name] {
			return nil, fmt.Errorf("app %s is named twice", app.Name)
		}
		names[app.Name] = true
		for _, p := range app.Ports {
			if other, taken := ports[p]; taken {
				return nil, fmt.Errorf("app %s: port %d is %s's", app.Name, p, other)
			}
			ports[p] = app.Name
		}
		if app.Proto != "pty" {
			apps = append(apps, app)
		}
	}
	return apps, nil
}

// cutApp cuts at the first comma that is not inside of brackets. What ends in a comma has an empty app behind it only
// if it is more than that comma.
func cutApp(s string) (item, rest string) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+1:])
			}
		}
	}
	return strings.TrimSpace(s), ""
}

func parseApp(s string) (App, error) {
	const want = "want name:proto:port such as jupyter:http:8091"
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return App{}, fmt.Errorf("app %s: %s", brief(s), want)
	}
	a := App{Name: strings.TrimSpace(parts[0]), Proto: Proto(strings.ToLower(strings.TrimSpace(parts[1])))}
	// The name becomes a file's (Service) and a part of a URL.
	if !word(a.Name) || len(a.Name) > 64 {
		return App{}, fmt.Errorf("app %s: a name has letters, digits and . _ -, begins with a letter or digit, and has at most 64 characters", brief(a.Name))
	}
	switch a.Proto {
	case HTTP, TCP, Preopen, VNC, RDP, "pty":
	default:
		return App{}, fmt.Errorf("app %s: protocol %s: want http, tcp, preopen, vnc or rdp", a.Name, brief(string(a.Proto)))
	}
	list := strings.TrimSpace(parts[2])
	if inner, ok := strings.CutPrefix(list, "["); ok {
		if list, ok = strings.CutSuffix(inner, "]"); !ok {
			return App{}, fmt.Errorf("app %s: ports %s: the bracket is not closed", a.Name, brief(parts[2]))
		}
	} else if strings.Contains(list, ",") {
		return App{}, fmt.Errorf("app %s: ports %s: write more than one as [8000,8001]", a.Name, brief(list))
	}
	for _, text := range strings.Split(list, ",") {
		p, err := parsePort(strings.TrimSpace(text))
		if err != nil {
			return App{}, fmt.Errorf("app %s: %w", a.Name, err)
		}
		if slices.Contains(a.Ports, p) {
			return App{}, fmt.Errorf("app %s: port %d twice", a.Name, p)
		}
		if len(a.Ports) == maxItems {
			return App{}, fmt.Errorf("app %s: more than %d ports", a.Name, maxItems)
		}
		a.Ports = append(a.Ports, p)
	}
	return a, nil
}

func parsePort(s string) (int, error) {
	p, err := parseCount(s)
	if err != nil || p < MinPort || p > MaxPort {
		return 0, fmt.Errorf("port %s: want a number from %d to %d", brief(s), MinPort, MaxPort)
	}
	if who, taken := reservedPorts[p]; taken {
		return 0, fmt.Errorf("port %d is reserved (%s)", p, who)
	}
	return p, nil
}
