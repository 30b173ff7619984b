package apptainer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The real Apptainer, the sample image and the program enter; TestMain makes them once.
var real struct{ binary, image, enter, dir string }

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "these tests run real containers, and cannot:", err)
		fmt.Fprintln(os.Stderr, "run etc/setup.sh to install what is missing")
		os.RemoveAll(real.dir)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(real.dir)
	os.Exit(code)
}

func prepare() (err error) {
	if real.binary, err = Find(""); err != nil {
		return err
	}
	if real.dir, err = os.MkdirTemp("", "apptainer-test-"); err != nil {
		return err
	}
	if err := os.Chmod(real.dir, 0o755); err != nil { // the ordinary user of the tests reads here
		return err
	}
	real.image, real.enter = filepath.Join(real.dir, "sample.sif"), filepath.Join(real.dir, "enter")
	if out, err := exec.Command("../../etc/image.sh", "sample", real.image).CombinedOutput(); err != nil {
		return fmt.Errorf("make the sample image: %w: %s", err, out)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", real.enter, "./enter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build enter: %w: %s", err, out)
	}
	return nil
}

// asUsers runs a test as who we are and, when that is root, as an ordinary user too: Apptainer's two ways
// (with privileges, and in a user namespace with FUSE) share little.
func asUsers(t *testing.T, test func(t *testing.T, u testUser)) {
	t.Helper()
	t.Run("self", func(t *testing.T) { test(t, testUser{os.Geteuid(), os.Getegid()}) })
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	var u testUser
	if _, err := fmt.Sscan(nobody.Uid+" "+nobody.Gid, &u.uid, &u.gid); err != nil {
		t.Fatal(err)
	}
	t.Run("user", func(t *testing.T) { test(t, u) })
}

type testUser struct{ uid, gid int }

// dir makes a directory of this user, reachable for it.
func (u testUser) dir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp(real.dir, "dir-")
	if err != nil {
		t.Fatal(err)
	}
	u.own(t, d)
	return d
}

func (u testUser) own(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, u.uid, u.gid); err != nil {
		t.Fatal(err)
	}
}

type result struct {
	stdout, stderr string
	state          *os.ProcessState
	started        bool
	reason         string
	took           time.Duration
}

// job is a contained run that is under way.
type job struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	pipe           *os.File
	begin          time.Time
}

// begin starts a contained run; o and s need only what the test is about.
func (u testUser) begin(t *testing.T, o Options, s Start) *job {
	t.Helper()
	o.Binary, o.Enter, o.Contain = real.binary, real.enter, true
	if o.Image == "" {
		o.Image = real.image
	}
	o.StartFile = filepath.Join(u.dir(t), "start")
	s.StartedFD = 3
	if err := WriteStart(o.StartFile, s); err != nil {
		t.Fatal(err)
	}
	u.own(t, o.StartFile)
	argv, env, err := Command(o)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j := &job{pipe: r, begin: time.Now()}
	j.cmd = exec.Command(argv[0], argv[1:]...)
	j.cmd.Env, j.cmd.Dir = env, "/"
	j.cmd.Stdout, j.cmd.Stderr, j.cmd.ExtraFiles = &j.stdout, &j.stderr, []*os.File{w}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && u.uid != 0 {
		j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
	}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) // gone already, unless the test failed
		r.Close()
	})
	return j
}

func (j *job) wait(t *testing.T) result {
	t.Helper()
	err := j.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	took := time.Since(j.begin)
	var written bytes.Buffer
	if err := j.pipe.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := written.ReadFrom(j.pipe); err != nil {
		t.Fatalf("read the started pipe: %v", err)
	}
	r := result{stdout: j.stdout.String(), stderr: j.stderr.String(), state: j.cmd.ProcessState, took: took}
	r.started, r.reason = ParseStarted(written.String())
	return r
}

func (u testUser) run(t *testing.T, o Options, s Start) result {
	t.Helper()
	return u.begin(t, o, s).wait(t)
}

func shell(script string) Start { return Start{Args: []string{"/bin/sh", "-c", script}} }

func TestOutputAndExitStatus(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		r := u.run(t, Options{}, shell("echo hi; echo there >&2; id -u; cat /etc/image-name"))
		if want := fmt.Sprintf("hi\n%d\nsample\n", u.uid); r.stdout != want || r.stderr != "there\n" || r.state.ExitCode() != 0 || !r.started {
			t.Errorf("got %q, %q, %v, started %v %q; want %q", r.stdout, r.stderr, r.state, r.started, r.reason, want)
		}
		for _, code := range []int{1, 7, 127, 255} {
			r := u.run(t, Options{}, shell(fmt.Sprint("exit ", code)))
			if r.state.ExitCode() != code || !r.started {
				t.Errorf("exit %d: got %v, started %v", code, r.state, r.started)
			}
		}
	})
}

// A job killed by a signal is seen as killed by that signal, or by the shells' number for it.
func TestSignal(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV} {
			r := u.run(t, Options{}, shell(fmt.Sprintf("kill -%d $$", sig)))
			ws := r.state.Sys().(syscall.WaitStatus)
			t.Logf("signal %d is seen as %v", sig, r.state)
			if !(ws.Signaled() && ws.Signal() == sig) && ws.ExitStatus() != 128+int(sig) {
				t.Errorf("signal %d: got %v", sig, r.state)
			}
		}
	})
}

func TestKillReachesEveryProcess(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		dir := u.dir(t)
		mark := fmt.Sprintf("31%d%d", os.Getpid(), u.uid)
		j := u.begin(t, Options{Workdir: dir}, Start{Dir: dir,
			Args: []string{"/bin/sh", "-c", "sleep " + mark + " & sleep " + mark + " & echo > up; wait"}})
		waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
		if n := len(processesWith(mark)); n < 2 {
			t.Fatalf("the host sees %d of the job's processes", n)
		}
		if err := syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		j.wait(t)
		waitFor(t, func() bool { return len(processesWith(mark)) == 0 })
		// Apptainer's own helpers (the FUSE mount of the image) must not stay behind either.
		waitFor(t, func() bool { return len(processesWith(real.image)) == 0 })
	})
}

// SIGTERM to the group ends a job in order: it can clean up, and its exit status is its own.
func TestTermReachesTheJob(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		dir := u.dir(t)
		// The signal goes to the whole group, and Apptainer, which is in it, passes its own on: now and then the job gets two. A
		// second one must not interrupt the answer to the first.
		j := u.begin(t, Options{Workdir: dir}, Start{Dir: dir,
			Args: []string{"/bin/sh", "-c", "trap 'trap \"\" TERM; echo bye; exit 3' TERM; echo > up; while :; do sleep 0.05; done"}})
		waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
		if err := syscall.Kill(-j.cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if r := j.wait(t); r.stdout != "bye\n" || r.state.ExitCode() != 3 {
			t.Errorf("got %q, %q, %v", r.stdout, r.stderr, r.state)
		}
	})
}

func TestEnvironmentIsExact(t *testing.T) {
	env := nastyEnvironment()
	size := 0
	for _, e := range env {
		size += len(e)
	}
	asUsers(t, func(t *testing.T, u testUser) {
		r := u.run(t, Options{}, Start{Args: []string{"/bin/cat", "/proc/self/environ"}, Env: env})
		if got := strings.Split(strings.TrimSuffix(r.stdout, "\x00"), "\x00"); !slices.Equal(got, env) {
			t.Errorf("environment of %d bytes in %d variables changed (%d arrived): %.300q", size, len(env), len(got), r.stderr)
		}
		r = u.run(t, Options{}, Start{Args: []string{"/bin/cat", "/proc/self/environ"}})
		if r.stdout != "" || r.state.ExitCode() != 0 {
			t.Errorf("an empty environment became %q", r.stdout)
		}
	})
}

// nastyEnvironment has every byte value, every name that Apptainer or a shell treats in its own way, and 1 MB.
func nastyEnvironment() []string {
	every := make([]byte, 255)
	for i := range every {
		every[i] = byte(i + 1)
	}
	env := []string{"NL=a\nb\n", "QUOTES='\"`$HOME $(id) ${X} \\ \\n !", "EQ=a=b==c", "EMPTY=", "SPACES=  x  ", "EVERY=" + string(every),
		"NOT_UTF8=\xff\xfe\xe9", "PATH=/my/bin:/bin", "LD_LIBRARY_PATH=/my/lib", "LD_PRELOAD=", "HOME=/else where", "USER=joe", "TERM=x\ny",
		"PS1=mine> ", "PROMPT_COMMAND=zz", "PWD=/pw", "OLDPWD=/o", "SHLVL=7", "_=u", "IFS=x", "UID=55", "ENV=/e", "OPTIND=4",
		"lower.dot=1", "WITH-DASH=2", "BASH_FUNC_f%%=() { echo hi; }", "1NUM=n", "SINGULARITY_X=s", "SINGULARITY_NAME=s",
		"APPTAINER_BIND=/etc", "APPTAINERENV_Z=z", "APPTAINERENV_PREPEND_PATH=/q", "TWICE=1", "TWICE=2",
		"LONGEST=" + strings.Repeat("l", maxString-1-len("LONGEST="))}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 900 {
		value := make([]byte, 1000)
		for j := range value {
			value[j] = byte(1 + random.IntN(255))
		}
		env = append(env, fmt.Sprintf("R%d=%s", i, value))
	}
	return env
}

func TestArgumentsAreExact(t *testing.T) {
	args := []string{"printf", `%s\0`, "", " ", "a\nb", `'"\$(id)`, "\xff\xfe", "--help", "-", "*", strings.Repeat("x", 100_000)}
	asUsers(t, func(t *testing.T, u testUser) {
		r := u.run(t, Options{}, Start{Args: args}) // printf is found in the default PATH
		if got := strings.Split(strings.TrimSuffix(r.stdout, "\x00"), "\x00"); !slices.Equal(got, args[2:]) {
			t.Errorf("got %.200q, %.200q, %v", got, r.stderr, r.state)
		}
	})
}

func TestImageEnvironment(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		r := u.run(t, Options{}, Start{Args: []string{"/bin/env"}, ImageEnv: true, Env: []string{"HOME=/mine", "X=1"}})
		for _, want := range []string{"HOME=/mine\n", "X=1\n", "APPTAINER_CONTAINER=" + real.image + "\n", "PATH=/"} {
			if !strings.Contains("\n"+r.stdout, "\n"+want) {
				t.Errorf("no %q in %q", want, r.stdout)
			}
		}
	})
}

func TestDirectories(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		home, work, data, scratch := u.dir(t), filepath.Join(u.dir(t), `w, "x":y`), u.dir(t), u.dir(t)
		if err := os.Mkdir(work, 0o700); err != nil {
			t.Fatal(err)
		}
		u.own(t, work)
		private := filepath.Base(scratch) // a name that nobody else has in /tmp
		hidden := filepath.Join(u.dir(t), "hidden")
		for _, f := range []string{filepath.Join(home, "mine"), filepath.Join(data, "set"), hidden} {
			if err := os.WriteFile(f, []byte("text\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			u.own(t, f)
		}
		o := Options{Home: home, Workdir: work, Scratch: scratch, Binds: []Bind{{data, "/data", true}}}
		s := shell(`pwd; cat "$HOME/mine"; echo home > "$HOME/new"; echo work > new; cat /data/set; (echo x > /data/no) 2>/dev/null && echo writable
			test -e ` + hidden + ` && echo seen; test -e /tmp/` + filepath.Base(real.dir) + `/sample.sif && echo seen; echo t > /tmp/` + private + `; ls /home`)
		s.Dir, s.Env = work, []string{"HOME=" + home}
		r := u.run(t, o, s)
		if want := work + "\ntext\ntext\n"; r.stdout != want || r.state.ExitCode() != 0 {
			t.Errorf("got %q, %q, %v; want %q", r.stdout, r.stderr, r.state, want)
		}
		for f, want := range map[string]string{
			filepath.Join(home, "new"): "home\n", filepath.Join(work, "new"): "work\n", filepath.Join(scratch, "tmp", private): "t\n",
		} {
			if b, err := os.ReadFile(f); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v; want %q", f, b, err, want)
			}
		}
		if _, err := os.Stat(filepath.Join("/tmp", private)); err == nil {
			t.Error("the job wrote into the host's /tmp")
		}
	})
}

func TestStartsThatFail(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		for _, c := range []struct {
			name   string
			o      Options
			s      Start
			status int
			stderr string // of the job
			reason string // of enter; empty when it does not come so far
		}{
			{"a command that is nowhere", Options{}, Start{Args: []string{"no-such"}}, 127, "not in PATH", "not in PATH"},
			{"a program that is not there", Options{}, Start{Args: []string{"/no/such"}}, 127, "no such file", "no such file"},
			{"a file that is no program", Options{}, Start{Args: []string{"/etc/passwd"}}, 126, "permission denied", "permission denied"},
			{"a working directory that is not there", Options{}, Start{Args: []string{"true"}, Dir: "/no/such"}, 127, "/no/such", "/no/such"},
			{"a bind that is not there", Options{Binds: []Bind{{Source: "/no/such"}}}, Start{Args: []string{"true"}}, 255, "/no/such", ""},
			{"a Workdir that is not there", Options{Workdir: "/no/such"}, Start{Args: []string{"true"}}, 255, "/no/such", ""},
			{"an image that is not there", Options{Image: "/no/such.sif"}, Start{Args: []string{"true"}}, 255, "/no/such.sif", ""},
		} {
			r := u.run(t, c.o, c.s)
			if r.started || r.state.ExitCode() != c.status || !strings.Contains(r.stderr, c.stderr) ||
				!strings.Contains(r.reason, c.reason) || (r.reason == "") != (c.reason == "") {
				t.Errorf("%s: got started %v, %v, %q, reason %q", c.name, r.started, r.state, r.stderr, r.reason)
			}
		}
	})
}

// The job must not get the pipe by which its start is told.
func TestJobDoesNotGetThePipe(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		r := u.run(t, Options{}, shell("(echo lie >&3) 2>/dev/null; echo done"))
		if !r.started || r.reason != "" || r.stdout != "done\n" {
			t.Errorf("got started %v, reason %q, %q, %q", r.started, r.reason, r.stdout, r.stderr)
		}
	})
}

func TestScriptWithoutInterpreterLine(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		dir := u.dir(t)
		script := filepath.Join(dir, "script")
		if err := os.WriteFile(script, []byte("echo $1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		u.own(t, script)
		if r := u.run(t, Options{Workdir: dir}, Start{Args: []string{"./script", "one"}, Dir: dir}); r.stdout != "one\n" {
			t.Errorf("got %q, %q, %v", r.stdout, r.stderr, r.state)
		}
	})
}

func TestStartTime(t *testing.T) {
	asUsers(t, func(t *testing.T, u testUser) {
		var took []time.Duration
		for range 5 {
			took = append(took, u.run(t, Options{}, Start{Args: []string{"true"}}).took)
		}
		slices.Sort(took)
		t.Logf("start to exit: %v (median of %d, on %d cores)", took[2], len(took), runtime.NumCPU())
	})
}

func processesWith(word string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, f := range files {
		// One that cannot be read has just ended.
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(word)) {
			found = append(found, filepath.Base(filepath.Dir(f)))
		}
	}
	return found
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 20 s in vain")
		}
	}
}
