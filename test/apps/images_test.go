package apps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// until asks until the answer has the text.
func (s *site) until(text, name string, args ...string) string {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		out := s.run(name, args...)
		if strings.Contains(out, text) {
			return out
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s %s never shows %q: %s", name, strings.Join(args, " "), text, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Two versions of Python are two tags of one name in the catalogue. The same command, in two sessions that run side by side,
// prints the two versions of the interpreter and of its numerical library.
func TestTwoVersionsInTwoSessions(t *testing.T) {
	needApps(t)
	s := startSite(t)
	const program = "import sys, numpy; print('%d.%d' % sys.version_info[:2], numpy.__version__.split('.')[0])"
	want := map[string]string{"3.11": "3.11 1", "3.13": "3.13 2"}
	jobs := map[string]string{}
	for version := range want {
		s.run("bimage", "add", "-site", "-public", "python:"+version, image(t, "python", version))
		jobs[version] = s.run("bsession", "-image", "python:"+version, "-fgpu", "0.5")
	}
	for _, job := range jobs {
		s.until("RUN", "bjobs", "-noheader", "-o", "stat", job)
	}
	for version, job := range jobs {
		s.until("python:"+version, "bjobs", "-noheader", "-o", "image", job)
		if got := strings.TrimSpace(s.run("bexec", job, "/usr/bin/python3", "-c", program)); got != want[version] {
			t.Errorf("in python:%s: %q, want %q", version, got, want[version])
		}
	}
	for _, job := range jobs {
		s.run("bkill", job)
	}
}

// What a session installs into its Python is there in the image that the session becomes.
func TestAnInstalledPackageIsInTheImage(t *testing.T) {
	needApps(t)
	extra := filepath.Join(t.TempDir(), "extra.toml")
	if err := os.WriteFile(extra, []byte("[[queue]]\nname = \"normal\"\nwritable = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, "--extra", extra)
	work := t.TempDir()
	s.run("bimage", "add", "-site", "-public", "python:3.13", image(t, "python", "3.13"))
	if err := os.WriteFile(filepath.Join(work, "greet.py"), []byte("def word(): return 'kept'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	session := s.submit(work, "-writable", "-image", "python:3.13", "-env", "all, PATH=/usr/bin:/bin", "sleep 3600")
	s.until("RUN", "bjobs", "-noheader", "-o", "stat", session)
	s.run("bcp", filepath.Join(work, "greet.py"), session+":/usr/lib/python3/dist-packages/greet.py")
	s.run("bimage", "commit", session, "mine:1")
	s.until("asked", "badmin", "commits")
	s.run("badmin", "commits", "approve", "1")
	s.until("done", "bimage", "commits")
	s.run("bkill", session)
	job := s.submit(work, "-image", "mine:1", "-env", "all, PATH=/usr/bin:/bin", "-o", filepath.Join(work, "out"), "-K", "/usr/bin/python3 -c 'import greet; print(greet.word())'")
	out, err := os.ReadFile(filepath.Join(work, "out"))
	if err != nil || !strings.Contains(string(out), "kept\n") {
		t.Errorf("job %s: %v\n%s", job, err, out)
	}
}
