package apps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// withImage is a site whose configuration has an image, and a folder for its jobs.
func withImage(t *testing.T, ref, sif string) (s *site, work string) {
	t.Helper()
	extra := filepath.Join(t.TempDir(), "extra.toml")
	if err := os.WriteFile(extra, []byte(fmt.Sprintf("[[image]]\nname = %q\nfile = %q\n", ref, sif)), 0o644); err != nil {
		t.Fatal(err)
	}
	return startSite(t, "--extra", extra), t.TempDir()
}

// submit starts a session with its apps, and gives its number.
func (s *site) submit(work string, args ...string) string {
	s.t.Helper()
	answer := s.run("bsub", append([]string{"-cwd", work}, args...)...)
	_, rest, _ := strings.Cut(answer, "Job <")
	job, _, _ := strings.Cut(rest, ">")
	return job
}

// Jupyter as its user has it: bsub starts it with the session, bapp gives a link, a cell runs through the proxy and the session's
// own server, a second Jupyter of the same node is another, and all ends with the session.
func TestJupyterOfASession(t *testing.T) {
	needApps(t)
	s, work := withImage(t, "jupyter:6.4", image(t, "jupyter"))
	notebook := `{"cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": "import os, sys\nprint(6 * 7, sys.version_info[:2], os.environ['LSB_JOBID'])"}],
		"metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 4}`
	if err := os.WriteFile(filepath.Join(work, "answer.ipynb"), []byte(notebook), 0o666); err != nil {
		t.Fatal(err)
	}
	// The image has one locale; its own Python and settings count, whatever the user of this machine has at home.
	first := s.submit(work, "-image", "jupyter:6.4", "-apps", "jupyter", "-env", "all, PATH=/usr/bin:/bin, LANG=C.UTF-8, LC_ALL=C.UTF-8, PYTHONNOUSERSITE=1", "sleep 3600")
	second := s.submit(work, "-image", "jupyter:6.4", "-env", "all, PATH=/usr/bin:/bin, LANG=C.UTF-8, LC_ALL=C.UTF-8, PYTHONNOUSERSITE=1", "sleep 3600")
	link := s.run("bapp", first, "jupyter")
	origin, _, ok := strings.Cut(link, "/?")
	if !ok {
		t.Fatalf("bapp gave %q", link)
	}
	b := Start(t)
	b.Do("list the files", chromedp.Navigate(link), chromedp.WaitVisible(chromedp.CSS("a[href$='answer.ipynb']")))
	b.Do("open the notebook", chromedp.Navigate(origin+"/notebooks/answer.ipynb"),
		chromedp.Poll[chromedp.Void]("window.IPython && IPython.notebook && IPython.notebook.kernel && IPython.notebook.kernel.is_connected()", chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate[chromedp.Void]("IPython.notebook.execute_all_cells()"),
		chromedp.WaitVisible(chromedp.CSS(".output_stdout")))
	if got, want := strings.TrimSpace(Ask(b, "read the output", chromedp.Text(chromedp.CSS(".output_stdout")))), "42 (3, 13) "+first; got != want {
		t.Errorf("the cell printed %q, want %q", got, want)
	}
	b.Do("save", chromedp.Evaluate[chromedp.Void]("IPython.notebook.save_notebook()", chromedp.EvalAwaitPromise)) // else the browser asks before it leaves
	b.Screenshot("notebook")
	if where := Ask(b, "read the address", chromedp.Location()); strings.Contains(where, "pass") {
		t.Errorf("the secret is still in the address: %s", where)
	}
	for _, text := range b.Errors() {
		if !strings.Contains(text, "/nbextensions/widgets/") { // which every notebook asks for, and does without
			t.Error("in the browser: ", text)
		}
	}

	other := s.run("bapp", second, "jupyter")
	b.Do("open the second", chromedp.Navigate(other), chromedp.WaitVisible(chromedp.CSS("a[href$='answer.ipynb']")))
	if list := s.run("bapp", second); !strings.Contains(list, "running") {
		t.Errorf("bapp lists\n%s", list)
	}
	s.run("bkill", first)
	for end := time.Now().Add(patience); s.run("bjobs", "-noheader", "-o", "stat", first) != "EXIT"; {
		if time.Now().After(end) {
			t.Fatal("the first session does not end")
		}
	}
	b.Do("look whether the first is over", chromedp.Navigate(origin+"/tree"))
	if got := Ask(b, "read the title", chromedp.Title()); got != "The session is over" {
		t.Errorf("after the end of the session the page is %q", got)
	}
	s.run("bkill", second)
}

// MLflow's page through the proxy, by a link of bapp: a run that a program of the session has logged is there.
func TestMLflowOfASession(t *testing.T) {
	needApps(t)
	s, work := withImage(t, "mlflow:3", image(t, "mlflow"))
	job := s.submit(work, "-image", "mlflow:3", "-env", "all, PATH=/opt/mlflow/bin:/usr/bin:/bin, LANG=C.UTF-8, LC_ALL=C.UTF-8, PYTHONNOUSERSITE=1", "sleep 3600")
	link := s.run("bapp", job, "mlflow-ui")
	list := s.run("bapp", "-noheader", job)
	_, line, _ := strings.Cut(list, "mlflow-ui")
	words := strings.Fields(line)
	if len(words) < 3 || words[2] != "running" {
		t.Fatalf("bapp lists\n%s", list)
	}
	s.run("bexec", "-n", "-e", "MLFLOW_TRACKING_URI=http://127.0.0.1:"+words[1], job, "python3", "-c", `
import mlflow
with mlflow.start_run(run_name="the first run"):
    mlflow.log_metric("loss", 0.25)`)
	b := Start(t)
	origin, _, _ := strings.Cut(link, "/?")
	b.Do("open it", chromedp.Navigate(link))
	b.Do("find the run", chromedp.Navigate(origin+"/#/experiments/0/runs"),
		chromedp.Poll[chromedp.Void]("document.body.innerText.includes('the first run')", chromedp.WithPollingTimeout(patience)))
	b.Screenshot("runs")
	for _, text := range b.Errors() {
		if !strings.Contains(text, "/users/current") { // which the page asks for, and a server without logins does not have
			t.Error("in the browser: ", text)
		}
	}
	s.run("bkill", job)
}
