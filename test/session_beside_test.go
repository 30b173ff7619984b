package test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/wire"
)

// kinds of jobs, for what must hold beside each.
var kinds = []struct{ name, options string }{
	{"in a container", "-image sample "},
	{"with a slice", "-image sample -gpu fgpu=0.5 "},
	{"on the bare node", ""},
}

func beside(t *testing.T, test func(t *testing.T, c *cluster, dir, job string)) {
	c := running(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Cleanup(func() {
				if err := c.quiet(); err != nil {
					t.Error(err)
				}
			})
			m := jobNumber.FindStringSubmatch(c.must(t, dir, "bsub "+k.options+"'export OF=job; trap \"exit 5\" USR2; echo $$ > pid; while :; do sleep 0.1; done'"))
			if m == nil {
				t.Fatal("bsub named no job")
			}
			if err := c.waitState(m[1], "RUN"); err != nil {
				t.Fatal(err)
			}
			test(t, c, dir, m[1])
		})
	}
}

func TestPrograms(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		for _, row := range []struct {
			line, out, problems string
			code                int
		}{
			{"bexec JOB echo hello", "hello\n", "", 0},
			{"bexec JOB sh -c 'echo out; echo err >&2; exit 7'", "out\n", "err\n", 7},
			{"bexec JOB sh -c 'kill -TERM $$'", "", "", 143},
			{"bexec JOB sh -c 'echo $LSB_@ID $V $1 $#' sh 'a  b' ''", "JOB a b 2\n", "", 0},
			{"bexec -e V=x -e W='1 2' JOB sh -c 'echo $V $W'", "x 1 2\n", "", 0},
			{"bexec -d /tmp JOB pwd", "/tmp\n", "", 0},
			{"bexec JOB pwd", "DIR\n", "", 0},
			{"echo abc | bexec JOB tr a-z A-Z", "ABC\n", "", 0},
			{"echo abc | bexec -n JOB cat", "", "", 0},
			{"head -c 3000000 /dev/zero | bexec JOB wc -c", "3000000\n", "", 0},
			{"bexec JOB head -c 3000000 /dev/zero | wc -c", "3000000\n", "", 0},
			{"bexec JOB -- sh -c 'tty; exit 0'", "not a tty\n", "", 0},
			{"bexec -t JOB sh -c 'tty | cut -c1-5' </dev/null", "/dev/\r\n", "", 0},
			{"bexec JOB no-such-program", "", "not in the session's PATH", 127},
			{"bexec JOB /etc/passwd", "", "ermission denied", 126},
			{"bexec -d /nowhere JOB true", "", "/nowhere", 127},
			{"bexec -e NONSENSE JOB true", "", "want NAME=VALUE", 255},
			{"bexec 999999 true", "", "Job <999999> is not found", 255},
			{"bexec nonsense[ true", "", "Illegal", 255},
			{"bexec", "", "name the job", 255},
		} {
			line := strings.ReplaceAll(strings.ReplaceAll(row.line, "JOB", job), "@", "JOB")
			out, problems, code := c.try(dir, line)
			want := strings.NewReplacer("JOB", job, "DIR", dir).Replace(row.out)
			if strings.TrimLeft(out, " ") != want || !strings.Contains(problems, row.problems) || row.problems == "" && problems != "" || code != row.code {
				t.Errorf("%s: %q %q exit %d, want %q %q exit %d", line, out, problems, code, want, row.problems, row.code)
			}
		}
	})
}

// The job does not notice what runs beside it, and ends as if nothing did; what runs there ends with it.
func TestTheJobDoesNotNotice(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		c.must(t, dir, "bexec "+job+" true")
		running := exec.Command(filepath.Join(c.bin, "bexec"), job, "sleep", "1000")
		running.Env, running.Dir = c.environment(dir), dir
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		var children string
		for deadline := time.Now().Add(patience); !strings.Contains(children, "1000"); time.Sleep(20 * time.Millisecond) {
			children = c.must(t, dir, "bexec "+job+" sh -c 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr \"\\0\" \" \"'")
			if time.Now().After(deadline) {
				t.Fatalf("the program is not there: %q", children)
			}
		}
		// Neither the server nor the program is the job's child.
		pid := strings.TrimSpace(read(t, filepath.Join(dir, "pid")))
		kids, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		for _, kid := range strings.Fields(string(kids)) {
			if line, _ := os.ReadFile("/proc/" + kid + "/cmdline"); strings.Contains(string(line), "session") || strings.Contains(string(line), "1000") {
				t.Errorf("the job has the child %q", line)
			}
		}
		c.must(t, dir, "kill -USR2 "+pid)
		if err := c.waitState(job, "EXIT"); err != nil {
			t.Fatal(err)
		}
		if out := c.must(t, dir, "bjobs -noheader -o exit_code "+job); strings.TrimSpace(out) != "5" {
			t.Errorf("its exit status is %s", out)
		}
		_ = running.Wait()
		if running.ProcessState.ExitCode() == 0 {
			t.Error("a program that the job's end has ended was a success")
		}
		if _, problems, code := c.try(dir, "bexec "+job+" true"); code != 255 || !strings.Contains(problems, "Already finished") {
			t.Errorf("after the end: %q exit %d", problems, code)
		}
		if left := c.servers(job); len(left) > 0 {
			t.Errorf("its server is left: %v", left)
		}
	})
}

// A job finds its files also where its directory holds the node's: there a link leads out of what the container shows.
func TestAJobWhereTheNodeKeepsItsFiles(t *testing.T) {
	c := running(t)
	out, problems, code := c.try(filepath.Dir(c.dir), `bsub -I -image sample 'pwd; test -x "$LSB_JOBFILENAME" && wc -l < "$LSB_DJOB_HOSTFILE"' < /dev/null`)
	if _, rest, _ := strings.Cut(out, "\n"); code != 0 || strings.Join(strings.Fields(rest), " ") != filepath.Dir(c.dir)+" 1" {
		t.Errorf("exit %d: %q %q", code, out, problems)
	}
}

// Killing the server loses what runs beside the job, and nothing of the job.
func TestKillingTheServerLosesOnlyWhatRunsBeside(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		c.must(t, dir, "bexec "+job+" true")
		servers := c.servers(job)
		if len(servers) != 1 {
			t.Fatalf("servers: %v", servers)
		}
		if err := syscall.Kill(servers[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); syscall.Kill(servers[0], 0) == nil && !zombie(servers[0]); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it cannot be killed")
			}
		}
		out, problems, code := c.try(dir, "bexec "+job+" echo again")
		if again := out == "again\n" && code == 0; again != (c.must(t, dir, "bjobs -noheader -o image "+job) == "-\n") {
			t.Errorf("%q %q exit %d", out, problems, code)
		}
		c.must(t, dir, "kill -USR2 $(cat pid)")
		if err := c.waitState(job, "EXIT"); err != nil {
			t.Fatal(err)
		}
		if out := c.must(t, dir, "bjobs -noheader -o exit_code "+job); strings.TrimSpace(out) != "5" {
			t.Errorf("its exit status is %s", out)
		}
	})
}

// servers are the processes that serve what runs beside a job's first attempt.
func (c *cluster) servers(job string) []int {
	var out []int
	for _, pid := range c.pids("/session") {
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if strings.Contains(string(env), "FAIRSLICE_ATTEMPT="+job+".0.1\x00") {
			out = append(out, pid)
		}
	}
	return out
}

func zombie(pid int) bool {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return regexp.MustCompile(`\) Z `).Match(data)
}

func TestAProgramOnATerminal(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		s := onTerminal(t, c, dir, 33, 91, "bexec "+job+" /bin/sh")
		before := s.modes()
		s.send("stty size; echo TERM=$TERM OF=$LSB_JOBID\n")
		s.expect("33 91")
		s.expect("TERM=xterm OF=" + job)
		s.send("echo begun; sleep 1000\n")
		s.expect("begun\r\n")
		s.send("\x03")
		s.send("echo status $?\n")
		s.expect("status 130")
		s.send("exit 4\n")
		s.exits(4)
		if s.modes() != before {
			t.Error("the terminal is not as it was")
		}
	})
}

// Ctrl-C of bexec without a terminal goes to the program, also when it does not read its input.
func TestAnInterruptReachesAProgramThatReadsNothing(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		cmd := exec.Command("/bin/sh", "-c", "exec bexec "+job+" sh -c 'echo ready; exec sleep 1000' < /dev/zero")
		cmd.Env, cmd.Dir = c.environment(dir), dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 6)
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Fatal("it goes on")
		}
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit %d", code)
		}
	})
}

func TestCopies(t *testing.T) {
	beside(t, func(t *testing.T, c *cluster, dir, job string) {
		c.must(t, dir, "mkdir -p data/sub && echo text > data/a && chmod 640 data/a && touch -d '2001-02-03 04:05:06' data/a && "+
			"ln -s /etc/passwd data/link && head -c 5000000 /dev/urandom > data/sub/big && truncate -s 50000000 data/sub/sparse && touch 'data/sub/b \"x'")
		c.must(t, dir, "bcp -r data "+job+":/tmp/in."+job)
		got := c.must(t, dir, "bexec "+job+" sh -c 'cd /tmp/in."+job+" && stat -c \"%a %Y\" a && readlink link && ls -1 sub'")
		if want := "640 981173106\n/etc/passwd\nb \"x\nbig\nsparse\n"; got != want {
			t.Errorf("there it is %q, want %q", got, want)
		}
		c.must(t, dir, "bcp -r "+job+":/tmp/in."+job+" back && diff -r --no-dereference data back && test $(du -s back | cut -f1) -lt 20000")
		there := job + ":/tmp/in." + job // also the machine's own /tmp, on the bare node
		c.must(t, dir, "bcp data/a data/sub/big "+there+" && bcp "+there+"/a "+there+"/big . && cmp big data/sub/big && cmp a data/a")
		c.must(t, dir, "bexec "+job+" rm -rf /tmp/in."+job)
		for _, row := range []struct{ line, problems string }{
			{"bcp data JOB:/tmp", "is a directory: -r copies it"},
			{"bcp data/a JOB:/nowhere/x", "no such file"},
			{"bcp data/a data/link JOB:/etc/passwd", "not a directory"},
			{"bcp JOB:/nowhere .", "no such file"},
			{"bcp nowhere JOB:/tmp", "no such file"},
			{"bcp JOB:a JOB:b", "one side is here"},
			{"bcp data/a .", "one side is here"},
			{"bcp JOB:a 999999:b .", "one job"},
			{"bcp data/a 999999:/tmp", "is not found"},
			{"bcp data/a", "a source and a destination"},
		} {
			line := strings.ReplaceAll(row.line, "JOB", job)
			if out, problems, code := c.try(dir, line); code == 0 || !strings.Contains(problems, row.problems) {
				t.Errorf("%s: %q %q exit %d", line, out, problems, code)
			}
		}
	})
}

// What runs beside another user's job is out of reach, by the commands and by what they send.
func TestOthersSessionsAreOutOfReach(t *testing.T) {
	c, a, b := people(t)
	job := a.submit("-o out 'sleep 1000'")
	a.wait(job, "RUN")
	if out := a.must("bexec " + job + " id -u"); strings.TrimSpace(out) != "31001" {
		t.Errorf("beside its own job a user is %q", out)
	}
	for _, line := range []string{"bexec JOB id", "bexec -t JOB id", "bcp JOB:/etc/passwd .", "bcp /etc/hostname JOB:/tmp/x", "battach JOB"} {
		b.refused(strings.ReplaceAll(line, "JOB", job), "")
	}
	b.refused("bexec "+job+" id", "User permission denied")
	b.refused("bcp "+job+":/etc/passwd .", "User permission denied")
	// Not even root, who is an administrator: what runs there would have the owner's rights and files.
	u, err := client.NewUsers(client.Config{Address: c.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, open := range []*pb.ExecOpen{
		{Id: job, What: &pb.ExecOpen_Exec{Exec: &pb.ExecOrder{Args: [][]byte{[]byte("id")}}}},
		{Id: job + "[1]", What: &pb.ExecOpen_Exec{Exec: &pb.ExecOrder{}}},
		{Id: job, What: &pb.ExecOpen_Copy{Copy: &pb.CopyOrder{Paths: [][]byte{[]byte("/etc/passwd")}}}},
		{Id: job, What: &pb.ExecOpen_Copy{Copy: &pb.CopyOrder{To: []byte("/tmp")}}},
		{Id: "0", What: &pb.ExecOpen_Exec{Exec: &pb.ExecOrder{}}},
		{Id: job},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		s, err := u.Exec(ctx, open)
		if err == nil {
			_, err = s.Recv()
			s.Close()
		}
		cancel()
		var coded *wire.Error
		if !errors.As(err, &coded) || coded.Code == wire.Unavailable || coded.Code == wire.Internal {
			t.Errorf("%v: %v", open, err)
		}
	}
	// Another user cannot reach the socket, which lies in a directory of the owner's alone.
	servers := c.servers(job)
	if len(servers) != 1 {
		t.Fatalf("servers: %v", servers)
	}
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(servers[0]) + "/cmdline")
	socket := ""
	for arg := range strings.SplitSeq(string(line), "\x00") {
		if strings.HasSuffix(arg, "/session") {
			socket = arg
		}
	}
	b.refused("ls -l "+socket, "ermission denied")
	// The socket is the user's to replace: what noded connects to is no more than the user could.
	a.must("bexec " + job + " sh -c 'rm " + socket + "; ln -s " + strings.TrimPrefix(c.addr, "unix://") + " " + socket + "'")
	a.refused("bexec "+job+" id", "")
}

// Apptainer starts an ordinary user's container another way than root's: in a user namespace, through FUSE.
func TestProgramsOfAnOrdinaryUser(t *testing.T) {
	l := newLab(t)
	as := ""
	if os.Geteuid() == 0 {
		as = "setpriv --reuid 65534 --regid 65534 --clear-groups "
	}
	for _, options := range []string{"-o out -image sample ", "-o out -image sample -gpu fgpu=0.5 ", "-o out "} {
		job := l.submit(options + "sleep 1000")
		if err := l.waitState(job, "RUN"); err != nil {
			t.Fatal(err)
		}
		want := l.must(t, l.home, as+"id -u")
		if out := l.must(t, l.home, as+"bexec "+job+" id -u"); out != want {
			t.Errorf("%s: beside it a user is %q, not %q", options, out, want)
		}
		if out := l.must(t, l.home, "echo text > text; chmod 644 text; "+as+"bcp text "+job+":/tmp/text && "+as+"bexec "+job+" cat /tmp/text && "+as+"bexec "+job+" rm /tmp/text"); out != "text\n" {
			t.Errorf("%s: copied, it is %q", options, out)
		}
		l.must(t, l.home, as+"bkill -r "+job)
	}
}

// An element of an array is named as everywhere.
func TestElements(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	m := jobNumber.FindStringSubmatch(c.must(t, dir, "bsub -J 'a[1-2]' sleep 1000"))
	for _, e := range []string{"[1]", "[2]"} {
		if err := c.waitState("'"+m[1]+e+"'", "RUN"); err != nil {
			t.Fatal(err)
		}
		if out := c.must(t, dir, "bexec '"+m[1]+e+"' sh -c 'echo [$LSB_JOBINDEX]'"); out != e+"\n" {
			t.Errorf("beside %s it says %q", e, out)
		}
	}
	if _, problems, code := c.try(dir, "bexec "+m[1]+" true"); code != 255 || !strings.Contains(problems, "names 2 jobs") {
		t.Errorf("%q exit %d", problems, code)
	}
	c.must(t, dir, "bstop '"+m[1]+"[1]'")
	if err := c.waitState("'"+m[1]+"[1]'", "USUSP"); err != nil {
		t.Fatal(err)
	}
	if _, problems, code := c.try(dir, "bexec '"+m[1]+"[1]' true"); code != 255 || !strings.Contains(problems, "suspended") {
		t.Errorf("%q exit %d", problems, code)
	}
}

// A session needs no terminal: it is there for battach and bexec, and goes on when they leave.
func TestBsession(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	ids := strings.Fields(c.must(t, dir, "bsession -image sample -fgpu 0.5 -n 1 -W 4:00 -J mine -count 2 -apps jupyter,vscode"))
	if len(ids) != 2 {
		t.Fatalf("sessions: %q", ids)
	}
	for _, id := range ids {
		if err := c.waitState(id, "RUN"); err != nil {
			t.Fatal(err)
		}
		if out := c.must(t, dir, "bjobs -noheader -o 'interactive name command' "+id); out != "Is mine shell\n" {
			t.Errorf("it is listed as %q", out)
		}
	}
	if out := c.must(t, dir, "bexec "+ids[0]+" sh -c 'echo beside $LSB_JOBID'"); out != "beside "+ids[0]+"\n" {
		t.Errorf("beside it: %q", out)
	}
	one := onTerminal(t, c, dir, 30, 90, "battach "+ids[0])
	two := onTerminal(t, c, dir, 30, 90, "battach "+ids[0])
	one.send("VALUE=kept; echo from o''ne\n")
	one.expect("from one")
	two.expect("from one") // output to all
	two.send("echo from t''wo\n")
	one.expect("from two") // input from all
	one.send("~.")
	one.exits(0)
	two.send("\n~.")
	two.exits(0)
	if out := c.must(t, dir, "bjobs -noheader -o stat "+ids[0]); out != "RUN\n" {
		t.Errorf("left by all, it is %q", out)
	}
	again := onTerminal(t, c, dir, 30, 90, "battach "+ids[0])
	again.send("echo value is $VALUE; exit 3\n")
	again.expect("value is kept")
	again.exits(3)
	attached := onTerminal(t, c, dir, 30, 90, "bsession -a /bin/sh")
	attached.expect("<<Starting on ")
	attached.send("stty size; exit 6\n")
	attached.expect("30 90")
	attached.exits(6)
	for line, want := range map[string]string{
		"bsession -count 0": "-count 0: want a number", "bsession -a -count 2": "for one session", "bsession -apps a,,b": "Bad argument for option -apps",
		"bsession -fgpu none": "gpu", "bsession -W x": "",
	} {
		if out, problems, code := c.try(dir, line); code != 255 || out != "" || !strings.Contains(problems, want) {
			t.Errorf("%s: %q %q exit %d", line, out, problems, code)
		}
	}
	c.must(t, dir, "bkill "+ids[1])
}
