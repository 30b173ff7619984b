package images

import (
	"reflect"
	"strings"
	"testing"
)

const jupyter = `{
  "prestart": [
    {"action": "mkdir", "args": {"path": "/home/work/logs"}},
    {"action": "write_tempfile", "args": {"body": ["port = {ports[0]}\n", "d = {{}}\n"]}, "ref": "cfg"},
    {"action": "write_file", "args": {"filename": "/tmp/x", "body": ["a", "b"], "mode": "755"}},
    {"action": "run_command", "args": {"command": ["touch", "{cfg}.lock"]}},
    {"action": "log", "args": {"message": "on {ports[1]}", "debug": true}}
  ],
  "command": ["{runtime_path}", "-m", "jupyterlab", "--config", "{cfg}", "${HOME}", "${{ ports[0] }}"],
  "url_template": "http://{host}:{port}/",
  "env": {"PORT": "{ports[0]}"},
  "allowed_envs": ["LANG"],
  "allowed_arguments": ["--logdir", "--port"],
  "default_arguments": {"--logdir": "/home/work/logs", "--quiet": null, "--x": ["{ports[0]}", "2"]}
}`

func TestServiceExpand(t *testing.T) {
	s, err := ParseService([]byte(jupyter))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Expand(Variables{Ports: []int{8091, 8092}, RuntimePath: "/usr/bin/python", TempDir: "/tmp/app",
		Arguments: map[string][]string{"--logdir": {"/mine/{x}"}}, Envs: map[string]string{"LANG": "C"}})
	want := Launch{
		Steps: []Action{
			{Kind: Mkdir, Path: "/home/work/logs"},
			{Kind: WriteTempfile, Path: "/tmp/app/service-2.py", Body: "port = 8091\nd = {}\n", Mode: 0o644, Ref: "cfg"},
			{Kind: WriteFile, Path: "/tmp/x", Body: "a\nb\n", Mode: 0o755},
			{Kind: RunCommand, Command: []string{"touch", "/tmp/app/service-2.py.lock"}},
			{Kind: Log, Message: "on 8092"},
		},
		Command: []string{"/usr/bin/python", "-m", "jupyterlab", "--config", "/tmp/app/service-2.py", "${HOME}", "8091",
			"--quiet", "--x", "8091", "2", "--logdir", "/mine/{x}"},
		Env: map[string]string{"PORT": "8091", "LANG": "C"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v, %v\nwant %+v", got, err, want)
	}
	if s.URLTemplate != "http://{host}:{port}/" {
		t.Errorf("url_template %q", s.URLTemplate)
	}
}

func TestServiceCommands(t *testing.T) {
	for _, row := range []struct {
		what, text string
		want       []string
	}{
		{"a text is a shell's", `{"command": "exec x --port {ports[0]} ${A}"}`, []string{"sh", "-c", "exec x --port 8000 ${A}"}},
		{"with the shell it names", `{"command": "x", "shell": "/bin/bash"}`, []string{"/bin/bash", "-c", "x"}},
		{"nothing to start", `{"noop": true}`, nil},
	} {
		s, err := ParseService([]byte(row.text))
		if err != nil {
			t.Errorf("%s: %v", row.what, err)
			continue
		}
		if got, err := s.Expand(Variables{Ports: []int{8000}}); err != nil || !reflect.DeepEqual(got.Command, row.want) {
			t.Errorf("%s: %q, %v; want %q", row.what, got.Command, err, row.want)
		}
	}
}

func TestServiceRefuses(t *testing.T) {
	for _, row := range []struct{ what, text, want string }{
		{"not JSON", `{`, "unexpected EOF"},
		{"more after the end", `{"command": ["a"]} {}`, "follows the end"},
		{"a field nobody knows", `{"command": ["a"], "comand": 1}`, `unknown field "comand"`},
		{"no command", `{}`, "command: there is none"},
		{"a command that is a number", `{"command": 3}`, "want a text or a list"},
		{"an action nobody knows", `{"command": ["a"], "prestart": [{"action": "rm"  , "args": {}}]}`, `prestart 1: action "rm": want write_file`},
		{"a file without a name", `{"command": ["a"], "prestart": [{"action": "write_file", "args": {"body": "x"}}]}`, "filename is missing"},
		{"a mode that is none", `{"command": ["a"], "prestart": [{"action": "write_tempfile", "args": {"mode": "4755"}}]}`, `mode "4755": want octal`},
		{"a ref that is no name", `{"command": ["a"], "prestart": [{"action": "log", "args": {"message": "x"}, "ref": "a b"}]}`, "is not a name"},
		{"an unknown variable", `{"command": ["{prt}"]}`, "no variable {prt}; there are base, port, ports[0], runtime_path, token"},
		{"a port that the app does not have", `{"command": ["{ports[1]}"]}`, "no variable {ports[1]}"},
		{"what a command will have said", `{"command": ["{r}"], "prestart": [{"action": "run_command", "args": {"command": ["a"]}, "ref": "r"}]}`, "no variable {r}"},
		{"a brace alone", `{"command": ["a"], "prestart": [{"action": "log", "args": {"message": "a { b"}}]}`, "a brace alone"},
	} {
		s, err := ParseService([]byte(row.text))
		if err == nil {
			_, err = s.Expand(Variables{Ports: []int{8000}})
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", row.what, err, row.want)
		}
	}
	s := Service{Command: []string{"a"}, AllowedArguments: []string{"--a"}, AllowedEnvs: []string{"A"}}
	if _, err := s.Expand(Variables{Arguments: map[string][]string{"--b": nil}}); err == nil || !strings.Contains(err.Error(), `"--b": not allowed; allowed: --a`) {
		t.Errorf("an argument that is not allowed: %v", err)
	}
	if _, err := s.Expand(Variables{Envs: map[string]string{"LD_PRELOAD": "x"}}); err == nil || !strings.Contains(err.Error(), `"LD_PRELOAD": not allowed`) {
		t.Errorf("a variable that is not allowed: %v", err)
	}
}

func FuzzParseService(f *testing.F) {
	f.Add([]byte(jupyter))
	f.Add([]byte(`{"command": "x {ports[0]} ${{ports[0]}} ${a} {{b}} }"}`))
	f.Add([]byte(`{"noop": true, "default_arguments": {"a": [null]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseService(data)
		if err != nil {
			return
		}
		l, err := s.Expand(Variables{Ports: []int{8000}, RuntimePath: "/r", TempDir: "/t"})
		if err == nil && (len(l.Steps) != len(s.Prestart) || len(l.Command) < len(s.Command)) {
			t.Fatalf("%q: %+v", data, l)
		}
	})
}
