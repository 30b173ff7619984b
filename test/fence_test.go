package test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lab is a directory from which jobs with slices are run, in real containers on simulated GPUs. Each GPU has 8 GiB and is 2
// fGPU. The jobs run the tenant, a CUDA program that does what its arguments say.
type lab struct {
	*cluster
	t    *testing.T
	home string
}

func newLab(t *testing.T) *lab {
	c := running(t)
	dir, err := os.MkdirTemp("", "fs-fence-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tenant", "simdriver/sim-ioctl"} {
		data, err := os.ReadFile(filepath.Join(c.bin, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &lab{c, t, dir}
}

var jobNumber = regexp.MustCompile(`Job <(\d+)> is submitted`)

// submit runs bsub in the lab, as an ordinary user, and returns the job.
func (l *lab) submit(args string) string {
	l.t.Helper()
	as := ""
	if os.Geteuid() == 0 {
		as = "setpriv --reuid 65534 --regid 65534 --clear-groups "
	}
	out := l.must(l.t, l.home, as+"bsub "+args)
	m := jobNumber.FindStringSubmatch(out)
	if m == nil {
		l.t.Fatalf("bsub %s: %s", args, out)
	}
	return m[1]
}

// run runs a job to its end and returns its state and its output, the report included.
func (l *lab) run(args string) (state, output string) {
	l.t.Helper()
	file := fmt.Sprintf("out.%d", time.Now().UnixNano())
	job := l.submit("-o " + file + " " + args)
	l.reach(job, "DONE|EXIT")
	data, err := os.ReadFile(filepath.Join(l.home, file))
	if err != nil {
		l.t.Fatalf("job %s: %v\n%s", job, err, l.must(l.t, l.home, "bjobs -l "+job))
	}
	return strings.TrimSpace(l.must(l.t, l.home, "bjobs -noheader -o stat "+job)), string(data)
}

func (l *lab) reach(job, states string) {
	l.t.Helper()
	if err := l.waitState(job, states); err != nil {
		l.t.Fatalf("%v\n%s%s\n%s", err, l.must(l.t, l.home, "bjobs -l "+job), l.must(l.t, l.home, "bhist -l "+job), l.logTail())
	}
}

// want checks an output for texts.
func (l *lab) want(output string, texts ...string) {
	l.t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			l.t.Errorf("%q is missing in\n%s", text, output)
		}
	}
}

// half is the seed example: half an fGPU of a GPU of 2, in a container.
const half = "-m node1 -image sample -gpu fgpu=0.5 "

const gib = 1 << 30

func TestFenceHalfAnFGPU(t *testing.T) {
	l := newLab(t)
	state, out := l.run(half + `'./tenant info nvml; fgpu-smi; env | sort | grep -E "^(CUDA_VISIBLE_DEVICES|GPU_COUNT|FAIRSLICE_GPU)"'`)
	if state != "DONE" {
		t.Errorf("it is %s", state)
	}
	l.want(out, "total 2147483648 free 2080374784", "/ 2048 MiB", "GPU_COUNT=1\n", "FAIRSLICE_GPU_MODE=shim\n")
	for _, family := range []string{"malloc", "pitch", "async", "pool", "vmm", "array", "mipmap", "managed", "graph"} {
		state, out := l.run(half + "./tenant fill " + family)
		m := regexp.MustCompile(`fill ` + family + ` ok total (\d+) .*next CUDA_ERROR_OUT_OF_MEMORY`).FindStringSubmatch(out)
		if state != "DONE" || m == nil {
			t.Errorf("%s: it is %s\n%s", family, state, out)
			continue
		}
		const context = 64 << 20 // of the simulated driver; the slice includes it
		if total, _ := strconv.Atoi(m[1]); total != 2*gib-context {
			t.Errorf("%s: got %d bytes beside a context, want %d", family, total, 2*gib-context)
		}
	}
}

// Whatever a program does with its environment and its mounts, it gets no more than its slice for longer than two looks.
func TestFenceEvasion(t *testing.T) {
	l := newLab(t)
	const libs = "LD_LIBRARY_PATH=/.singularity.d/libs"
	for name, command := range map[string]string{
		"an empty environment":    `env -i ` + libs + ` ./tenant maps fill malloc`,
		"no LD_PRELOAD":           `unset LD_PRELOAD; ./tenant maps fill malloc`,
		"a shell of its own":      `env -i /bin/sh -c "` + libs + ` ./tenant maps fill malloc"`,
		"RTLD_DEEPBIND":           `./tenant via=deepbind maps fill malloc`,
		"cuGetProcAddress_v2":     `./tenant via=gpa2 maps fill async`,
		"a forked child":          `./tenant maps fork fill vmm`,
		"after exec":              `./tenant maps exec fill array`,
		"another slice directory": `FAIRSLICE_FGPU_DIR=/tmp ./tenant maps fill malloc`,
	} {
		state, out := l.run(half + "'" + command + "'")
		if state != "DONE" || !strings.Contains(out, "next CUDA_ERROR_OUT_OF_MEMORY") {
			t.Errorf("%s: %s\n%s", name, state, out)
		}
	}
	// What a job writes into its own accounts makes it no richer.
	for _, how := range []string{"ones", "zero", "7"} {
		_, out := l.run(half + "'./tenant scribble " + how + "; ./tenant unlink; ./tenant truncate; ./tenant alloc malloc 3G'")
		if !strings.Contains(out, "alloc malloc 3221225472 CUDA_ERROR_OUT_OF_MEMORY") {
			t.Errorf("scribbled with %s:\n%s", how, out)
		}
	}
	for name, command := range map[string]string{
		"past the library": "'cp /.singularity.d/libs/simulated.conf . && ./sim-ioctl 4294967296 60'",
		// With namespaces of its own it can hide the file that names the fence to the loader.
		"a nested container": `'unshare -Urm sh -c "mount -t tmpfs none /etc && ./tenant alloc malloc 4G hold 60"'`,
	} {
		job := l.submit(half + "-o evade.out " + command)
		l.reach(job, "DONE|EXIT")
		hist := strings.ReplaceAll(l.must(t, l.home, "bhist -l "+job), "\n                     ", "")
		out, _ := os.ReadFile(filepath.Join(l.home, "evade.out"))
		if !strings.Contains(hist, "TERM_GPU_MEMLIMIT") {
			t.Errorf("%s: the watchdog has not ended it:\n%s\n%s", name, hist, out)
		}
		l.want(hist, "Note: GPU 0", "by the driver's count")
	}
}

// An image without the GNU C library cannot be fenced: the queue says what then.
func TestFenceImageWithoutLibc(t *testing.T) {
	l := newLab(t)
	image := filepath.Join(l.home, "static.sif")
	if out, err := exec.Command("../etc/image.sh", "--no-libc", "static", image).CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v: %s", err, out)
	}
	args := "-gpu fgpu=0.5 -image " + image + " "
	state, out := l.run("-q short " + args + "echo it runs")
	if state != "EXIT" || strings.HasPrefix(out, "it runs\n") {
		t.Errorf("unfenced = \"refuse\": it is %s\n%s", state, out)
	}
	l.want(out, "the job was not run", "no loader of glibc")
	state, out = l.run("-q normal " + args + "echo it runs")
	if state != "DONE" || !strings.HasPrefix(out, "it runs\n") {
		t.Errorf("unfenced = \"watchdog\": it is %s\n%s", state, out)
	}
	// Who has all of a GPU has nobody to be fenced from.
	state, out = l.run("-q short -gpu num=1 -image " + image + " echo it runs")
	if state != "DONE" {
		t.Errorf("a whole GPU: it is %s\n%s", state, out)
	}
	_, errs, code := l.try(l.home, "bsub -q short -gpu fgpu=0.5 true")
	if code == 0 || !strings.Contains(errs, "name an image (-image)") {
		t.Errorf("outside a container: exit %d, %s", code, errs)
	}
}

// What the node cannot do is not the job's fault: it waits with the reason, and the node takes no more.
func TestFenceBroken(t *testing.T) {
	l := newLab(t)
	library := filepath.Join(l.bin, "libfgpu.so")
	good, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	mend := func() {
		if err := os.WriteFile(library, good, 0o755); err != nil {
			t.Fatal(err)
		}
		l.try(l.home, "badmin hopen all")
	}
	defer mend()
	if err := os.WriteFile(library, []byte("no library\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	job := l.submit(half + "-o broken.out echo it runs")
	deadline := time.Now().Add(patience)
	for {
		hosts := l.must(t, l.home, "bhosts -l node1")
		why := l.must(t, l.home, "bjobs -l "+job)
		if strings.Contains(hosts, "fence: ") && strings.Contains(why, "fence") {
			l.want(hosts, "closed_Adm")
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node is not marked, or the job does not say why it waits:\n%s\n%s\n%s", hosts, why, l.must(t, l.home, "bhist -l "+job))
		}
		time.Sleep(50 * time.Millisecond)
	}
	l.want(l.must(t, l.home, "bjobs -noheader -o stat "+job), "PEND")
	mend()
	l.reach(job, "DONE")
	out, _ := os.ReadFile(filepath.Join(l.home, "broken.out"))
	l.want(string(out), "it runs\n")
}

// Four quarters of a GPU that want all of it get a quarter each, by launches and by graphs.
func TestFenceShares(t *testing.T) {
	l := newLab(t)
	for _, way := range []string{"eager", "graph"} {
		var jobs []string
		for i := range 4 {
			jobs = append(jobs, l.submit(fmt.Sprintf("%s-o share.%s.%d ./tenant greedy 12 100 %s", half, way, i, way)))
		}
		var counts []float64
		total := 0.0
		for i, job := range jobs {
			l.reach(job, "DONE|EXIT")
			out, err := os.ReadFile(filepath.Join(l.home, fmt.Sprintf("share.%s.%d", way, i)))
			m := regexp.MustCompile(`greedy .* ok completed (\d+)`).FindStringSubmatch(string(out))
			if err != nil || m == nil {
				t.Fatalf("job %s: %v\n%s", job, err, out)
			}
			n, _ := strconv.ParseFloat(m[1], 64)
			counts, total = append(counts, n), total+n
		}
		for i, n := range counts {
			t.Logf("%s: tenant %d ran %.1f %% of all kernels", way, i, 100*n/total)
			if share := n / total; share < 0.225 || share > 0.275 {
				t.Errorf("%s: tenant %d got %.1f %% of the GPU's work, want 25 %% within a tenth", way, i, 100*share)
			}
		}
	}
}

// A GPU that falls off the bus closes its node and ends what runs on it, with the device's name; who asked to be run again waits.
func TestFenceLostGPU(t *testing.T) {
	l := newLab(t)
	job := l.submit(half + "-o lost.out './tenant info hold 600'")
	again := l.submit("-r " + half + "-o again.out './tenant info hold 600'")
	for _, file := range []string{"lost.out", "again.out"} {
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			if out, _ := os.ReadFile(filepath.Join(l.home, file)); strings.Contains(string(out), "holding") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the job does not hold its GPU", file)
			}
		}
	}
	mark := filepath.Join(l.dir, "node1", "gpus", "gpu0.lost")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	answers := func() int {
		log, _ := os.ReadFile(l.log.Name())
		return strings.Count(string(log), "the driver answers again")
	}
	before := answers()
	defer func() {
		_ = os.Remove(mark)
		// Until noded has seen it, its heartbeats close the node again.
		for deadline := time.Now().Add(patience); answers() == before; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the GPU does not come back")
			}
		}
		l.must(t, l.home, "badmin hopen node1")
		if state, out := l.run(half + "./tenant info"); state != "DONE" {
			t.Errorf("on the GPU that came back a job is %s\n%s", state, out)
		}
		l.want(l.must(t, l.home, "bhosts -w node1"), " ok ")
	}()
	l.reach(job, "EXIT")
	l.want(strings.ReplaceAll(l.must(t, l.home, "bhist -l "+job), "\n                     ", ""), "TERM_GPU_LOST", "Note: GPU 0 (GPU-", "no longer answers")
	l.reach(again, "PEND")
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out := l.must(t, l.home, "bhosts -l node1")
		if strings.Contains(out, "no longer answers") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node is not closed:\n%s", out)
		}
	}
}

// A node daemon that is killed finds the slices of its running jobs as it left them.
func TestFenceSurvivesNoded(t *testing.T) {
	l := newLab(t)
	job := l.submit(half + `-o survive.out './tenant alloc malloc 512M hold 6 info fill malloc'`)
	l.reach(job, "RUN")
	uses := regexp.MustCompile(`job ` + job + ` .*uses 576 MiB`) // a context beside
	deadline := time.Now().Add(patience)
	for !uses.MatchString(l.must(t, l.home, "bslice -l node1")) {
		if time.Now().After(deadline) {
			t.Fatalf("what the job holds is not seen:\n%s", l.must(t, l.home, "bslice -l node1"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	const word = "node1.toml"
	old := l.pids(word)
	if len(old) != 1 {
		t.Fatalf("the node daemon is %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.reach(job, "DONE|EXIT")
	out, err := os.ReadFile(filepath.Join(l.home, "survive.out"))
	if err != nil {
		t.Fatal(err)
	}
	l.want(string(out), "alloc malloc 536870912 ok", "info memory total 2147483648 free 1543503872 used 603979776", "fill malloc ok total 1543503872")
	if now := l.pids(word); len(now) != 1 || now[0] == old[0] {
		t.Errorf("the node daemon is %v, was %v", now, old)
	}
	l.want(l.must(t, l.home, "bjobs -l "+job), "peak 576 MiB of 2048 MiB")
	left, err := filepath.Glob(filepath.Join(l.dir, "run", "node1", "fgpu", "*"))
	for ; err == nil && len(left) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left, err = filepath.Glob(filepath.Join(l.dir, "run", "node1", "fgpu", "*"))
	}
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// The node daemons' metrics show the slice of a job that runs.
func TestFenceMetrics(t *testing.T) {
	l := newLab(t)
	job := l.submit(half + "-P physics -o metrics.out './tenant alloc malloc 512M hold 600'")
	l.reach(job, "RUN")
	log, err := os.ReadFile(l.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	urls := regexp.MustCompile(`msg=metrics url=(\S+)`).FindAllStringSubmatch(string(log), -1)
	if len(urls) == 0 {
		t.Fatal("no node daemon says where its metrics are")
	}
	want := regexp.MustCompile(`fgpu_slice_memory_used_bytes\{gpu_uuid="GPU-[^"]+",session="` + job + `\.0\.1"\} 6\.03979776e\+08`)
	var pages string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		pages = ""
		for _, u := range urls {
			resp, err := http.Get(u[1])
			if err != nil {
				continue // of a daemon that has been started again since
			}
			page, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			pages += string(page)
		}
		if want.MatchString(pages) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the slice is not shown:\n%s", pages)
		}
	}
	l.want(pages, `job="`+job+`"`, `project="physics"`, `mode="shim"`, `share="0.25"`, "fgpu_slice_memory_limit_bytes{", "2.147483648e+09",
		"fgpu_slice_sm_limit_ratio{", "fgpu_slice_enforced{", "fgpu_gpu_shares_total{", "fgpu_gpu_shares_fragmented{", "fgpu_slice_processes{")
}
