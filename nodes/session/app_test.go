package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"fairslice/images"
)

// appWord makes an app of the test binary: APP PORT TEXT says TEXT to whoever connects, and ends when it is told "quit".
const appWord = "an-app-of-the-test"

func appMain(args []string) int {
	fmt.Println("starting")
	if args[0] == "die" {
		fmt.Fprintln(os.Stderr, "no module named app")
		return 3
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if err != nil {
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		_, _ = fmt.Fprintln(c, args[1], os.Getenv("TOKEN"), os.Getenv(images.TokenEnv), os.Getenv("OF_THE_JOB"))
		line, _ := bufio.NewReader(c).ReadString('\n')
		_ = c.Close()
		if line == "quit\n" {
			return 0
		}
	}
}

func (j *job) apps(o images.AppOrder) ([]images.AppState, error) {
	j.t.Helper()
	return j.appsAt(Request{App: &o})
}

func (j *job) appsAt(q Request) ([]images.AppState, error) {
	j.t.Helper()
	c, err := j.open(q)
	if err != nil {
		return nil, err
	}
	var answer []byte
	for {
		out, err := c.Next()
		if err != nil {
			return nil, err
		}
		if answer = append(answer, out.Data...); out.Exited {
			return images.ParseAppStates(answer, q.App)
		}
	}
}

// said is what an app says; it is ended where quit is.
func said(t *testing.T, port int, quit bool) string {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	if quit {
		_, _ = io.WriteString(c, "quit\n")
	} else {
		_, _ = io.WriteString(c, "\n")
	}
	b, _ := io.ReadAll(c)
	return strings.TrimSpace(string(b))
}

func appOf(t *testing.T, name string, words ...string) images.Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return images.Program{App: images.App{Name: name, Proto: images.HTTP}, Command: append([]string{exe, appWord}, words...), Env: []string{"TOKEN={token}"}, Auth: images.TokenAuth}
}

// An app asked for by many at once is started once, at a port of its own, with its token in its environment.
func TestAppStartsOnce(t *testing.T) {
	j := newJob(t)
	order := images.AppOrder{Start: "web", Apps: []images.Program{appOf(t, "web", "{port}", "{base}"), appOf(t, "other", "{port}", "x")}, Base: "/b/", Token: "t0ken"}
	ports := make([]int, 4)
	var all sync.WaitGroup
	for i := range ports {
		all.Go(func() {
			states, err := j.apps(order)
			if err != nil || len(states) != 1 || !states[0].Running || !states[0].TakesBase || states[0].Auth != images.TokenAuth {
				t.Errorf("%+v, %v", states, err)
				return
			}
			ports[i] = states[0].Port
		})
	}
	all.Wait()
	for _, p := range ports {
		if p != ports[0] || p < images.MinPort {
			t.Fatalf("started at ports %v", ports)
		}
	}
	if got := said(t, ports[0], false); got != "/b/ t0ken t0ken yes" {
		t.Errorf("the app says %q", got)
	}
	order.Start = ""
	states, err := j.apps(order)
	if err != nil || len(states) != 2 || !states[0].Running || states[0].Port != ports[0] || states[1].Running || !states[1].Startable {
		t.Errorf("%+v, %v", states, err)
	}
	if err := dialOwn(j, ports[0]); err != nil {
		t.Error("connect to it: ", err)
	}
	order.Start = "other"
	states, err = j.apps(order)
	if err != nil || states[0].Port == ports[0] {
		t.Errorf("two apps at one port: %+v, %v", states, err)
	} else {
		said(t, states[0].Port, true)
	}
	said(t, ports[0], true)
}

func dialOwn(j *job, port int) error {
	c, err := j.open(Request{Dial: &Dial{Port: port, Own: true}})
	if err == nil {
		_ = c.Close()
	}
	return err
}

// An app that dies is told of with its last words, and one that nothing starts with what to do.
func TestAppThatDoesNotStart(t *testing.T) {
	j := newJob(t)
	for _, row := range []struct {
		what  string
		app   images.Program
		start string
		want  []string
	}{
		{"it dies", appOf(t, "web", "die", "{port}"), "web", []string{"exit status 3", "no module named app"}},
		{"its program is not there", images.Program{App: images.App{Name: "web", Proto: images.HTTP}, Command: []string{"no-such-program", "{port}"}}, "web", []string{"no-such-program"}},
		{"nothing starts it", images.Program{App: images.App{Name: "web", Proto: images.Preopen, Ports: []int{1025}}}, "web", []string{"start it in the session, at port 1025"}},
		{"a template is wrong", appOf(t, "web", "{port}", "{nothing}"), "web", []string{"no variable {nothing}"}},
	} {
		_, err := j.apps(images.AppOrder{Start: row.start, Apps: []images.Program{row.app}})
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", row.what, err)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(refused.Text, want) {
				t.Errorf("%s: %q lacks %q", row.what, refused.Text, want)
			}
		}
		states, err := j.apps(images.AppOrder{Apps: []images.Program{row.app}})
		if err != nil || len(states) != 1 || states[0].Running || !strings.Contains(states[0].Failed, row.want[0]) {
			t.Errorf("%s: listed as %+v, %v", row.what, states, err)
		}
	}
	well := appOf(t, "web", "{port}", "x")
	states, err := j.apps(images.AppOrder{Start: "web", Apps: []images.Program{well}})
	if err != nil || !states[0].Running || states[0].Failed != "" {
		t.Fatalf("started at last: %+v, %v", states, err)
	}
	defer said(t, states[0].Port, true)
	if states, err = j.apps(images.AppOrder{Apps: []images.Program{well}}); err != nil || !states[0].Running || states[0].Failed != "" {
		t.Errorf("listed as %+v, %v", states, err)
	}
}

func TestPrintable(t *testing.T) {
	long := strings.Repeat("ä", images.MaxFailed)
	for text, want := range map[string]string{"no\nway": "no\nway", "a\x00b\xffc": "a?b?c", "x" + long: "x" + long[:images.MaxFailed-2]} {
		if got := printable(text); got != want {
			t.Errorf("%.20q became %d bytes, %.20q", text, len(got), got)
		}
	}
}

// A port that another user has taken is nobody's app. Only root can act as another here.
func TestForeignPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if own, err := ownPort(port); !own || err != nil {
		t.Errorf("our own port: %v, %v", own, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("to take a port as another user needs root")
	}
	other, err := listenAs(4242)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port = other.Addr().(*net.TCPAddr).Port
	if own, err := ownPort(port); own || err != nil {
		t.Errorf("another user's port: %v, %v", own, err)
	}
	j := newJob(t)
	var refused *RefusedError
	if err := dialOwn(j, port); !errors.As(err, &refused) || refused.Kind != Denied {
		t.Errorf("connect to another user's port: %v", err)
	}
}

// listenAs makes a socket of another user's: the thread that makes it is that user for the moment.
func listenAs(uid int) (net.Listener, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) error {
		const same = ^uintptr(0)
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); no != 0 {
			return no
		}
		return nil
	}
	if err := become(uid); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return l, errors.Join(err, become(0))
}

func TestParseListener(t *testing.T) {
	const line = "   0: %s %s 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0"
	for _, row := range []struct {
		address string
		ok      bool
	}{
		{"0100007F:1F90", true}, {"00000000:1F90", true}, {"0100007F:1F91", false}, {"0200007F:1F90", false},
		{"00000000000000000000000000000000:1F90", true}, {"0000000000000000FFFF00000100007F:1F90", true}, {"00000000000000000000000001000000:1F90", false},
	} {
		uid, ok := parseListener(fmt.Sprintf(line, row.address, "00000000:0000"), 0x1f90)
		if ok != row.ok || ok && uid != 1000 {
			t.Errorf("%s: %d, %v", row.address, uid, ok)
		}
	}
	if _, ok := parseListener(strings.Replace(fmt.Sprintf(line, "0100007F:1F90", "x"), " 0A ", " 01 ", 1), 0x1f90); ok {
		t.Error("a connection is taken for a listener")
	}
}

func FuzzParseListener(f *testing.F) {
	f.Add("0: 0100007F:1F90 00000000:0000 0A 0 0 0 1000 0 1")
	f.Fuzz(func(t *testing.T, line string) {
		if _, ok := parseListener(line, 8080); ok && !strings.Contains(line, "0A") {
			t.Errorf("%q is taken for a listener", line)
		}
	})
}
