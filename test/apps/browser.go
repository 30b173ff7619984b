package apps

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for what should come at once: the machine may be busy.
const patience = 2 * time.Minute

// Browser is a headless Chromium with one open page and a profile of its own, so that no test sees the cookies of another.
// Its methods end the test when something fails; they are for the goroutine of the test.
type Browser struct {
	t    testing.TB
	page context.Context

	mu     sync.Mutex
	errors []string
}

// Step is one thing to do with the page, such as chromedp.Click(chromedp.CSS("#go")).
type Step = chromedp.Action[chromedp.Void]

// Start starts a browser, with more options, which ends with the test. It is an error that there is none: etc/setup-apps.sh
// installs it.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("no chromium on this machine; run: etc/setup-apps.sh")
	}
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 900),
		// What the tests open is on this machine, under any name that ends in .localhost.
		chromedp.Flag("no-proxy-server", true),
	}, more)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // its sandbox refuses to run as root
	}
	process, kill := chromedp.NewExecAllocator(context.Background(), options...)
	page, closePage := chromedp.NewContext(process)
	b := &Browser{t: t, page: page}
	if err := chromedp.Do(page); err != nil {
		closePage()
		kill()
		t.Fatal("start the browser: ", err)
	}
	console := chromedp.Console(page)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for message, err := range console {
			if err != nil {
				return // the page is closed
			}
			b.note(message)
		}
	}()
	t.Cleanup(func() {
		if err := chromedp.Cancel(page); err != nil { // waits, or the profile could not be removed
			t.Error("end the browser: ", err)
		}
		closePage()
		kill()
		<-read
	})
	return b
}

// note keeps what a person would see in red in the console.
func (b *Browser) note(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleException {
		return
	}
	text := m.String()
	if m.Source != "" { // not of a script: a file that did not load, a refused connection, a breach of a policy
		text = m.Source + " " + text + " " + m.URL
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

// Errors are the page's errors since the last call: of its console, of scripts, of what did not load.
func (b *Browser) Errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.errors
	b.errors = nil
	return found
}

// Do does the steps. Where one fails, or they take longer than patience, it keeps a picture of the page, prints the
// page's errors and ends the test.
func (b *Browser) Do(what string, steps ...Step) {
	b.t.Helper()
	Ask(b, what, chromedp.Steps(steps...))
}

// Ask is Do for an action that has an answer, such as chromedp.Text.
func Ask[T any](b *Browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	limited, cancel := context.WithTimeout(b.page, patience)
	defer cancel()
	answer, err := chromedp.Run(limited, action)
	if err != nil {
		for _, text := range b.Errors() {
			b.t.Log(text)
		}
		b.Screenshot("failed")
		b.t.Fatalf("browser: %s: %v", what, err)
	}
	return answer
}

// Screenshot writes the whole page to NAME.png among the test's artifacts, which last where go test has -artifacts.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	limited, cancel := context.WithTimeout(b.page, patience)
	defer cancel()
	picture, err := chromedp.Run(limited, chromedp.FullScreenshot(100)) // 100: as PNG
	if err == nil {
		picture, err = small(picture)
	}
	if err != nil {
		b.t.Errorf("browser: screenshot %s: %v", name, err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
		b.t.Errorf("browser: screenshot: %v", err)
	}
}
