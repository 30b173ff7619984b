package etc

import "strings"

// App is one [[app]]: a network service that sessions can start, whatever their image says of it.
type App struct {
	Name    string   `toml:"name"`
	Proto   string   `toml:"proto"`   // http, tcp
	Port    int      `toml:"port"`    // 0 where the command takes {port}
	Command []string `toml:"command"` // with {port}, {base}, {token}
	Env     []string `toml:"env"`     // NAME=value, with the same
	Auth    string   `toml:"auth"`    // how the proxy gives {token} to the app: none, token, bearer, basic
}

func newApp() App { return App{Proto: "http", Auth: "none"} }

// defaultApps are there as long as the file has no [[app]]. Of each the image must have the program. Each was opened through the proxy,
// or is in test/apps: Notebook 6.4 and 7.6, JupyterLab 4.6, TensorBoard 2.21, MLflow 3, code-server 4.96 and ttyd 1.7.7.
func defaultApps() []App {
	return []App{
		{Name: "jupyter", Proto: "http", Auth: "token", Env: []string{"JUPYTER_TOKEN={token}"}, Command: []string{
			"jupyter", "notebook", "--no-browser", "--ip=127.0.0.1", "--port={port}", "--port-retries=0", "--allow-root", "--ServerApp.base_url={base}", "--NotebookApp.base_url={base}"}},
		{Name: "jupyterlab", Proto: "http", Auth: "token", Env: []string{"JUPYTER_TOKEN={token}"}, Command: []string{
			"jupyter-lab", "--no-browser", "--ip=127.0.0.1", "--port={port}", "--ServerApp.port_retries=0", "--allow-root", "--ServerApp.base_url={base}"}},
		{Name: "tensorboard", Proto: "http", Auth: "none", Command: []string{
			"tensorboard", "--host=127.0.0.1", "--port={port}", "--logdir=.", "--path_prefix={base}"}},
		{Name: "mlflow-ui", Proto: "http", Auth: "none", Command: []string{
			"mlflow", "ui", "--host=127.0.0.1", "--port={port}"}},
		{Name: "vscode", Proto: "http", Auth: "none", Command: []string{
			"code-server", "--bind-addr=127.0.0.1:{port}", "--auth=none", "--disable-telemetry", "--disable-update-check"}},
		{Name: "ttyd", Proto: "http", Auth: "basic", Command: []string{
			"ttyd", "-i", "127.0.0.1", "-p", "{port}", "-W", "-c", "fairslice:{token}", "sh", "-l"}},
	}
}

const maxApps = 100

func (v *checker) apps(c *Config) {
	names := make([]string, len(c.Apps))
	for i := range c.Apps {
		names[i] = c.Apps[i].Name
	}
	v.unique("app", names)
	if len(names) > maxApps {
		v.say(path{"app", maxApps}, "there are more than %d apps", maxApps)
	}
	for i := range c.Apps {
		v.app(path{"app", i}, &c.Apps[i])
	}
}

func (v *checker) app(p path, a *App) {
	if !isWord(a.Name, "._-") || a.Name[0] == '_' || len(a.Name) > 64 || strings.Trim(a.Name, "0123456789") == "" {
		v.say(p.with("name"), "want at most 64 letters, digits and . _ -, first a letter or digit, and not a number; got %s", quote(a.Name))
	}
	v.oneOf(p.with("proto"), a.Proto, "http", "tcp")
	v.oneOf(p.with("auth"), a.Auth, "none", "token", "bearer", "basic")
	if a.Auth != "none" && a.Proto == "tcp" {
		v.say(p.with("auth"), "is for HTTP: with proto \"tcp\" nobody gives a token")
	}
	if len(a.Command) == 0 || a.Command[0] == "" {
		v.say(p.with("command"), "must not be empty: the program and its arguments")
	}
	takes := false
	for i, word := range a.Command {
		v.appText(p.with("command").with(i), word)
		takes = takes || strings.Contains(word, "{port}")
	}
	for i, e := range a.Env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !isWord(name, "") || name[0] >= '0' && name[0] <= '9' {
			v.say(p.with("env").with(i), "want NAME=value; got %s", quote(e))
		}
		v.appText(p.with("env").with(i), value)
		takes = takes || strings.Contains(value, "{port}")
	}
	switch {
	case takes && a.Port != 0:
		v.say(p.with("port"), "leave it out: the command takes {port}, a free one")
	case !takes && (a.Port < 1025 || a.Port > 65534):
		v.say(p.with("port"), "want 1025 to 65534, or {port} in the command: then any free one; got %d", a.Port)
	}
}

// appText checks a text with variables in it.
func (v *checker) appText(p path, s string) {
	v.line(p, s, false)
	for rest := s; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return
		}
		name, more, closed := strings.Cut(after, "}")
		if !closed || name != "port" && name != "base" && name != "token" {
			v.say(p, "want {port}, {base} or {token} in braces, and no other braces; got %s", quote(s))
			return
		}
		rest = more
	}
}
