package test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// app makes a program of the person that is an app by its name: it notes its port, waits until it may listen, and then serves
// what is in the directory www.
func (p *person) app(name string) {
	p.t.Helper()
	p.must("mkdir -p bin www; echo hello > www/index.html; cat > bin/" + name + " <<'END'\n" +
		"#!/bin/sh\ncd " + p.home + "\necho $FAIRSLICE_APP_PORT > port.new; mv port.new port\n" +
		"while [ ! -e go ]; do sleep 0.05; done\nexec busybox httpd -f -p 127.0.0.1:$FAIRSLICE_APP_PORT -h www\nEND\nchmod 755 bin/" + name)
}

// eventually waits until a command line of the person's succeeds.
func (p *person) eventually(line string) string {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, problems, code := p.try(line)
		if code == 0 {
			return out
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("as %d: %s: exit %d\n%s%s", p.uid, line, code, out, problems)
		}
	}
}

func guarded(t *testing.T, c *cluster) {
	t.Helper()
	if log, err := os.ReadFile(c.log.Name()); err != nil || strings.Contains(string(log), "can connect to the ports of jobs") {
		t.Skipf("ports cannot be guarded here: %v", err)
	}
}

// An app of a session is its user's: another user's jobs on the same node cannot reach its port at any moment, its user's can.
func TestOthersCannotReachAnApp(t *testing.T) {
	c, a, b := people(t)
	guarded(t, c)
	a.app("ttyd")
	session := strings.TrimSpace(a.must(`PATH="$PWD/bin:$PATH" bsession -apps ttyd`))
	a.wait(session, "RUN")
	port := strings.TrimSpace(a.eventually("cat port"))
	url := "http://127.0.0.1:" + port + "/"
	// It tries all the time, from before the app listens.
	intruder := b.submit("-o out 'while [ ! -e stop ]; do curl -s -m 2 " + url + " && echo inside; : > tried; done; echo over'")
	b.eventually("test -e tried")
	a.must("touch go")
	if out := a.eventually("curl -s -m 5 " + url); out != "hello\n" {
		t.Errorf("its user gets %q", out)
	}
	if out := a.must("bsub -K -o out 'curl -s -m 5 " + url + "' >/dev/null 2>&1; cat out"); !strings.HasPrefix(out, "hello\n") {
		t.Errorf("another job of its user gets %q", out)
	}
	if out := c.must(t, "/", "curl -s -m 5 "+url); out != "hello\n" {
		t.Errorf("root gets %q", out)
	}
	// The way of the proxy and of bapp -L.
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	forward := strconv.Itoa(own.Addr().(*net.TCPAddr).Port)
	_ = own.Close()
	tunnel := fmt.Sprintf("bapp -L %s:ttyd %s >/dev/null 2>&1 & p=$!; trap 'kill $p' EXIT; until curl -s -m 5 http://127.0.0.1:%s/; do kill -0 $p || exit; sleep 0.05; done", forward, session, forward)
	if out := a.must(tunnel); out != "hello\n" {
		t.Errorf("bapp -L leads to %q", out)
	}
	mine := b.submit("-o mine 'sleep 1000'")
	b.wait(mine, "RUN")
	b.refused("bapp "+mine+" "+port, "not this job's user who listens there")
	// What a noded that was killed has guarded stays so, and the next one goes on.
	b.must("rm tried")
	b.eventually("test -e tried")
	nodes := c.pids("noded --config")
	for _, pid := range nodes {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if len(nodes) != 2 {
		t.Errorf("nodes: %v", nodes)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if now := c.pids("noded --config"); len(now) == 2 && now[0] != nodes[0] && now[1] != nodes[1] {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("noded is not started again")
		}
	}
	a.eventually("bexec " + session + " true")
	b.must("rm tried")
	b.eventually("test -e tried")
	b.must("touch stop")
	b.wait(intruder, "DONE")
	if out := read(t, filepath.Join(b.home, "out")); !strings.HasPrefix(out, "over\n") {
		t.Errorf("another user was in the app: %.200q", out)
	}
	a.must("curl -s -m 5 " + url)
}

// A port that a program listens at without telling anybody is guarded soon after, and is anybody's when the job has ended.
func TestPortsOfProgramsAreGuarded(t *testing.T) {
	c, a, b := people(t)
	guarded(t, c)
	a.must("mkdir -p www; echo hello > www/index.html")
	b.must("mkdir -p www; echo other > www/index.html")
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	serve := "-o served 'exec busybox httpd -f -p " + port + " -h www'" // at all addresses
	first := a.submit(serve)
	urls := []string{"http://127.0.0.1:" + port + "/", "http://127.1.2.3:" + port + "/"}
	if out, _, code := c.try("/", "hostname -I"); code == 0 {
		for _, own := range strings.Fields(out) {
			if net.ParseIP(own).To4() != nil {
				urls = append(urls, "http://"+own+":"+port+"/")
			}
		}
	}
	a.eventually("curl -s -m 5 " + urls[0])
	for _, url := range urls {
		b.eventually("curl -s -m 5 " + url + "; test $? = 7") // refused
		if out := a.must("curl -s -m 5 " + url); out != "hello\n" {
			t.Errorf("its user gets %q of %s", out, url)
		}
	}
	a.must("bkill " + first)
	a.wait(first, "EXIT")
	second := b.submit(serve)
	if out := b.eventually("curl -s -m 5 " + urls[0]); out != "other\n" {
		t.Errorf("the next user of the port gets %q", out)
	}
	a.eventually("curl -s -m 5 " + urls[0] + "; test $? = 7")
	b.must("bkill " + second)
	b.wait(second, "EXIT")
	// Nothing is left of it for who comes next, and is nobody's job.
	if l, err = net.Listen("tcp", "127.0.0.1:"+port); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "free") })}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if out := a.eventually("curl -s -m 5 " + urls[0]); out != "free\n" {
		t.Errorf("at the end there is %q", out)
	}
}
