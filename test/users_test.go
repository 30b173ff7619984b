package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// person is a user without an entry in the machine's files: numbers are enough.
type person struct {
	t    *testing.T
	c    *cluster
	uid  int
	home string
}

func people(t *testing.T) (*cluster, *person, *person) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: an ordinary user cannot become two others")
	}
	c := running(t)
	dir, err := os.MkdirTemp("", "fs-users-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	make := func(uid int, mode os.FileMode) *person {
		p := &person{t: t, c: c, uid: uid, home: filepath.Join(dir, strconv.Itoa(uid))}
		if err := os.Mkdir(p.home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p.home, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p.home, uid, uid); err != nil {
			t.Fatal(err)
		}
		return p
	}
	return c, make(31001, 0o755), make(31002, 0o755)
}

// try runs a command line as the person, in the person's home.
func (p *person) try(line string) (stdout, stderr string, code int) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = p.home
	cmd.Env = append(p.c.environment(p.home), "USER="+strconv.Itoa(p.uid))
	// A job has the groups that the machine's files give its user, not those of the shell; here that is none.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
		Uid: uint32(p.uid), Gid: uint32(p.uid), Groups: []uint32{31050, 31051}}}
	return capture(cmd)
}

func (p *person) must(line string) string {
	p.t.Helper()
	out, errs, code := p.try(line)
	if code != 0 {
		p.t.Fatalf("as %d: %s: exit %d\n%s%s", p.uid, line, code, out, errs)
	}
	return out
}

// submit runs bsub and returns the job.
func (p *person) submit(args string) string {
	p.t.Helper()
	m := submitted.FindStringSubmatch(p.must("bsub " + args))
	if m == nil {
		p.t.Fatalf("bsub %s named no job", args)
	}
	return m[1]
}

// refused runs what must fail, with a text.
func (p *person) refused(line, text string) {
	p.t.Helper()
	out, errs, code := p.try(line)
	if code == 0 || !strings.Contains(out+errs, text) {
		p.t.Errorf("as %d: %s: exit %d, %q; want a failure that says %q", p.uid, line, code, out+errs, text)
	}
}

func (p *person) wait(job, states string) {
	p.t.Helper()
	if err := p.c.waitState(job, states); err != nil {
		p.t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestAJobHasItsUsersRights(t *testing.T) {
	_, a, _ := people(t)
	a.must(`umask 027; bsub -K -o out 'id -u; id -g; id -G; umask; pwd; touch made' 2>/dev/null`)
	got := strings.Split(read(t, filepath.Join(a.home, "out")), "\n")
	want := []string{"31001", "31001", "31001", "0027", a.home}
	for i, w := range want {
		if len(got) <= i || got[i] != w {
			t.Errorf("line %d: %q, want %q", i+1, got[i], w)
		}
	}
	for name, mode := range map[string]os.FileMode{"out": 0o640, "made": 0o640} {
		st, err := os.Stat(filepath.Join(a.home, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 31001 || owner.Gid != 31001 || st.Mode().Perm() != mode {
			t.Errorf("%s: %d:%d %v, want 31001:31001 %v", name, owner.Uid, owner.Gid, st.Mode(), mode)
		}
	}
}

func TestLimitsOfAJob(t *testing.T) {
	_, a, _ := people(t)
	a.must(`bsub -K -S 4M -C 0 -F 1M -o out 'ulimit -s; ulimit -c; ulimit -f' 2>/dev/null`)
	if got := read(t, filepath.Join(a.home, "out")); !strings.HasPrefix(got, "4096\n0\n2048\n") {
		t.Errorf("limits %.40q", got)
	}
}

func TestOthersJobsAreOutOfReach(t *testing.T) {
	c, a, b := people(t)
	job := b.submit(`-J secret -o out 'umask 077; echo hidden > private; echo shown; sleep 300'`)
	held := b.submit("-H -J held sleep 300")
	b.wait(job, "RUN")
	denied := "User permission denied"
	for _, line := range []string{"bkill %s", "bkill -s USR1 %s", "bkill -r %s", "bstop %s", "bresume %s", "brequeue %s", "bpeek %s", "bmod -W 5 %s", "bmod -Z 'echo mine' %s", "bswitch short %s", "btop %s", "bbot %s"} {
		for _, j := range []string{job, held} {
			a.refused(fmt.Sprintf(line, j), denied)
		}
	}
	b.try("bsub -H -Is true < /dev/null & sleep 0.5; kill $!")
	if out, _, _ := b.try("bjobs -noheader -o 'jobid interactive' | grep -v -- '-$' | cut -d' ' -f1"); out != "" {
		a.refused("battach "+strings.TrimSpace(out), denied)
	}
	a.refused("bkill 0", "No matching job found")
	a.refused("bkill -u 31002 0", "")
	for _, line := range []string{"badmin hclose node1", "badmin qclose normal"} {
		a.refused(line, "")
	}
	if got := c.must(t, "/", "bjobs -noheader -o stat "+job); got != "RUN\n" {
		t.Errorf("after all that the job is %q", got)
	}
	// The node's and the daemon's files, as far as they are about the job. The simulated driver's ledger stands for
	// the device files of a real one, which are open to every user.
	secrets := a.must("find " + c.dir + " -readable -type f 2>/dev/null | grep -v 'gpus/ledger$\\|sif$\\|toml$\\|/images/\\|/simdriver/\\|/lsf/\\|postgresql.conf$\\|pg_hba.conf$' || true")
	for _, name := range strings.Fields(secrets) {
		t.Errorf("user %d can read %s", a.uid, name)
	}
	a.refused("cat "+b.home+"/private", "Permission denied")
	a.refused("echo x >> "+b.home+"/out", "")
	// The script, the environment and the memory of a process of the job.
	a.refused("for p in $(pgrep -u 31002); do cat /proc/$p/environ; done 2>&1 | grep -a .; false", "")
	for _, dir := range []string{"node1", "node2"} {
		if out, _, _ := a.try("find " + filepath.Join(c.dir, dir) + " -writable ! -path '*/gpus/ledger' 2>/dev/null"); strings.TrimSpace(out) != "" {
			t.Errorf("user %d can write %s", a.uid, out)
		}
	}
	if out, _, _ := a.try("bjobs -u all -json -o 'jobid command' " + job); !strings.Contains(out, `"JOBID":"`+job+`"`) {
		t.Errorf("others' jobs are not listed: %s", out)
	}
}

// What jobs used is to be seen by everybody, as in LSF; reports about others, and the policy's making, are administrators'.
func TestWhatUsersSeeOfUsage(t *testing.T) {
	_, a, b := people(t)
	job := b.submit("-P seen -o out true")
	b.wait(job, "DONE")
	if out := a.must("bacct -P seen -u all"); !strings.Contains(out, "done jobs:       1 ") {
		t.Errorf("bacct -u all does not count the job of another:\n%s", out)
	}
	if out := a.must("bacct -P seen"); !strings.Contains(out, "done jobs:       0 ") {
		t.Errorf("bacct without -u counts the job of another:\n%s", out)
	}
	a.must("bacct -l " + job)
	for _, report := range []string{"usage", "wait", "efficiency -by job", "wasters", "usage -by account", "nodes", "gpus"} {
		a.refused("breport "+report+" -u 31002", "Reports about others are for administrators")
	}
	if out := a.must("breport usage -by project -P seen -csv"); strings.Contains(out, "seen") {
		t.Errorf("a report has the job of another: %s", out)
	}
	if out := b.must("breport usage -by project -P seen -csv"); !strings.Contains(out, "seen,1,") {
		t.Errorf("a report has not one's own job: %s", out)
	}
	for _, line := range []string{"bshare", "busers all", "badmin policy show", "badmin limit show", "bugroup || true"} {
		a.must(line)
	}
	for _, line := range []string{"badmin account add mine", "badmin limit set user=31002 running=0", "badmin share set account=default shares=9",
		"badmin budget set account=default gpu_hours=1 period=month hard", "echo | badmin account load -f -", "badmin policy log"} {
		a.refused(line, "User permission denied")
	}
}

func TestOutputFilesAreOpenedAsTheUser(t *testing.T) {
	_, a, b := people(t)
	for _, dir := range []string{a.home, b.home} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.must("echo mine > file; chmod 600 file; mkdir private; chmod 700 private")
	target := a.home + "/file"
	b.must("ln -s " + target + " link; ln -s /etc/fairslice-was-here root; ln -s " + a.home + "/private/x link2")
	for i, args := range []string{
		"-o " + target, "-oo " + target, "-e " + target + " -o mine", "-o link", "-oo link", "-o root", "-oo root", "-o /etc/fairslice-was-here", "-eo /etc/fairslice-was-here -o mine",
		"-o link2", "-o " + a.home + "/new", "-cwd " + a.home + "/sub/dir -o mine", "-i " + target + " -o mine", "-o /etc/",
	} {
		job := b.submit(args + " 'cat; echo intruder'")
		b.wait(job, "DONE|EXIT")
		if got := read(t, target); got != "mine\n" {
			t.Errorf("%d: %s changed the file of another: %q", i, args, got)
		}
	}
	for _, name := range []string{"/etc/fairslice-was-here", a.home + "/new", a.home + "/private/x", a.home + "/sub"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was made", name)
			_ = os.Remove(name)
		}
	}
	if got := b.must("cat mine || true"); strings.Contains(got, "mine\n") {
		t.Errorf("-i gave away the file of another: %q", got)
	}
}

// A FIFO that nobody reads must stop nothing but its own job.
func TestFifoAsOutput(t *testing.T) {
	_, a, b := people(t)
	b.must("mkfifo fifo fifo2")
	var stuck []string
	for _, args := range []string{"-o fifo", "-o mine -e fifo", "-i fifo -o mine", "-cwd fifo -o mine"} {
		stuck = append(stuck, b.submit(args+" echo x"))
	}
	began := time.Now()
	for range 4 {
		a.wait(a.submit("-o out true"), "DONE")
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("four jobs took %s beside a FIFO", d)
	}
	for _, j := range stuck {
		b.try("bkill " + j)
	}
	for _, j := range stuck {
		b.wait(j, "DONE|EXIT")
	}
}

// A user can not make a job run as another, and root's own are not run on behalf of others.
func TestWhoAJobBelongsToIsNotTheSubmittersWord(t *testing.T) {
	_, a, _ := people(t)
	a.must("USER=root LOGNAME=root HOME=/root bsub -K -env 'all, USER=root, HOME=/root' -o out 'id -u; echo $USER $HOME' 2>/dev/null")
	lines := strings.SplitN(read(t, filepath.Join(a.home, "out")), "\n", 3)
	if len(lines) < 2 || lines[0] != "31001" || strings.Contains(lines[1], "root") {
		t.Errorf("%q", lines)
	}
}
