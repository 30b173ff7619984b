package apps

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

// page says over its WebSocket what it is told to, and shows the answer; it has each of the errors that a page can have.
const page = `<!doctype html><title>A page</title><input id=say><button id=go>Go</button><p id=heard></p><script>
const socket = new WebSocket('ws://' + location.host + '/socket')
socket.onmessage = m => { heard.textContent = m.data; heard.className = 'done' }
go.onclick = () => socket.send(say.value)
console.error('one', 2)
setTimeout(() => { throw new Error('three') })
fetch('/four')
</script>`

func TestBrowser(t *testing.T) {
	needApps(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it has answered
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, said, err := c.Read(r.Context())
			if err != nil {
				return // the page is closed
			}
			if err := c.Write(r.Context(), kind, []byte(strings.ToUpper(string(said)))); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	b := Start(t)
	b.Do("talk to the page", chromedp.Navigate(server.URL), chromedp.SendKeys(chromedp.CSS("#say"), "hello"), chromedp.Click(chromedp.CSS("#go")),
		chromedp.WaitVisible(chromedp.CSS("#heard.done")))
	heard := Ask(b, "read the answer", chromedp.Text(chromedp.CSS("#heard")))
	if heard != "HELLO" {
		t.Errorf("over the WebSocket came %q, want HELLO", heard)
	}
	b.Screenshot("page")

	// The browser tells of them in its own time, in order with its answers to us.
	wanted := []string{"error: one 2", "exception: ", "three", "404 (Not Found)", "/four"}
	got := ""
	for range 1000 {
		got += strings.Join(b.Errors(), "\n") + "\n"
		if !slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(got, want) }) {
			break
		}
		b.Do("a round trip", chromedp.Evaluate[chromedp.Void]("1"))
	}
	for _, want := range wanted {
		if n := strings.Count(got, want); n != 1 {
			t.Errorf("%q is %d times among the page's errors, want once:\n%s", want, n, got)
		}
	}
}
