package apps

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// loginAs logs a browser in as another user of this machine, by a token.
func (s *site) loginAs(b *Browser, user, base string) {
	s.t.Helper()
	token, err := exec.Command(filepath.Join(s.bin, "batchd"), "token", "user", "--config", filepath.Join(s.state, "fairslice.toml"), user).Output()
	if err != nil {
		s.t.Fatal("make a token: ", err)
	}
	b.Do("log in by a token", chromedp.Navigate(base+"/login"), chromedp.WaitVisible(css("#token")), value("token", strings.TrimSpace(string(token))),
		chromedp.Click(css("#log-in")), chromedp.WaitVisible(css("#live-jobs")))
}

// body is what a page shows.
func body(b *Browser, address string) string {
	b.t.Helper()
	b.Do("open "+address, chromedp.Navigate(address))
	return Ask(b, "read it", chromedp.Evaluate[string]("document.documentElement.outerHTML"))
}

// A session becomes a private image by an administrator's click on the page. For another user, who is logged in at the same time,
// there is neither the request nor the image.
func TestCommitOnThePage(t *testing.T) {
	needApps(t)
	extra := filepath.Join(t.TempDir(), "extra.toml")
	if err := os.WriteFile(extra, []byte("[[queue]]\nname = \"normal\"\nwritable = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, "--extra", extra)
	session := s.run("bsession", "-writable", "-image", "sample")
	s.until("RUN", "bjobs", "-noheader", "-o", "stat", session)
	s.run("bexec", session, "sh", "-c", "echo 42 > /usr/answer")
	s.run("bimage", "commit", session, "kept:1", "-d", "with the answer")

	admin, other := Start(t), Start(t)
	base, _ := s.login(admin)
	s.loginAs(other, "games", base)
	hidden := func(when string) {
		t.Helper()
		for _, path := range []string{"/", "/launch", "/commits", "/all", "/jobs/" + session} {
			if page := body(other, base+path); strings.Contains(page, "kept") || strings.Contains(page, "answer") {
				t.Errorf("%s, %s shows it to another user: %s", when, path, page)
			}
		}
	}
	hidden("asked for")
	_ = other.Errors() // the pages that are not there

	admin.Do("see the request", chromedp.Navigate(base+"/commits"), chromedp.WaitVisible(css("#commit-1 button[value=approve]")),
		poll("document.querySelector('#commit-1').innerText.includes('with the answer')"))
	admin.Screenshot("requests")
	admin.Do("approve it", chromedp.Click(css("#commit-1 button[value=approve]")), chromedp.WaitVisible(css(".note")), chromedp.Evaluate[chromedp.Void]("window.notReloaded = true"),
		poll("document.querySelector('#commit-1').innerText.includes('has become image')"), poll("window.notReloaded && !document.querySelector('#commit-1 form')"))
	admin.Do("look for the image in the dialog", chromedp.Navigate(base+"/launch"), chromedp.WaitVisible(css("#start")))
	name := Ask(admin, "read its name", chromedp.Evaluate[string]("[...document.querySelectorAll('#image option')].map(o => o.value).find(v => v.endsWith('/kept:1')) || ''"))
	if name == "" {
		t.Fatal("its owner's dialog does not offer it")
	}
	hidden("made")
	_ = other.Errors()
	said := map[string]string{}
	none := strings.Replace(name, "kept", "none", 1)
	for _, image := range []string{name, none} {
		other.Do("forge the choice of "+image, chromedp.Navigate(base+"/launch"), chromedp.WaitVisible(css("#start")),
			chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(() => { const o = new Option(%q, %q); document.getElementById('image').append(o); o.selected = true; })()", image, image)),
			chromedp.Click(css("#start")), chromedp.WaitVisible(css("#wrong")))
		said[image] = Ask(other, "read the refusal", chromedp.Text(css("#wrong")))
	}
	if strings.Replace(said[name], "kept", "none", 1) != said[none] || !strings.Contains(said[none], "No such image") {
		t.Errorf("another user is told %q, and of an image that is not there %q", said[name], said[none])
	}
	if list := s.run("bjobs", "-noheader", "-u", "games", "-a"); strings.Contains(list, "games") {
		t.Errorf("another user runs\n%s", list)
	}
	if errors := admin.Errors(); len(errors) > 0 {
		t.Errorf("the administrator's page has errors: %q", errors)
	}
	s.run("bkill", "0")
}
