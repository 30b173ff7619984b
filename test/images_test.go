package test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
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
		t.Fatal("needs apptainer: make setup installs it")
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
	held := other.submit("-H true")
	for _, line := range []string{"bimage show %s", "bimage check %s", "bimage rm %s", "bimage share -public %s", "bsub -n 2 -image %s true", "bsub -image %s true", "bsession -n 2 -image %s", "bmod -image %s " + held} {
		_, real, code := other.try(fmt.Sprintf(line, image))
		_, none, _ := other.try(fmt.Sprintf(line, "nobody/none:1"))
		if want := strings.ReplaceAll(none, "nobody/none:1", image); code == 0 || real != want || !strings.Contains(real, "No such image") {
			t.Errorf("%s: exit %d, %q; of one that does not exist %q", line, code, real, want)
		}
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

// Where the site takes signed images only, a user adds what a trusted key has signed, and an administrator vouches for the rest.
func TestOnlySignedImages(t *testing.T) {
	c, ada, _ := accounts(t)
	config := filepath.Join(c.dir, "fairslice.toml")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(config, data, 0o644); err != nil {
			t.Fatal(err)
		}
		c.must(t, "/", "badmin reconfig")
	}
	t.Cleanup(func() { configure(before) })
	keys := t.TempDir()
	configure(append(slices.Clone(before), fmt.Appendf(nil, "\n[images]\ntrusted_keys = %q\nrequire_signature = true\n", keys)...))

	file := filepath.Join(ada.home, "tools.sif")
	sign := func(ring string) {
		t.Helper()
		c.must(t, ada.home, "cp "+c.dir+"/images/sample.sif "+file)
		c.must(t, ada.home, "test -e $APPTAINER_KEYSDIR/pgp-secret || apptainer key newpair --name=Ada --email=ada@example.org --comment= --password= --push=false --bit-length=2048 2>&1; apptainer sign "+file+" 2>&1",
			"HOME="+ring, "APPTAINER_KEYSDIR="+ring)
		if err := os.Chown(file, ada.uid, ada.uid); err != nil {
			t.Fatal(err)
		}
	}
	trusted, other := t.TempDir(), t.TempDir()
	sign(trusted)
	ada.refused("bimage add tools:1 "+file, "the site's trusted keys cannot be read, so no image is taken: an administrator finds why")
	if err := os.Link(filepath.Join(trusted, "pgp-public"), filepath.Join(keys, "ada.pgp")); err != nil {
		t.Fatal(err)
	}
	ada.must("bimage add tools:1 " + file)
	if out := ada.must("bimage show tools:1"); !strings.Contains(out, "Signed by:     Ada <ada@example.org> (") {
		t.Errorf("bimage show:\n%s", out)
	}
	if out := ada.must("bimage show -json tools:1"); !strings.Contains(out, `"SIGNED_BY"`) || !strings.Contains(out, "Ada <ada@example.org>") {
		t.Errorf("bimage show -json:\n%s", out)
	}
	if out := ada.must("bimage check tools:1"); !strings.Contains(out, "it is signed by Ada <ada@example.org> (") {
		t.Errorf("bimage check:\n%s", out)
	}
	ada.must("bsub -K -image tools:1 -o out true 2>/dev/null")

	full := ada.full("tools:2")
	sign(other)
	ada.refused("bimage add tools:2 "+file, full+": Only SIF files are taken here that a trusted key has signed, all of each; of this one: it is signed with ")
	ada.refused("bimage add tools:2 "+c.dir+"/images/sample.sif", "of this one: it is not signed. Have it signed by somebody whose key is trusted here (apptainer sign)")
	dir := ada.root("rootfs", nil, 1000)
	ada.refused("bimage add tools:2 "+dir, full+": Only signed SIF files are taken here, and of anything else batchd makes the file")
	ada.refused("bimage pull tools:2 docker://127.0.0.1:1/x", "Only signed SIF files are taken here")
	ada.refused("bimage show tools:2", "No such image")
	c.must(t, "/", "bimage add -site vouched:1 "+dir)
	if out := ada.must("bimage show vouched:1"); strings.Contains(out, "Signed by") {
		t.Errorf("bimage show:\n%s", out)
	}
	session := ada.writable("sample")
	request := ada.commit(session, "kept:1")
	c.must(t, "/", "badmin commits approve "+request)
	ada.becomes(request, "done")
	ada.must("bkill -s KILL " + session)
	c.must(t, "/", "bimage rm vouched:1 && bimage rm "+ada.full("tools:1")+" && bimage rm "+ada.full("kept:1"))
	c.nothingLeft(t)
}
