package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ServiceDir is where an image keeps the definitions of its apps: one file for each, NAME.json, in the format
// that ParseService reads. It is Backend.AI's.
const ServiceDir = "/etc/backend.ai/service-defs"

// MaxServiceBytes is the size up to which a definition is read.
const MaxServiceBytes = 1 << 20

// Service says how an app of an image is started: what to do before, and the command. Texts are templates; Expand
// fills them in.
type Service struct {
	Prestart []Action
	Command  []string // empty: nothing is to be started
	// URLTemplate is the path and query to open, such as "{protocol}://{host}:{port}/lab"; it is filled in by who
	// knows the outer address, and empty for "/".
	URLTemplate      string
	Env              map[string]string
	AllowedEnvs      []string            // what a user may set
	AllowedArguments []string            // what a user may add to the command
	DefaultArguments map[string][]string // added to the command, in the order of their names
}

// Action is one thing to do before the command starts.
type Action struct {
	Kind    ActionKind
	Path    string   // WriteFile, Mkdir
	Body    string   // WriteFile, WriteTempfile
	Mode    uint32   // WriteFile, WriteTempfile: permission bits
	Command []string // RunCommand
	Message string   // Log
	Ref     string   // a variable that becomes the name of the file written
}

// ActionKind is Backend.AI's name for what an Action does.
type ActionKind string

const (
	WriteFile     ActionKind = "write_file"
	WriteTempfile ActionKind = "write_tempfile"
	Mkdir         ActionKind = "mkdir" // with its parents; there already is fine
	RunCommand    ActionKind = "run_command"
	Log           ActionKind = "log"
)

// ParseService reads a service definition. An unknown field or action is an error, as is a file that goes on after its
// end.
func ParseService(data []byte) (Service, error) {
	if len(data) > MaxServiceBytes {
		return Service{}, fmt.Errorf("service definition: more than %d bytes", MaxServiceBytes)
	}
	var raw struct {
		Prestart []struct {
			Action string          `json:"action"`
			Args   json.RawMessage `json:"args"`
			Ref    *string         `json:"ref"`
		} `json:"prestart"`
		Command          json.RawMessage            `json:"command"`
		Shell            string                     `json:"shell"`
		Noop             bool                       `json:"noop"`
		URLTemplate      string                     `json:"url_template"`
		Env              map[string]string          `json:"env"`
		AllowedEnvs      []string                   `json:"allowed_envs"`
		AllowedArguments []string                   `json:"allowed_arguments"`
		DefaultArguments map[string]json.RawMessage `json:"default_arguments"`
	}
	if err := decodeStrict(data, &raw); err != nil {
		return Service{}, fmt.Errorf("service definition: %w", err)
	}
	s := Service{URLTemplate: raw.URLTemplate, Env: raw.Env, AllowedEnvs: raw.AllowedEnvs, AllowedArguments: raw.AllowedArguments}
	for i, a := range raw.Prestart {
		action, err := parseAction(ActionKind(a.Action), a.Args)
		if err != nil {
			return Service{}, fmt.Errorf("service definition: prestart %d: %w", i+1, err)
		}
		if a.Ref != nil && *a.Ref != "" {
			if !variable(*a.Ref) {
				return Service{}, fmt.Errorf("service definition: prestart %d: ref %s is not a name", i+1, brief(*a.Ref))
			}
			action.Ref = *a.Ref
		}
		s.Prestart = append(s.Prestart, action)
	}
	for name, value := range raw.DefaultArguments {
		words, err := parseTexts(value)
		if err != nil {
			return Service{}, fmt.Errorf("service definition: default_arguments %s: %w", brief(name), err)
		}
		if s.DefaultArguments == nil {
			s.DefaultArguments = map[string][]string{}
		}
		s.DefaultArguments[name] = words
	}
	for name := range s.Env {
		if !variable(name) {
			return Service{}, fmt.Errorf("service definition: env %s is not the name of a variable", brief(name))
		}
	}
	if raw.Noop {
		return s, nil
	}
	command, err := parseCommand(raw.Command, raw.Shell)
	if err != nil {
		return Service{}, fmt.Errorf("service definition: command: %w", err)
	}
	s.Command = command
	return s, nil
}

// parseCommand reads a list of words, or a text for a shell.
func parseCommand(data json.RawMessage, shell string) ([]string, error) {
	words, err := parseTexts(data)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("there is none")
	}
	if data[0] == '"' {
		if shell == "" {
			shell = "sh" // Backend.AI says bash, which not every image has; sh is there or nothing is
		}
		return []string{shell, "-c", words[0]}, nil
	}
	return words, nil
}

func parseAction(kind ActionKind, data json.RawMessage) (Action, error) {
	var args struct {
		Filename string          `json:"filename"`
		Path     string          `json:"path"`
		Body     json.RawMessage `json:"body"`
		Mode     string          `json:"mode"`
		Append   bool            `json:"append"`
		Command  []string        `json:"command"`
		Echo     bool            `json:"echo"`
		Message  string          `json:"message"`
		Debug    bool            `json:"debug"`
	}
	if err := decodeStrict(data, &args); err != nil {
		return Action{}, fmt.Errorf("%s: args: %w", brief(string(kind)), err)
	}
	a := Action{Kind: kind}
	need := func(what, value string) error {
		if value == "" {
			return fmt.Errorf("%s: args: %s is missing", kind, what)
		}
		return nil
	}
	switch kind {
	case WriteFile, WriteTempfile:
		lines, err := parseTexts(args.Body)
		if err != nil {
			return Action{}, fmt.Errorf("%s: body: %w", kind, err)
		}
		if args.Append {
			return Action{}, fmt.Errorf("%s: append is not supported", kind)
		}
		if a.Mode, err = parseMode(args.Mode); err != nil {
			return Action{}, fmt.Errorf("%s: mode %s: %w", kind, brief(args.Mode), err)
		}
		// Lines of write_file are written without their ends, those of write_tempfile with them.
		end := ""
		if kind == WriteFile {
			a.Path, end = args.Filename, "\n"
			if err := need("filename", args.Filename); err != nil {
				return Action{}, err
			}
		}
		for _, line := range lines {
			a.Body += line + end
		}
	case Mkdir:
		a.Path = args.Path
		return a, need("path", args.Path)
	case RunCommand:
		if len(args.Command) == 0 || args.Command[0] == "" {
			return Action{}, fmt.Errorf("%s: args: command is missing", kind)
		}
		a.Command = args.Command
	case Log:
		a.Message = args.Message
	default:
		return Action{}, fmt.Errorf("action %s: want write_file, write_tempfile, mkdir, run_command or log", brief(string(kind)))
	}
	return a, nil
}

func parseMode(s string) (uint32, error) {
	if s == "" {
		return 0o644, nil
	}
	m, err := strconv.ParseUint(s, 8, 32)
	if err != nil || m > 0o777 {
		return 0, errors.New("want octal permissions such as 644")
	}
	return uint32(m), nil
}

// parseTexts reads a text, a list of texts, or nothing.
func parseTexts(data json.RawMessage) ([]string, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	if data[0] == '"' {
		var one string
		err := json.Unmarshal(data, &one)
		return []string{one}, err
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, errors.New("want a text or a list of texts")
	}
	return list, nil
}

func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the end of the JSON text")
	}
	return nil
}

// Variables are what a Service's templates can name, and what its user adds.
type Variables struct {
	Ports       []int  // {ports[0]} …; those that the app shall listen on
	RuntimePath string // {runtime_path}
	TempDir     string // where temporary files are written: an absolute path in the container
	Base        string // {base}: the path that the app is shown below, with a slash at both ends
	Token       string // {token}: a random text that it lets in nobody without, if it can

	Arguments map[string][]string // of the user: only AllowedArguments; in place of a default of that name
	Envs      map[string]string   // of the user: only AllowedEnvs
}

// Launch is what to do to start an app, in this order: Steps, then Command with Env added to the environment.
type Launch struct {
	Steps   []Action // with every template filled in, and the path of each temporary file
	Command []string // empty: nothing is to be started
	Env     map[string]string
}

// Expand fills in the templates. {name}, {name[0]} and, in the command and the environment, ${{ name }} stand for
// variables: ports, port (the first of them), runtime_path, base, token, and the refs of actions before. A name that is
// not among them is an error; so is the ref of a run_command, because nothing has run yet.
func (s Service) Expand(v Variables) (Launch, error) {
	values := map[string]string{"runtime_path": v.RuntimePath, "base": v.Base, "token": v.Token}
	if len(v.Ports) > 0 {
		values["port"] = strconv.Itoa(v.Ports[0])
	}
	for i, p := range v.Ports {
		values[fmt.Sprintf("ports[%d]", i)] = strconv.Itoa(p)
	}
	var out Launch
	for i, a := range s.Prestart {
		step, err := a.expand(values, path.Join(v.TempDir, fmt.Sprintf("service-%d.py", i+1)))
		if err != nil {
			return Launch{}, fmt.Errorf("expand prestart %d (%s): %w", i+1, a.Kind, err)
		}
		if a.Ref != "" && step.Path != "" {
			values[a.Ref] = step.Path
		}
		out.Steps = append(out.Steps, step)
	}
	if err := s.expandCommand(&out, v, values); err != nil {
		return Launch{}, err
	}
	return out, nil
}

func (s Service) expandCommand(out *Launch, v Variables, values map[string]string) error {
	for name := range v.Arguments {
		if !slices.Contains(s.AllowedArguments, name) {
			return fmt.Errorf("argument %s: not allowed; allowed: %s", brief(name), listed(s.AllowedArguments))
		}
	}
	for name := range v.Envs {
		if !slices.Contains(s.AllowedEnvs, name) || !variable(name) {
			return fmt.Errorf("environment variable %s: not allowed; allowed: %s", brief(name), listed(s.AllowedEnvs))
		}
	}
	if len(s.Command) > 0 {
		arguments := maps.Clone(s.DefaultArguments)
		if arguments == nil {
			arguments = map[string][]string{}
		}
		words := slices.Clone(s.Command)
		for _, name := range slices.Sorted(maps.Keys(arguments)) {
			if _, replaced := v.Arguments[name]; !replaced {
				words = append(append(words, name), arguments[name]...)
			}
		}
		for _, w := range words {
			text, err := fillLoose(w, values)
			if err != nil {
				return fmt.Errorf("expand command %s: %w", brief(w), err)
			}
			out.Command = append(out.Command, text)
		}
		// A user's words are no templates.
		for _, name := range slices.Sorted(maps.Keys(v.Arguments)) {
			out.Command = append(append(out.Command, name), v.Arguments[name]...)
		}
	}
	out.Env = maps.Clone(v.Envs)
	for name, value := range s.Env {
		text, err := fillLoose(value, values)
		if err != nil {
			return fmt.Errorf("expand env %s: %w", name, err)
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[name] = text
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// expand fills in one action; temp is the name for its temporary file.
func (a Action) expand(values map[string]string, temp string) (Action, error) {
	var err error
	fill := func(s string) string {
		text, e := fillStrict(s, values)
		if e != nil && err == nil {
			err = e
		}
		return text
	}
	out := a
	out.Path, out.Body, out.Message = fill(a.Path), fill(a.Body), fill(a.Message)
	if a.Kind == WriteTempfile {
		out.Path = temp
	}
	out.Command = nil
	for _, w := range a.Command {
		out.Command = append(out.Command, fill(w))
	}
	return out, err
}
