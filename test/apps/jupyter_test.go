package apps

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"fairslice/images"
)

// A notebook in the browser, through a proxy with a prefix, a name and a token, as the web page shows it: a cell is run, so the kernel's
// WebSocket works, and its result is in the page and in the file.
func TestJupyter(t *testing.T) {
	needApps(t)
	const base, token = "/app/7/jupyter/", "s3cret"
	sif := image(t, "jupyter")
	home := t.TempDir()
	port := freePort(t)
	launch := serviceOf(t, sif, "jupyter", images.Variables{Ports: []int{port}, RuntimePath: "/usr/bin/python3", TempDir: "/home/work"})
	for _, step := range launch.Steps {
		if err := os.WriteFile(filepath.Join(home, filepath.Base(step.Path)), []byte(step.Body), os.FileMode(step.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := contained(sif, home, launch.Command...)
	cmd.Env = append(cmd.Env, "FAIRSLICE_APP_BASE="+base, "FAIRSLICE_APP_TOKEN="+token)
	serve(t, cmd, "is running at")

	direct := fmt.Sprintf("http://127.0.0.1:%d%sapi/contents", port, base)
	if answer, err := http.Get(direct); err != nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("without the token: %v, %v; want 403", answer, err)
	}

	// The proxy keeps the name and the prefix that the browser asked for, and brings the token.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)})
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "token "+token)
	}})
	t.Cleanup(proxy.Close)
	outside := strings.Replace(proxy.URL, "127.0.0.1", "cluster.localhost", 1) + base

	notebook := `{"cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": "import sys\nprint(6 * 7, sys.version_info[:2])"}],
		"metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 4}`
	if err := os.WriteFile(filepath.Join(home, "answer.ipynb"), []byte(notebook), 0o666); err != nil {
		t.Fatal(err)
	}
	b := Start(t)
	b.Do("list the files", chromedp.Navigate(outside+"tree"), chromedp.WaitVisible(chromedp.CSS("a[href$='answer.ipynb']")))
	b.Screenshot("tree")
	b.Do("open the notebook", chromedp.Navigate(outside+"notebooks/answer.ipynb"),
		chromedp.Poll[chromedp.Void]("window.IPython && IPython.notebook && IPython.notebook.kernel && IPython.notebook.kernel.is_connected()", chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate[chromedp.Void]("IPython.notebook.execute_all_cells()"),
		chromedp.WaitVisible(chromedp.CSS(".output_stdout")))
	if got := Ask(b, "read the output", chromedp.Text(chromedp.CSS(".output_stdout"))); strings.TrimSpace(got) != "42 (3, 13)" {
		t.Errorf("the cell printed %q, want 42 (3, 13)", got)
	}
	b.Do("save", chromedp.Evaluate[chromedp.Void]("IPython.notebook.save_notebook()", chromedp.EvalAwaitPromise))
	b.Screenshot("notebook")
	for _, text := range b.Errors() {
		if !strings.Contains(text, "/nbextensions/widgets/") { // each notebook asks for them; Debian packages them apart
			t.Error("in the browser: ", text)
		}
	}
	if saved, err := os.ReadFile(filepath.Join(home, "answer.ipynb")); err != nil || !strings.Contains(string(saved), "42 (3, 13)") {
		t.Errorf("the saved notebook lacks the output: %v\n%s", err, saved)
	}
}

// serviceOf reads the definition of an app from an image and fills it in.
func serviceOf(t *testing.T, sif, name string, v images.Variables) images.Launch {
	t.Helper()
	text, err := contained(sif, t.TempDir(), "cat", images.ServiceDir+"/"+name+".json").Output()
	if err != nil {
		t.Fatal("read the definition of ", name, ": ", err)
	}
	service, err := images.ParseService(text)
	if err != nil {
		t.Fatal(err)
	}
	launch, err := service.Expand(v)
	if err != nil {
		t.Fatal(err)
	}
	return launch
}

// serve starts a server, waits until it says on stderr or stdout that it is ready, and ends it with the test.
func serve(t *testing.T, cmd *exec.Cmd, ready string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	said := make(chan struct{})
	var log strings.Builder
	done := make(chan struct{})
	go func() { // until all that hold the pipe have ended
		defer close(done)
		heard := false
		for lines := bufio.NewScanner(read); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if !heard && strings.Contains(lines.Text(), ready) {
				heard = true
				close(said)
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		<-done
		_ = read.Close()
		if t.Failed() {
			t.Log("the server said:\n" + log.String())
		}
	})
	select {
	case <-said:
	case <-done:
		t.Fatal("the server ended")
	case <-time.After(patience):
		t.Fatalf("the server did not say %q", ready)
	}
}

// freePort is a port of the loopback address that nobody listened on just now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
