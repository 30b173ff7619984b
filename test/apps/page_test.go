package apps

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// site is a running `batchd dev` with a web page: one node with one GPU of 8 GiB, which is 2 fGPU.
type site struct {
	t     *testing.T
	bin   string // the programs
	state string // its directory
	env   []string
}

// startSite starts one, with more options, which ends with the test.
func startSite(t *testing.T, more ...string) *site {
	t.Helper()
	s := &site{t: t, bin: os.Getenv("FAIRSLICE_BIN")}
	if s.bin == "" {
		t.Skip("FAIRSLICE_BIN does not name the folder of the built programs; 'make test-apps' sets it")
	}
	dir, err := os.MkdirTemp("", "fs-page-") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL comes through it
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free, and in all likelihood still is in a moment
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "batchd.log"))
	if err != nil {
		t.Fatal(err)
	}
	s.state = filepath.Join(dir, "state")
	cmd := exec.Command(filepath.Join(s.bin, "batchd"), append([]string{"dev", "--state", s.state, "--nodes", "1", "--slots", "8", "--mem", "4GiB",
		"--sim-gpus", "1x8GiB", "--fgpu-per-gpu", "2", "--terminate-interval", "1s", "--web", address}, more...)...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // a test that is killed leaves nothing either
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // that death is the one of the thread: this one lives as long as the program
		started <- cmd.Start()
		select {}
	}()
	if err := <-started; err != nil {
		t.Fatal("start the cluster: ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Error("the cluster did not end cleanly: ", err)
		}
		_ = log.Close()
	})
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line
	}()
	select {
	case line := <-ready:
		if !strings.HasPrefix(line, "ready: ") {
			t.Fatalf("the cluster did not start: %q; see its log", line)
		}
	case <-time.After(patience):
		t.Fatal("the cluster did not start in time")
	}
	s.env = append(os.Environ(), "FAIRSLICE_ADDR=unix://"+filepath.Join(s.state, "batchd.sock"))
	return s
}

// run runs a command of the cluster and returns what it prints.
func (s *site) run(name string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "bcli"), append([]string{name}, args...)...)
	cmd.Env, cmd.Stderr = s.env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

func css(selector string) chromedp.CSS { return chromedp.CSS(selector) }

// states waits until the listing shows exactly so many jobs in each state.
func states(run, pend, exit int) Step {
	count := func(state string, n int) string {
		return fmt.Sprintf("document.querySelectorAll('tr[data-state=%s]').length === %d", state, n)
	}
	return poll(count("RUN", run) + " && " + count("PEND", pend) + " && " + count("EXIT", exit))
}

// poll waits until a JavaScript condition holds in the page.
func poll(condition string) Step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(patience))); err != nil {
			return fmt.Errorf("%s: %w", condition, err)
		}
		return nil
	})
}

// value sets a field as if it had been typed.
func value(id, text string) Step {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); })()`, id, text))
}

// typed types into what has the focus, as a keyboard does: a script that has handled a key keeps its character from coming.
func typed(keys string) Step {
	return chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
		for _, r := range keys {
			for _, key := range kb.Encode(r) {
				switch key.Type {
				case input.DispatchKeyEventTypeChar: // chromedp sends it whatever the script did
					continue
				case input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyDown:
					key.Type, key.Text = input.DispatchKeyEventTypeKeyDown, string(r)
				}
				if _, err := cdp.Call(ctx, page, input.DispatchKeyEvent, *key); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// screen is a JavaScript condition: the terminal shows a text.
func screen(text string) string {
	return fmt.Sprintf(`(() => { const b = window.terminal.buffer.active; for (let i = 0; i < b.length; i++) { if (b.getLine(i)?.translateToString().includes(%q)) return true; } return false; })()`, text)
}

// login logs a browser in by a link, as who runs the test, and returns the page's address and the link.
func (s *site) login(b *Browser) (base, link string) {
	s.t.Helper()
	link = s.run("blogin")
	base, _, _ = strings.Cut(link, "/login?")
	b.Do("log in by the link", chromedp.Navigate(link), chromedp.WaitVisible(css("#log-in")), chromedp.Click(css("#log-in")), chromedp.WaitVisible(css("#live-jobs")))
	return base, link
}

// JavaScript conditions: a terminal is open and has the focus; and it shows the prompt of the sample image's shell.
const focused = "window.terminal && document.hasFocus() && document.activeElement.className === 'xterm-helper-textarea'"

var prompt = focused + " && " + screen("> ")

// The worked example, as a person does it: a GPU of 2 fGPU and three sessions of 1 fGPU.
func TestPage(t *testing.T) {
	needApps(t)
	s := startSite(t)
	b := Start(t)

	base, link := s.login(b)
	b.Screenshot("empty")

	b.Do("fill in the dialog", chromedp.Navigate(base+"/launch"), chromedp.WaitVisible(css("#start")),
		value("image", "sample:latest"), value("fgpu", "1"), value("limit", "1:00"), value("name", "fit"), value("count", "3"))
	b.Screenshot("page-launch")
	b.Do("make a mistake", value("limit", "soon"), chromedp.Click(css("#start")), chromedp.WaitVisible(css("#wrong")))
	if text := Ask(b, "read the mistake", chromedp.Text(css("#wrong"))); !strings.Contains(text, "Bad RUNLIMIT specification") || !strings.Contains(text, "Job not submitted.") {
		t.Errorf("a wrong run limit: the dialog says %q, want bsub's words", text)
	}
	if errors := b.Errors(); len(errors) != 1 || !strings.Contains(errors[0], "422") {
		t.Errorf("the page has errors: %q, want the refusal alone", errors)
	}
	b.Do("mend it, and start three sessions", value("limit", "1:00"), chromedp.Click(css("#start")), chromedp.WaitVisible(css("#live-jobs")), states(2, 1, 0))
	b.Do("see why one waits", poll("/GPU/.test(document.querySelector('tr[data-state=PEND] .why').innerText)"))
	b.Screenshot("page-jobs")
	if errors := b.Errors(); len(errors) > 0 {
		t.Errorf("the page has errors: %q", errors)
	}

	b.Do("look at the first", chromedp.Navigate(base+"/jobs/1"), chromedp.WaitVisible(css("#open-terminal")),
		poll("document.querySelectorAll('svg.plot').length === 2")) // the use of its slice comes by itself
	// The third is promised the place of the first.
	b.Do("ask for more time", value("by", "0:30"), chromedp.Click(css("form.line button")), chromedp.WaitVisible(css(".wrong")))
	if text := Ask(b, "read the refusal", chromedp.Text(css(".wrong"))); !strings.Contains(text, "is not extended") {
		t.Errorf("more time at the cost of a promise: %q", text)
	}
	_ = b.Errors() // the refusal's status
	b.Do("open its terminal", chromedp.Navigate(base+"/jobs/1/terminal"), poll(prompt),
		typed("echo $((6*7))-answer\r"), poll(screen("42-answer")))
	b.Screenshot("page-terminal")
	b.Do("leave a mark in it", typed("mark=left-here\r"))
	b.Do("open another shell", chromedp.Navigate(base+"/jobs/1/terminal?shell=1"), poll(prompt),
		typed("echo [$mark]-$((40+2))\r"), poll(screen("[]-42")))
	b.Do("come back to the first", chromedp.Navigate(base+"/jobs/1/terminal"), poll(prompt),
		typed("echo [$mark]-$((40+3))\r"), poll(screen("[left-here]-43")))
	// What was written is there again, and for a second terminal at the same time, which the first sees type.
	b.Do("see the old output", poll(screen("42-answer")+" && "+screen("[left-here]-43")))
	second := Start(t)
	s.login(second)
	second.Do("open the same terminal elsewhere", chromedp.Navigate(base+"/jobs/1/terminal"), poll(prompt+" && "+screen("42-answer")+" && "+screen("[left-here]-43")),
		typed("echo [$mark]-$((40+4))\r"), poll(screen("[left-here]-44")))
	b.Do("see it in the first, which is still open", poll(screen("[left-here]-44")), typed("echo [$mark]-$((40+5))\r"), poll(screen("[left-here]-45")))
	second.Do("see that in the second", poll(screen("[left-here]-45")))
	for _, one := range []*Browser{b, second} {
		if errors := one.Errors(); len(errors) > 0 {
			t.Errorf("the terminal has errors: %q", errors)
		}
	}

	s.run("bcp", filepath.Join(s.bin, "tenant"), "1:/tmp/tenant")
	b.Do("use the GPU", typed("/tmp/tenant alloc malloc 1536M hold 8 greedy 12 100 graph alloc malloc 2G greedy 30 100 graph >/dev/null &\r"))
	memory := func(least int) string {
		return fmt.Sprintf("parseInt(document.querySelector('figure:first-child b').innerText) >= %d", least)
	}
	points := func(least int) string {
		return fmt.Sprintf("document.querySelector('.plot .line').getAttribute('d').split('L').length > %d", least)
	}
	b.Do("watch it", chromedp.Navigate(base+"/jobs/1"), chromedp.Evaluate[chromedp.Void]("window.notReloaded = true"),
		poll(memory(1536)), poll(memory(3584)+" && "+points(5)+" && parseFloat(document.querySelector('figure:last-child b').innerText) > 20"), poll(points(7)+" && "+memory(3584)), poll("window.notReloaded === true"))
	b.Screenshot("page-job")

	b.Do("go to the list", chromedp.Navigate(base+"/"), states(2, 1, 0), chromedp.Evaluate[chromedp.Void]("window.notReloaded = true"))
	// By a command: the button's answer would be the list anew, and what is to be seen is that nobody needs to touch the page.
	s.run("bkill", "1")
	b.Do("see the third start by itself", states(2, 0, 1), poll("window.notReloaded === true"))
	b.Do("end one by its button", chromedp.Click(css("#end-2")), chromedp.WaitVisible(css(".note")), states(1, 0, 2))
	b.Do("give the last more time", chromedp.Navigate(base+"/jobs/3"), chromedp.WaitVisible(css("#by")), value("by", "0:30"), chromedp.Click(css("form.line button")),
		chromedp.WaitVisible(css(".note")), poll("document.getElementById('live-job').innerText.includes('1:30')"))

	b.Do("look at the GPUs", chromedp.Navigate(base+"/nodes"), chromedp.WaitVisible(css("#live-nodes table")))
	b.Screenshot("gpus")
	b.Do("read it in Japanese", chromedp.Navigate(base+"/?lang=ja"), poll("document.documentElement.lang === 'ja' && document.body.innerText.includes('自分のジョブ')"))
	b.Screenshot("page-japanese")
	b.Do("on a telephone", chromedp.EmulateViewport(390, 844), chromedp.Navigate(base+"/launch?lang=ko"), chromedp.WaitVisible(css("#start")),
		poll("document.documentElement.scrollWidth <= 390"))
	b.Screenshot("telephone")
	b.Do("log out", chromedp.Click(css(".who button")), chromedp.WaitVisible(css("#log-in")), chromedp.Navigate(base+"/jobs/3"), chromedp.WaitVisible(css("#log-in")))
	b.Do("use the link again", chromedp.Navigate(link), chromedp.WaitVisible(css("#log-in")), chromedp.Click(css("#log-in")), chromedp.WaitVisible(css(".wrong")))
	for _, e := range b.Errors() { // the refusal, in the console
		if !strings.Contains(e, "403") {
			t.Errorf("the page has an error: %q", e)
		}
	}
	s.run("bkill", "0")
}
