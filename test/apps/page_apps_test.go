package apps

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// Jupyter by two clicks: the dialog offers it for the image that names it, the session starts with it, and its page opens it.
func TestAppsOnThePage(t *testing.T) {
	needApps(t)
	extra := filepath.Join(t.TempDir(), "extra.toml")
	// An app of the site's own, in place of the usual ones, of which one is called jupyter, too.
	if err := os.WriteFile(extra, []byte("[[app]]\nname = \"anywhere\"\nport = 5000\ncommand = [\"true\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, "--extra", extra)
	s.run("bimage", "add", "-site", "-public", "jupyter:6.4", image(t, "jupyter"))
	b := Start(t)
	base, _ := s.login(b)
	offered := func(names string) string {
		return `[...document.querySelectorAll('#apps label')].filter(l => l.offsetParent !== null).map(l => l.querySelector('input').value).join() === '` + names + `'`
	}
	const jupyter = "#apps input[value=jupyter]"
	b.Do("choose an image and its app", chromedp.Navigate(base+"/launch"), chromedp.WaitVisible(css("#start")), poll(offered("anywhere,jupyter")),
		value("image", "sample:latest"), poll(offered("anywhere")),
		value("image", "jupyter:6.4"), poll(offered("anywhere,jupyter")), chromedp.Click(css(jupyter)),
		value("image", "sample:latest"), value("image", "jupyter:6.4"), poll("!document.querySelector('"+jupyter+"').checked"), chromedp.Click(css(jupyter)))
	b.Screenshot("apps")
	b.Do("start it", value("memory", "1GB"), chromedp.Click(css("#start")), chromedp.WaitVisible(css("#live-jobs")), states(1, 0, 0))
	b.Do("see that the app runs", chromedp.Navigate(base+"/jobs/1"), chromedp.WaitVisible(css("#app-jupyter")), poll(`/\d{4}/.test(document.getElementById('app-jupyter').innerText)`))
	if errors := b.Errors(); len(errors) > 0 {
		t.Errorf("the page has errors: %q", errors)
	}
	b.Do("open it", chromedp.Evaluate[chromedp.Void]("document.getElementById('app-jupyter').form.target = ''"), // in this page, where the test looks
		chromedp.Click(css("#app-jupyter")), chromedp.WaitVisible(css("#notebook_list")))
	s.run("bkill", "0")
}
