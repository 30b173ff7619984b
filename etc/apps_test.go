package etc

import (
	"strings"
	"testing"
)

func TestAppMistakes(t *testing.T) {
	const good = "name = \"a\"\ncommand = [\"a\", \"{port}\"]\n"
	for _, row := range []struct{ file, want string }{
		{good, ""},
		{"name = \"a\"\ncommand = [\"a\"]\nport = 8000", ""},
		{good + "port = 8000", "app \"a\": port: leave it out"},
		{"name = \"a\"\ncommand = [\"a\"]", "port: want 1025 to 65534"},
		{"name = \"a\"\ncommand = [\"a\"]\nport = 80", "port: want 1025 to 65534"},
		{"name = \"a\"\ncommand = [\"a\", \"{host}\"]\nport = 8000", "want {port}, {base} or {token} in braces"},
		{"name = \"a\"\ncommand = [\"a\", \"{port\"]\nport = 8000", "want {port}, {base} or {token} in braces"},
		{"name = \"5000\"\ncommand = [\"a\", \"{port}\"]", "not a number"},
		{"name = \"\"\ncommand = [\"a\", \"{port}\"]", "name: want at most 64 letters"},
		{"name = \"a/b\"\ncommand = [\"a\", \"{port}\"]", "name: want at most 64 letters"},
		{good + "env = [\"1=x\"]", "env 1: want NAME=value"},
		{good + "auth = \"magic\"", "auth: want one of none, token, bearer, basic"},
		{good + "proto = \"tcp\"\nauth = \"token\"", "auth: is for HTTP"},
		{good + "[[app]]\n" + good, "there is a app of this name already"},
	} {
		_, err := Parse("x.toml", []byte("[[app]]\n"+row.file))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v, want %q", row.file, err, row.want)
		}
	}
}

func TestAppsOfTheWeb(t *testing.T) {
	for _, row := range []struct{ file, want string }{
		{"listen = \"127.0.0.1:8080\"\napps_domain = \"localhost\"", ""},
		{"listen = \"127.0.0.1:8080\"\napps_listen = \"127.0.0.1:8081\"", ""},
		{"apps_domain = \"localhost\"", "is needed for apps"},
		{"listen = \"127.0.0.1:8080\"\napps_domain = \"*.example.org\"", "want a name in lower case"},
		{"listen = \"127.0.0.1:8080\"\napps_domain = \"127.0.0.1\"", "want a name in lower case"},
		{"listen = \"127.0.0.1:8080\"\napps_listen = \"127.0.0.1:8080\"", "another address than listen"},
		{"listen = \"127.0.0.1:8080\"\napps_listen = \"127.0.0.1:8081\"\napps_domain = \"localhost\"", "must be empty"},
		{"listen = \"127.0.0.1:8080\"\napps_listen = \":8081\"", "in clear"},
	} {
		_, err := Parse("x.toml", []byte("[web]\n"+row.file))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v, want %q", row.file, err, row.want)
		}
	}
	// The defaults must hold what is asked of a site's own.
	for _, a := range Default().Apps {
		if len(a.Command) == 0 || a.Name == "" {
			t.Errorf("%+v", a)
		}
	}
}
