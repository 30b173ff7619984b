package test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// owners are two users whom the machine knows, which Apptainer needs.
func owners(t *testing.T) (c *cluster, ada, bob *person) {
	t.Helper()
	if _, err := exec.LookPath("apptainer"); err != nil {
		t.Skip("needs apptainer")
	}
	c, a, b := people(t)
	found := 0
	for _, name := range []string{"games", "man", "mail", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		p := []*person{a, b}[found]
		if _, err := fmt.Sscan(u.Uid, &p.uid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p.home, p.uid, p.uid); err != nil {
			t.Fatal(err)
		}
		if found++; found == 2 {
			return c, a, b
		}
	}
	t.Skip("needs two of the users games, man, mail and daemon")
	return nil, nil, nil
}

// root makes a directory with the sample's files, and labels; noise bytes make it larger.
func (p *person) root(name string, labels map[string]string, noise int) string {
	p.t.Helper()
	dir := filepath.Join(p.home, name)
	p.c.must(p.t, p.home, "apptainer build --sandbox "+dir+" "+p.c.dir+"/images/sample.sif >/dev/null 2>&1")
	text, err := json.Marshal(labels)
	if err != nil {
		p.t.Fatal(err)
	}
	data := make([]byte, noise)
	_, _ = rand.Read(data)
	for file, data := range map[string][]byte{".singularity.d/labels.json": text, "opt/noise": data} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	p.c.must(p.t, p.home, fmt.Sprintf("chown -R %d %s && chmod -R u+rwX %s", p.uid, dir, dir))
	return dir
}

// digest is the sum of an image, as the files are called.
func (p *person) digest(image string) string {
	p.t.Helper()
	for line := range strings.Lines(p.must("bimage show " + image)) {
		if _, sum, ok := strings.Cut(line, "sha256:"); ok && strings.HasPrefix(line, "Digest:") {
			return strings.TrimSpace(sum)
		}
	}
	p.t.Fatalf("bimage show %s has no digest", image)
	return ""
}

func TestAnImageFromUploadToJob(t *testing.T) {
	c, ada, bob := owners(t)
	dir := ada.root("rootfs", map[string]string{"fairslice.min.cpu": "2", "fairslice.corecount-env": "OMP_NUM_THREADS,NPROC"}, 1<<20)
	ada.must("bimage add python:3.11 -d 'for the course' " + dir)
	if out := ada.must("bimage list"); !strings.Contains(out, "for the course") || !strings.Contains(out, "private") {
		t.Errorf("bimage list:\n%s", out)
	}
	if out := ada.must("bimage check python:3.11"); !strings.Contains(out, "the stored file is whole") || !strings.Contains(out, "2 cores") {
		t.Errorf("bimage check:\n%s", out)
	}
	ada.refused("bimage add python:3.11 "+dir, "There is such an image already")
	ada.refused("bsub -image python:3.11 true", "cores (-n) is 1, and the least is 2")
	ada.must("bsub -K -n 2 -image python:3.11 -o out 'cat /etc/image-name; echo cores $OMP_NUM_THREADS $NPROC' 2>/dev/null")
	if got := read(t, filepath.Join(ada.home, "out")); !strings.HasPrefix(got, "sample\ncores 2 2\n") {
		t.Errorf("the job said %.60q", got)
	}
	ada.must("OMP_NUM_THREADS=7 bsub -K -n 2 -image python:3.11 -o own 'echo cores $OMP_NUM_THREADS $NPROC' 2>/dev/null")
	if got := read(t, filepath.Join(ada.home, "own")); !strings.HasPrefix(got, "cores 7 2\n") {
		t.Errorf("with a value of the user's own the job said %.60q", got)
	}
	full := ada.full("python:3.11")
	if out := ada.must("bjobs -a -noheader -o image | head -1"); strings.TrimSpace(out) != full {
		t.Errorf("the job's image is %q, want %q", out, full)
	}
	secret(t, c, bob, full, ada.digest(full))
	ada.must("bimage share -group " + groupOf(t, bob.uid) + " python:3.11")
	bob.must("bimage show " + full)
	bob.refused("bimage rm "+full, "not yours")
	ada.refused("bimage share -public python:3.11", "Only administrators")
	ada.must("bimage share -private python:3.11")
	bob.refused("bimage show "+full, "No such image")
	ada.must("bimage rm python:3.11")
}

func (p *person) full(name string) string {
	p.t.Helper()
	u, err := user.LookupId(strconv.Itoa(p.uid))
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Username + "/" + name
}

func groupOf(t *testing.T, uid int) string {
	t.Helper()
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		t.Fatal(err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return g.Name
}

// secret tries everything on another's private image. What is said of it must be what is said of one that does not exist.
func secret(t *testing.T, c *cluster, other *person, image, digest string) {
	t.Helper()
	if out := other.must("bimage list -json"); strings.Contains(out, image) || strings.Contains(out, digest) {
		t.Errorf("it is listed:\n%s", out)
	}
	other.refused("bimage list -all", "User permission denied")
	for _, line := range []string{"bimage show %s", "bimage check %s", "bimage rm %s", "bimage share -public %s", "bsub -n 2 -image %s true", "bsub -image %s true", "bsession -n 2 -image %s"} {
		_, real, code := other.try(fmt.Sprintf(line, image))
		_, none, _ := other.try(fmt.Sprintf(line, "nobody/none:1"))
		if want := strings.ReplaceAll(none, "nobody/none:1", image); code == 0 || real != want || !strings.Contains(real, "No such image") {
			t.Errorf("%s: exit %d, %q; of one that does not exist %q", line, code, real, want)
		}
	}
	web := caller(t, c, other.uid)
	for _, call := range []string{"ShowImage", "RemoveImage", "VerifyImage", "ChangeImage"} {
		real := web.call(call, `{"name":"`+image+`"}`)
		none := web.call(call, `{"name":"nobody/none:1"}`)
		if want := strings.ReplaceAll(none, "nobody/none:1", image); real != want || !strings.Contains(real, "o such image") && call != "VerifyImage" {
			t.Errorf("%s: %q; of one that does not exist %q", call, real, want)
		}
	}
	if got := web.call("AddImage", `{"image":{"name":"`+image+`"},"size":1,"upload":"x"}`); !strings.Contains(got, "images of their own only") {
		t.Errorf("AddImage under another's name: %q", got)
	}
	for _, node := range []string{"node1", "node2"} {
		for _, place := range []string{"users/*", "public", "blobs", "partial"} {
			files, _ := filepath.Glob(filepath.Join(c.dir, node, "images", place, digest+"*"))
			for _, f := range files {
				other.refused("head -c 1 "+f, "Permission denied")
			}
		}
	}
	other.refused("head -c 1 "+filepath.Join(c.dir, "images", "files", digest+".sif"), "Permission denied")
}

// apiCaller calls batchd's API itself, as some user.
type apiCaller struct {
	t    *testing.T
	addr string
	uid  int
}

func caller(t *testing.T, c *cluster, uid int) *apiCaller {
	return &apiCaller{t, strings.TrimPrefix(c.addr, "unix://"), uid}
}

func (a *apiCaller) call(procedure, body string) string {
	a.t.Helper()
	conn, err := a.dial()
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.Close()
	kind := "application/json"
	if procedure == "VerifyImage" { // a stream
		kind = "application/connect+json"
		body = string([]byte{0, 0, 0, 0, byte(len(body))}) + body
	}
	req, err := http.NewRequest(http.MethodPost, "http://batchd/fairslice.v1.Images/"+procedure, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Close = true
	if err := req.Write(conn); err != nil {
		a.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text := make([]byte, 64<<10)
	n := 0
	for n < len(text) {
		m, err := res.Body.Read(text[n:])
		n += m
		if err != nil {
			break
		}
	}
	answer := string(text[:n])
	if procedure == "VerifyImage" && n >= 5 {
		answer = answer[5:] // a message's length, which is different for another name
	}
	return fmt.Sprint(res.StatusCode, " ", answer)
}

// dial connects as the user: the kernel tells the server whose thread did. The thread ends with its goroutine.
func (a *apiCaller) dial() (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	out := make(chan result)
	go func() {
		runtime.LockOSThread()
		uid := uintptr(a.uid)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			out <- result{nil, errno}
			return
		}
		conn, err := net.Dial("unix", a.addr)
		out <- result{conn, err}
	}()
	r := <-out
	return r.conn, r.err
}

// Jobs keep the image that they were submitted with. Nobody keeps its file when they have ended.
func TestARemovedImageStaysAsLongAsJobsNeedIt(t *testing.T) {
	c, ada, _ := owners(t)
	ada.must("bimage add doomed:1 " + ada.root("rootfs", map[string]string{"which": "doomed"}, 1000))
	digest := ada.digest("doomed:1")
	runs := ada.submit("-image doomed:1 -o runs 'while ! test -e go; do sleep 0.1; done; cat /etc/image-name'")
	ada.wait(runs, "RUN")
	pends := ada.submit("-w 'done(" + runs + ")' -image doomed:1 -o pends 'cat /etc/image-name'")
	ada.must("bimage rm doomed:1")
	ada.refused("bsub -image doomed:1 true", "No such image")
	ada.refused("bimage show doomed:1", "No such image")
	if out := c.must(t, "/", "bimage list -all"); !strings.Contains(out, "(removed)") {
		t.Errorf("an administrator does not see it:\n%s", out)
	}
	ada.must("touch go")
	for _, job := range []string{runs, pends} {
		ada.wait(job, "DONE")
	}
	for _, out := range []string{"runs", "pends"} {
		if got := read(t, filepath.Join(ada.home, out)); !strings.HasPrefix(got, "sample\n") {
			t.Errorf("%s: %.60q", out, got)
		}
	}
	if testing.Short() {
		t.Skip("the sweep comes a minute later")
	}
	file := filepath.Join(c.dir, "images", "files", digest+".sif")
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err := os.Stat(file); os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", file)
		}
	}
}

// A node whose daemon is killed while an image comes goes on where it was.
func TestAFetchSurvivesTheNodesDaemon(t *testing.T) {
	c, ada, _ := owners(t)
	ada.must("bimage add large:1 " + ada.root("rootfs", map[string]string{}, 150<<20))
	defer ada.must("bimage rm large:1")
	partial := filepath.Join(c.dir, "node2", "images", "partial", ada.digest("large:1"))
	old := c.pids("noded --config " + c.dir + "/node2")
	if len(old) != 1 {
		t.Fatalf("noded of node2 is %v", old)
	}
	job := ada.submit("-m node2 -image large:1 -o out 'cat /etc/image-name'")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if st, err := os.Stat(partial); err == nil && st.Size() > 1<<20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the image does not come")
		}
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ada.wait(job, "DONE")
	if got := read(t, filepath.Join(ada.home, "out")); !strings.HasPrefix(got, "sample\n") {
		t.Errorf("%.60q", got)
	}
	if _, err := os.Stat(partial); !os.IsNotExist(err) {
		t.Errorf("the part is still there: %v", err)
	}
}
