package test

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// accounts are two people whom the machine knows: Apptainer gives nobody else a user namespace of his own.
func accounts(t *testing.T) (c *cluster, ann, bob *person) {
	t.Helper()
	c, ann, bob = people(t)
	for name, p := range map[string]*person{"nobody": ann, "_apt": bob} {
		u, err := user.Lookup(name)
		if err != nil {
			t.Skip(err)
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p.home, uid, uid); err != nil {
			t.Fatal(err)
		}
		p.uid = uid
	}
	return c, ann, bob
}

// writable starts a session of p that can change its image, and waits until it runs.
func (p *person) writable(image string) string {
	p.t.Helper()
	job := strings.TrimSpace(p.must("bsession -writable -image " + image))
	p.wait(job, "RUN")
	p.must("bexec " + job + " true")
	return job
}

// commit asks for an image and returns the request's number.
func (p *person) commit(job, name string) string {
	p.t.Helper()
	p.must("bimage commit " + job + " " + name)
	return strings.Fields(p.must("bimage commits -noheader"))[0]
}

// becomes waits until a request is as wanted, and returns its line of bimage commits.
func (p *person) becomes(request, state string) string {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(p.must("bimage commits -noheader")) {
			f := strings.Fields(line)
			if len(f) > 5 && f[0] == request {
				switch {
				case f[5] == state:
					return line
				case f[5] == "done" || f[5] == "failed" || f[5] == "refused":
					p.t.Fatalf("request %s, which should be %s: %s", request, state, line)
				}
			}
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("request %s did not become %s:\n%s%s", request, state, p.must("bimage commits"), p.c.logTail())
		}
	}
}

// left are the files that nobody should need any more.
func (c *cluster) left() []string {
	overlays, _ := filepath.Glob(filepath.Join(c.dir, "node*", "overlays", "*"))
	work, _ := filepath.Glob(filepath.Join(c.dir, "images", "incoming", ".*"))
	return append(overlays, work...)
}

func (c *cluster) nothingLeft(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(c.left()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q", c.left())
		}
	}
}

// A session that was changed becomes an image: its owner runs it, and nobody else knows of it.
func TestASessionBecomesAnImage(t *testing.T) {
	c, ann, bob := accounts(t)
	job := ann.writable("sample")
	ann.must("bexec " + job + " sh -c 'echo 42 > /usr/answer; mkdir -p /usr/lib/new; ln -s ../../answer /usr/lib/new/link; rm /usr/bin/env; echo secret > private; echo x > /tmp/x'")
	request := ann.commit(job, "tools:1")
	ann.refused("bimage commit "+job+" tools:2", "is open already")
	ann.refused("badmin commits approve "+request, "permission denied")
	bob.refused("bimage commit "+job+" mine:1", "No matching job")
	c.must(t, ann.home, "badmin commits approve "+request)
	ann.becomes(request, "done")
	ann.must("bexec " + job + " true") // the session goes on
	if out := ann.must("bjobs -l " + job + "; bhist -l " + job); !strings.Contains(strings.Join(strings.Fields(out), ""), "thesessionhasbecomeimagenobody/tools:1") {
		t.Errorf("its owner is not told:\n%s", out)
	}

	out := ann.must("bsub -I -image tools:1 'cat /usr/lib/new/link; ls /usr/bin; ls /tmp /var/tmp'")
	if !strings.Contains(out, "\n42\n") || strings.Contains(out, "env") || strings.Contains(out, "\nx\n") {
		t.Errorf("the new image: %q", out)
	}
	for _, line := range []string{"bimage show nobody/tools:1", "bsub -image nobody/tools:1 true", "bimage check nobody/tools:1", "bimage rm nobody/tools:1", "bimage show tools:1"} {
		_, there, _ := bob.try(line)
		_, none, _ := bob.try(strings.Replace(line, "tools", "nothing", 1))
		if strings.Replace(there, "tools", "nothing", 1) != none || !strings.Contains(there, "No such image") {
			t.Errorf("%s says %q to others, and %q of an image that is not there", line, there, none)
		}
	}
	if list := bob.must("bimage"); strings.Contains(list, "tools") {
		t.Errorf("others see it:\n%s", list)
	}
	if out := bob.must("bjobs -l " + job + "; bhist -l " + job); strings.Contains(out, "tools") {
		t.Errorf("others are told of it with the session:\n%s", out)
	}
	if list, _, _ := bob.try("bimage commits"); strings.Contains(list, "tools") {
		t.Errorf("others see the request:\n%s", list)
	}

	// The same name only with -f; an image of an image whose base is no longer listed.
	ann.refused("bimage commit "+job+" tools:1", "already")
	ann.must("bkill -s KILL " + job)
	second := ann.writable("tools:1")
	ann.must("bexec " + second + " sh -c 'echo 43 > /usr/answer'")
	ann.must("bimage rm tools:1")
	request = ann.commit(second, "tools:2")
	c.must(t, ann.home, "badmin commits approve "+request)
	ann.becomes(request, "done")
	if out := ann.must("bsub -I -image tools:2 'cat /usr/lib/new/link'"); !strings.HasSuffix(out, "\n43\n") {
		t.Errorf("the image of an image: %q", out)
	}
	ann.must("bkill -s KILL " + second)
	ann.must("bimage rm tools:2")
	c.nothingLeft(t)
}

func TestRequestsOfWhichNothingComes(t *testing.T) {
	c, ann, _ := accounts(t)
	job := ann.writable("sample")
	request := ann.commit(job, "no:1")
	c.must(t, ann.home, "badmin commits refuse "+request+" too large for us")
	if line := ann.becomes(request, "refused"); !strings.Contains(line, "too large for us") {
		t.Errorf("no reason: %s", line)
	}
	request = ann.commit(job, "no:1")
	ann.must("bkill -s KILL " + job)
	if line := ann.becomes(request, "failed"); !strings.Contains(line, "the session has ended") {
		t.Errorf("no reason: %s", line)
	}
	if _, errs, code := c.try(ann.home, "badmin commits approve "+request); code == 0 || !strings.Contains(errs, "already") {
		t.Errorf("approved after the end: %d %s", code, errs)
	}
	plain := strings.TrimSpace(ann.must("bsession -image sample"))
	ann.wait(plain, "RUN")
	ann.refused("bimage commit "+plain+" no:2", "-writable")
	ann.refused("bexec "+plain+" sh -c 'echo x > /usr/x'", "")
	ann.must("bkill -s KILL " + plain)
	ann.refused("bsub -q short -writable -image sample true", "no writable images")
	ann.refused("bsub -writable true", "no image")
	c.nothingLeft(t)
}

// What a job changes of its image is bounded, its own, and gone with it.
func TestAWritableImage(t *testing.T) {
	c, ann, _ := accounts(t)
	out := ann.must("bsub -I -writable -gpu fgpu=0.5 -image sample 'dd if=/dev/zero of=/usr/big bs=1M count=400 2>&1; wc -c < /etc/ld.so.preload; touch /bin/new && echo new; ls /usr/mine 2>&1; echo mine > /usr/mine; id -u'")
	for _, want := range []string{"No space left on device", "new\n", "No such file", "\n0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	c.nothingLeft(t)
	if out := ann.must("bsub -I -writable -image sample 'ls /usr'"); strings.Contains(out, "mine") {
		t.Errorf("another job has what one has changed: %q", out)
	}
	// Swept after the death of noded, too.
	job := ann.writable("sample")
	if len(c.left()) != 1 {
		t.Errorf("files of writable images: %q", c.left())
	}
	stray := filepath.Join(filepath.Dir(c.left()[0]), "999999.0.1.img")
	if err := os.WriteFile(stray, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.killNode(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, errs, code := ann.try("bexec " + job + " touch /usr/still"); code == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the session is lost: %s", errs)
		}
	}
	for deadline := time.Now().Add(patience); len(c.left()) > 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not swept: %q", c.left())
		}
	}
	ann.must("bkill -s KILL " + job)
	c.nothingLeft(t)
}

// killNode kills the noded that has the file of a writable image, and waits until another has taken up its jobs.
func (c *cluster) killNode(t *testing.T) {
	t.Helper()
	node := filepath.Base(filepath.Dir(filepath.Dir(c.left()[0])))
	word := "noded --config " + filepath.Join(c.dir, node+".toml")
	old := c.pids(word)
	if len(old) != 1 {
		t.Fatalf("noded is %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if now := c.pids(word); len(now) == 1 && now[0] != old[0] {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("noded was not started again")
		}
	}
}

// Whoever is killed while an image is made: it is there, whole and once, or the request says why not, and nothing is left.
func TestCommitsSurviveKills(t *testing.T) {
	for _, row := range []struct {
		name, what, state string
		delay             time.Duration
	}{
		{"batchd, soon", "batchd", "done", 100 * time.Millisecond},
		{"batchd, later", "batchd", "done", 1500 * time.Millisecond},
		{"noded, soon", "noded", "done", 100 * time.Millisecond},
		{"noded, later", "noded", "done", 700 * time.Millisecond},
		{"the server beside the session", "server", "failed", 300 * time.Millisecond},
		{"the session", "session", "failed", 300 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, ann, _ := accounts(t)
			job := ann.writable("sample")
			// Some time's work: what cannot be compressed.
			ann.must("bexec " + job + " sh -c 'head -c 20000000 /dev/urandom > /usr/random; sha256sum /usr/random > /usr/sum'")
			request := ann.commit(job, "kept:1")
			c.must(t, ann.home, "badmin commits approve "+request)
			for deadline := time.Now().Add(patience); !strings.Contains(ann.must("bimage commits"), "read"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it is not read")
				}
			}
			time.Sleep(row.delay) // whenever: every moment is to be survived
			switch row.what {
			case "batchd":
				if err := c.killDaemon(); err != nil {
					t.Fatal(err)
				}
			case "noded":
				c.killNode(t)
			case "server":
				for _, pid := range c.servers(job) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			case "session":
				ann.must("bkill -s KILL " + job)
			}
			state := ann.ends(request)
			listed := strings.Count(ann.must("bimage -noheader"), "kept")
			switch {
			case state == "done" && listed == 1:
				out := ann.must("bsub -I -image kept:1 'cd /; sha256sum -c /usr/sum'")
				if !strings.Contains(out, "OK") {
					t.Errorf("it is not whole: %q", out)
				}
				ann.must("bimage rm kept:1")
			case state == "failed" && listed == 0 && row.state == "failed":
			default:
				t.Errorf("the request is %s, and %d images are listed:\n%s", state, listed, ann.must("bimage commits"))
			}
			_, _, _ = ann.try("bkill -s KILL " + job)
			c.nothingLeft(t)
		})
	}
}

// ends waits until nothing more comes of a request.
func (p *person) ends(request string) string {
	p.t.Helper()
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(50 * time.Millisecond) {
		out, _, _ := p.try("bimage commits -noheader") // batchd may be away
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 5 && f[0] == request && (f[5] == "done" || f[5] == "failed") {
				return f[5]
			}
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("request %s does not end:\n%s\n%s", request, out, p.c.logTail())
		}
	}
}

// The terminal of a session says what became of it.
func TestATerminalSaysWhatBecameOfItsSession(t *testing.T) {
	c := running(t)
	if c.user != "root" {
		t.Skip("needs root, who decides of requests and has sessions")
	}
	dir := t.TempDir()
	s := onTerminal(t, c, dir, 24, 200, "bsub -Is -writable -image sample sh")
	job := s.job()
	s.send("echo be''gun; echo new > /usr/new\r")
	s.expect("begun")
	c.must(t, dir, "bimage commit "+job+" told:1")
	c.must(t, dir, "badmin commits refuse "+strings.Fields(c.must(t, dir, "bimage commits -noheader"))[0]+" not today")
	s.expect("not today]")
	c.must(t, dir, "bimage commit "+job+" told:1")
	c.must(t, dir, "badmin commits approve "+strings.Fields(c.must(t, dir, "bimage commits -noheader"))[0])
	s.expect("[fairslice: the session has become image root/told:1]")
	s.send("exit\r")
	s.exits(0)
	c.must(t, dir, "bimage rm told:1")
	c.nothingLeft(t)
}

// What a job does on a signal, it does with its image: the programs that mount that are its processes, and do not get the signal.
func TestASignalLeavesTheImage(t *testing.T) {
	_, ann, _ := accounts(t)
	for _, options := range []string{"-image sample", "-image sample -writable"} {
		job := ann.submit(options + ` -o out 'trap "ls -d /usr; exit 5" USR2; : > ready; while :; do sleep 0.1; done'`)
		ann.wait(job, "RUN")
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(ann.home, "ready")); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal("the job does not begin")
			}
		}
		ann.must("bkill -s USR2 " + job)
		ann.wait(job, "EXIT")
		if out := read(t, filepath.Join(ann.home, "out")); !strings.Contains(out, "/usr\n") || !strings.Contains(out, "exit code 5") {
			t.Errorf("%s: %q", options, out)
		}
		_ = os.Remove(filepath.Join(ann.home, "ready"))
		_ = os.Remove(filepath.Join(ann.home, "out"))
	}
}
