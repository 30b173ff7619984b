package apps

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A run logged from the session is in MLflow's REST answer and on its page. Users start `mlflow ui` themselves, knowing nothing of
// the web page, so the proxy takes off the prefix and asks as if from this machine.
func TestMLflow(t *testing.T) {
	needApps(t)
	const base = "/app/7/mlflow-ui/"
	sif := image(t, "mlflow")
	home := t.TempDir()
	inside := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	host, port, _ := strings.Cut(inside, ":")
	serve(t, contained(sif, home, "mlflow", "ui", "--host", host, "--port", port, "--workers", "1"), "Application startup complete")

	logging := contained(sif, home, "/opt/mlflow/bin/python3", "-c", `
import mlflow
with mlflow.start_run(run_name="the first run"):
    mlflow.log_metric("loss", 0.25)
    mlflow.log_text("hello", "greeting.txt")`)
	logging.Env = append(logging.Env, "MLFLOW_TRACKING_URI=http://"+inside)
	if text, err := logging.Output(); err != nil {
		t.Fatalf("log a run: %v\n%s", err, text)
	}
	answer, err := http.Post("http://"+inside+"/api/2.0/mlflow/runs/search", "application/json", strings.NewReader(`{"experiment_ids": ["0"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var found struct {
		Runs []struct {
			Info struct {
				RunName string `json:"run_name"`
				Status  string `json:"status"`
			} `json:"info"`
		} `json:"runs"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		t.Fatal(answer.Status, ": ", err)
	}
	if len(found.Runs) != 1 || found.Runs[0].Info.RunName != "the first run" || found.Runs[0].Info.Status != "FINISHED" {
		t.Errorf("runs found: %+v, want the first run, finished", found.Runs)
	}

	proxy := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(base, "/"), &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: inside}) // and its Host header
		if r.Out.Header.Get("Origin") != "" {
			r.Out.Header.Set("Origin", "http://"+inside)
		}
	}}))
	t.Cleanup(proxy.Close)
	b := Start(t)
	b.Do("find the run", chromedp.Navigate(strings.Replace(proxy.URL, "127.0.0.1", "cluster.localhost", 1)+base+"#/experiments/0/runs"),
		chromedp.Poll[chromedp.Void]("document.body.innerText.includes('the first run')", chromedp.WithPollingTimeout(patience)))
	b.Screenshot("runs")
	for _, text := range b.Errors() {
		if !strings.HasSuffix(text, "/mlflow/users/current") { // not found: MLflow without accounts says so in this way
			t.Error("in the browser: ", text)
		}
	}
}
