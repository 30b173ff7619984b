package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fairslice/images"
)

// Request says what to do beside the job: exactly one of its fields is set, but for Ports.
type Request struct {
	Run  *Run  `json:"run,omitempty"`
	Dial *Dial `json:"dial,omitempty"`
	Copy *Copy `json:"copy,omitempty"`
	// App starts an app, or says how apps are. The answer is output: images.ParseAppStates reads it.
	App *images.AppOrder `json:"app,omitempty"`
	// Ports go with an App to be started: free ones that the node keeps from its other users, for as long as the app takes to
	// start. None: the server looks for free ones itself.
	Ports []int `json:"ports,omitempty"`
	// Snapshot sends the root file system.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Run is a program. Texts are bytes: an argument need not be UTF-8.
type Run struct {
	Args       [][]byte `json:"args,omitempty"` // none: the user's shell, or the image's
	Env        [][]byte `json:"env,omitempty"`  // NAME=value, over the job's
	Dir        []byte   `json:"dir,omitempty"`  // empty: the job's; relative to the job's
	TTY        bool     `json:"tty,omitempty"`  // a terminal, else three pipes
	Rows, Cols uint16   `json:",omitempty"`
	Term       string   `json:"term,omitempty"`
}

// Dial is a connection to a program of this machine.
type Dial struct {
	Port int    `json:"port,omitempty"` // TCP, of 127.0.0.1
	Path string `json:"path,omitempty"` // a Unix socket, absolute
	Own  bool   `json:"own,omitempty"`  // only if the job's user listens at the port: others of this machine may have taken it
}

// Copy sends files out (the tree of Paths, see package tree, as output), or takes them in (as input, to Path).
type Copy struct {
	Paths     [][]byte `json:"paths,omitempty"` // what to send out; relative to the job's directory
	To        []byte   `json:"to,omitempty"`    // where to put what comes in
	Into      bool     `json:"into,omitempty"`  // To must be a directory
	Recursive bool     `json:"recursive,omitempty"`
}

// parseRequest reads and checks a request.
func parseRequest(b []byte) (*Request, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	r := new(Request)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if d.More() {
		return nil, errors.New("request: something behind its end")
	}
	return r, r.check()
}

func (r *Request) check() error {
	set := 0
	for _, is := range []bool{r.Run != nil, r.Dial != nil, r.Copy != nil, r.App != nil, r.Snapshot != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("request: %d things to do; it has one", set)
	case len(r.Ports) > 0 && r.App == nil:
		return errors.New("request: ports without an app")
	case slices.ContainsFunc(r.Ports, func(p int) bool { return p < 1 || p > 65535 }):
		return fmt.Errorf("request: ports %d: want 1 to 65535", r.Ports)
	case r.Run != nil:
		return r.Run.check()
	case r.Dial != nil:
		return r.Dial.check()
	case r.App != nil:
		return r.App.Check()
	case r.Snapshot != nil:
		return r.Snapshot.check()
	}
	return r.Copy.check()
}

func (r *Run) check() error {
	for _, list := range [][][]byte{r.Args, r.Env, {r.Dir, []byte(r.Term)}} {
		for _, b := range list {
			if bytes.IndexByte(b, 0) >= 0 {
				return fmt.Errorf("a zero byte in %.40q", b)
			}
		}
	}
	for _, e := range r.Env {
		if bytes.IndexByte(e, '=') < 1 {
			return fmt.Errorf("variable %.40q is not NAME=value", e)
		}
	}
	if len(r.Args) > 0 && len(r.Args[0]) == 0 {
		return errors.New("the command is empty")
	}
	return nil
}

func (d *Dial) check() error {
	switch {
	case (d.Port != 0) == (d.Path != ""):
		return errors.New("connect to one of a port and a socket")
	case d.Port < 0 || d.Port > 65535:
		return fmt.Errorf("port %d: want 1 to 65535", d.Port)
	case d.Path != "" && (!path.IsAbs(d.Path) || strings.IndexByte(d.Path, 0) >= 0 || len(d.Path) > maxSocketPath):
		return fmt.Errorf("socket %.120q: want an absolute path of at most %d bytes", d.Path, maxSocketPath)
	}
	return nil
}

// maxSocketPath is what the kernel takes (UNIX_PATH_MAX, its closing zero included).
const maxSocketPath = 107

func (d *Dial) String() string {
	if d.Path != "" {
		return d.Path
	}
	return "127.0.0.1:" + strconv.Itoa(d.Port)
}

func (c *Copy) check() error {
	if (len(c.Paths) > 0) == (len(c.To) > 0) {
		return errors.New("copy one way: out of the session, or into it")
	}
	for _, p := range append([][]byte{c.To}, c.Paths...) {
		if bytes.IndexByte(p, 0) >= 0 {
			return fmt.Errorf("a zero byte in %.40q", p)
		}
	}
	for _, p := range c.Paths {
		if len(p) == 0 {
			return errors.New("a path is empty")
		}
	}
	return nil
}
