package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairslice/images"
	"fairslice/queue"
)

// What a session uses of its slice is a plot that grows with each look.
func TestUseOfASlice(t *testing.T) {
	s := newSite(t)
	b := s.as(alice)
	if status, body := b.launch(url.Values{"name": {"x"}, "fgpu": {"0.5"}}); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	s.run(1)
	if _, body := b.get("/jobs/1"); !strings.Contains(body, "GPU 0: 0.5 fGPU, shim") || !strings.Contains(body, "not measured yet") || strings.Contains(body, "<svg") {
		t.Errorf("before it was measured: %s", body)
	}
	line := regexp.MustCompile(`class="line" d="([^"]+)"`)
	var plots []string
	for i := range 3 {
		s.engine.NodeHeartbeat("n1", queue.Heartbeat{Usage: []queue.AttemptUsage{{ID: queue.ElementID{Job: 1}, Attempt: 1,
			Usage: queue.Usage{GPUs: []queue.GPUUsage{{UUID: "A", Memory: int64(i) << 30, MaxMemory: 2 << 30, Util: 1000 * i, SMTime: time.Second, Measured: 10 * time.Second}}}}}})
		_, body := b.get("/jobs/1")
		found := line.FindAllStringSubmatch(body, -1)
		if len(found) != 2 {
			t.Fatalf("%d plots, want one of the memory and one of the SMs' time: %s", len(found), body)
		}
		if n := strings.Count(found[0][1], "L"); n != i {
			t.Errorf("after %d looks 5 s apart the line is %s", i+1, found[0][1])
		}
		plots = append(plots, found[0][1], found[1][1])
		s.pass(5 * time.Second)
	}
	slices.Sort(plots)
	if len(slices.Compact(plots)) < 5 { // the first two are the same: nothing is used
		t.Errorf("the plots do not change: %q", plots)
	}
	_, body := b.get("/jobs/1")
	for _, want := range []string{"<b>2048 MiB</b> / 2048 MiB", "(peak 2048 MiB)", "<b>20.0 %</b> / 25.0 %", "(mean 10.0 %)"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s: %s", want, body)
		}
	}
}

// The dialog offers the apps that images and the site name.
func TestAppsOfTheDialog(t *testing.T) {
	s := newSite(t)
	s.add("open:1", images.Public, "lab:http:8092,page:http:8093")
	b := s.as(alice)
	_, body := b.get("/launch")
	for _, want := range []string{
		`<label data-of="open:1"><input type="checkbox" name="apps" value="lab"> lab <span class="quiet">(open:1)`,
		`<label data-of="open:1 sample:latest"><input type="checkbox" name="apps" value="page"> page`,
		`<label><input type="checkbox" name="apps" value="ttyd"> ttyd</label>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the dialog has no %s: %s", want, body)
		}
	}
	form := url.Values{"name": {"x"}, "image": {"open:1"}, "apps": {"lab", "ttyd"}}
	if status, body := b.launch(form); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	s.engine.View(func(v queue.View) {
		if apps := v.Book().Jobs[1].Spec.Apps; !slices.Equal(apps, []string{"lab", "ttyd"}) {
			t.Errorf("the session is to have %q", apps)
		}
	})
	form.Set("image", "sample:latest")
	status, body := b.launch(form)
	for _, want := range []string{"lab: the image has no such app; there are: page, ttyd", `value="lab" checked>`, `value="ttyd" checked>`, `value="page">`} {
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("of another image's app, the dialog says (%d) no %s: %s", status, want, body)
		}
	}
}
