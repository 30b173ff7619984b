package shim_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	mib = int64(1) << 20

	limit      = 2048 * mib // of the slice
	contextFee = 64 * mib   // of the simulated driver's contexts
	memory     = limit - contextFee
)

// node is a simulated node of one GPU of 8 GiB that nobody uses.
type node struct {
	env  []string
	uuid string
}

func newNode(t *testing.T) *node {
	t.Helper()
	if err := buildJob(); err != nil {
		t.Fatal(err)
	}
	n := &node{env: []string{"FAIRSLICE_SIM_GPUS=1x8GiB", "FAIRSLICE_SIM_NODE=" + t.Name(), "FAIRSLICE_SIM_STATE=" + t.TempDir(),
		"LD_LIBRARY_PATH=" + filepath.Join(built, "sim")}}
	cmd := exec.Command(filepath.Join(built, "job"), "uuid")
	cmd.Env = n.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("job uuid: %v", err)
	}
	n.uuid = strings.TrimSpace(string(out))
	return n
}

func (n *node) slice(t *testing.T) string { return region(t, n.uuid, limit, contextFee, 10000, 0) }

func (n *node) job(t *testing.T, dir string, words ...string) *exec.Cmd {
	t.Helper()
	return fenced(t, dir, n.env, filepath.Join(built, "job"), words...)
}

// lines runs a job to its end, which must be a good one.
func (n *node) lines(t *testing.T, dir string, words ...string) []string {
	t.Helper()
	out, _ := run(t, n.job(t, dir, words...), 0)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// talk is a job that waits where it was told to.
type talk struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (n *node) talk(t *testing.T, dir string, words ...string) *talk {
	t.Helper()
	k := &talk{t: t, cmd: n.job(t, dir, words...)}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	k.lines = bufio.NewScanner(out)
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.kill)
	return k
}

func (k *talk) hear() string {
	k.t.Helper()
	if !k.lines.Scan() {
		k.t.Fatalf("%q ended early (%v)", k.cmd.Args, k.lines.Err())
	}
	return k.lines.Text()
}

func (k *talk) goOn() {
	k.t.Helper()
	if _, err := io.WriteString(k.in, "\n"); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// word is the number after a word of a line.
func word(t *testing.T, line, after string) int64 {
	t.Helper()
	var n int64
	m := regexp.MustCompile(`\b` + after + ` (\d+)`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no number after %q in %q", after, line)
	}
	fmt.Sscan(m[1], &n)
	return n
}

// slots are those in use in a usage file, and what each says it holds on device 0 (see abi/region.h).
func slots(t *testing.T, dir string) map[uint64]int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "usage"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]int64{}
	for at := 64 + 16*64; at+192 <= len(b); at += 192 {
		if key := binary.NativeEndian.Uint64(b[at:]); key != 0 {
			all[key] = int64(binary.NativeEndian.Uint64(b[at+16:]))
		}
	}
	return all
}

func counter(t *testing.T, dir string, number int) uint64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "usage"))
	if err != nil || len(b) < 128 {
		t.Fatalf("usage: %d bytes, %v", len(b), err)
	}
	return binary.NativeEndian.Uint64(b[64+8*number:])
}

func TestTheSimulatedDriverHasEveryEntryPoint(t *testing.T) {
	newNode(t)
	has := exports(t, filepath.Join(built, "sim", "libcuda.so.1"))
	for _, e := range entries(t) {
		if !slices.Contains(has, e.spelling) {
			t.Errorf("the simulated libcuda.so.1 lacks %s", e.spelling)
		}
	}
}

func TestEveryReportTellsTheSlice(t *testing.T) {
	n := newNode(t)
	for _, line := range n.lines(t, n.slice(t), "context", "alloc", "1000", "info")[2:] {
		used := contextFee + 1024
		want := fmt.Sprintf("info 0 cuda free %d total %d device %d nvml 0 devices 1 free %d total %d used %d v2 1", limit-used, limit, limit, limit-used, limit, used)
		if line != want {
			t.Errorf("%s\nwant %s", line, want)
		}
	}
}

func TestTheLastByteIsGivenAndNotOneMore(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	got := n.lines(t, dir, "context", "alloc", fmt.Sprint(memory), "alloc", "1", "free", "alloc", fmt.Sprint(memory+1), "alloc", fmt.Sprint(memory))
	if want := []string{"context made", "alloc 0", "alloc 2", "free 0", "alloc 2", "alloc 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if d := counter(t, dir, 0); d != 2 {
		t.Errorf("%d refusals counted, want 2", d)
	}
	for _, c := range []struct {
		limit, context int64
		want           string
	}{{0, contextFee, "context failed 2"}, {contextFee - 1, contextFee, "context failed 2"}, {contextFee, contextFee, "alloc 2"}, {16 << 30, contextFee, "alloc 2"}} {
		dir := region(t, n.uuid, c.limit, c.context, 10000, 0)
		cmd := n.job(t, dir, "context", "alloc", fmt.Sprint(9<<30)) // more than the card has
		out, _ := cmd.Output()
		if !strings.Contains(string(out), c.want) {
			t.Errorf("limit %d, context %d: %q, want %q", c.limit, c.context, out, c.want)
		}
	}
}

func TestRacingThreadsAndProcessesGetTheLimitAndNoMore(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ processes, threads int }{{1, 64}, {4, 16}} {
		dir := n.slice(t)
		var all []*talk
		for range c.processes {
			all = append(all, n.talk(t, dir, "context", "wait", "race", fmt.Sprint(c.threads), fmt.Sprint(mib), "wait"))
		}
		for _, k := range all {
			k.hear()
		}
		for _, k := range all {
			k.goOn()
		}
		var given int64
		for _, k := range all {
			given += word(t, k.hear(), "given")
		}
		if want := limit/mib - int64(c.processes)*contextFee/mib; given != want {
			t.Errorf("%d processes of %d threads got %d MiB together, want %d", c.processes, c.threads, given, want)
		}
		var sum int64
		for _, held := range slots(t, dir) {
			sum += held
		}
		if sum != limit {
			t.Errorf("slots hold %d bytes, want %d", sum, limit)
		}
		for _, k := range all {
			k.kill()
		}
	}
}

// Nobody sweeps here: the dead are left out all the same before anything is refused.
func TestAKilledProcessLeavesItsMemoryToOthers(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	k := n.talk(t, dir, "alloc", fmt.Sprint(memory), "wait")
	if got := k.hear(); got != "alloc 0" {
		t.Fatal(got)
	}
	if got := n.lines(t, region(t, n.uuid, limit, contextFee, 10000, 0), "alloc", "1"); got[0] != "alloc 0" {
		t.Errorf("another slice: %q", got) // of the same GPU
	}
	out, _ := n.job(t, dir, "context").Output()
	if string(out) != "context failed 2\n" {
		t.Errorf("beside a process that holds all: %q", out)
	}
	k.kill()
	if got := n.lines(t, dir, "info", "alloc", fmt.Sprint(memory), "info"); got[1] != "alloc 0" || word(t, got[2], "used") != limit {
		t.Errorf("after it was killed: %q", got)
	}
	if len(slots(t, dir)) < 2 {
		t.Error("the slot of the dead process is gone, but only noded clears slots")
	}
}

func TestAForkedChildHasASlotOfItsOwn(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	k := n.talk(t, dir, "fork", "context", "wait")
	if got := k.hear(); got != "child 0" {
		t.Fatalf("the child: %q", got)
	}
	k.goOn()
	k.hear()
	var held []int64
	for _, b := range slots(t, dir) {
		held = append(held, b)
	}
	slices.Sort(held)
	if !slices.Equal(held, []int64{contextFee, contextFee + mib}) {
		t.Errorf("slots hold %d, want the parent's context, and the child's context and allocation", held)
	}
}

func TestAProgramThatExecsHoldsNothingOfTheOldOne(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	got := n.lines(t, dir, "alloc", fmt.Sprint(memory), "exec", "context", "info")
	if word(t, got[2], "used") != contextFee || len(slots(t, dir)) != 1 {
		t.Errorf("%q, %d slots", got, len(slots(t, dir)))
	}
}

func TestEveryFamilyGivesBackWhatItTook(t *testing.T) {
	n := newNode(t)
	got := n.lines(t, n.slice(t), "context", "info", "steps", "100", "info")
	if got[2] != "steps 0" || got[1] != got[3] {
		t.Errorf("before %s\nafter  %s (%s)", got[1], got[3], got[2])
	}
}

// A tenant may write anything into its usage file: it harms itself, and crashes nothing.
func TestAUsageFileThatIsScribbledOn(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	k := n.talk(t, dir, "context", "wait", "alloc", "1000", "info", "launch", "10", "wait")
	k.hear()
	f, err := os.OpenFile(filepath.Join(dir, "usage"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := int64(0); at < 64+16*64+1024*192; at += 4096 {
		if _, err := f.WriteAt(slices.Repeat([]byte{0xfe}, min(4096, int(64+16*64+1024*192-at))), at); err != nil {
			t.Fatal(err)
		}
	}
	k.goOn()
	if got := k.hear(); got != "alloc 2" {
		t.Errorf("with every number at its greatest: %q", got)
	}
	if got := k.hear(); word(t, got, "cuda free") != 0 || word(t, got, "total") != limit {
		t.Errorf("it is told %q", got)
	}
	if got := k.hear(); got != "launch 0" {
		t.Errorf("a launch: %q", got)
	}
}

func TestARegionThatIsDeletedStaysInForce(t *testing.T) {
	n := newNode(t)
	dir := n.slice(t)
	k := n.talk(t, dir, "context", "wait", "alloc", fmt.Sprint(memory), "alloc", "1", "wait")
	k.hear()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	k.goOn()
	if a, b := k.hear(), k.hear(); a != "alloc 0" || b != "alloc 2" {
		t.Errorf("%s, %s", a, b)
	}
	out, _ := n.job(t, dir, "context").Output() // a process that starts now
	if string(out) != "context failed 2\n" {
		t.Errorf("without a region: %q", out)
	}
}

// A device that is not in the slice is not the job's.
func TestADeviceOfOthers(t *testing.T) {
	n := newNode(t)
	dir := region(t, stubUUID, limit, contextFee, 10000, 0)
	out, _ := n.job(t, dir, "context").Output()
	if string(out) != "context failed 2\n" {
		t.Errorf("a context there: %q", out)
	}
	if got := n.lines(t, dir, "info"); word(t, got[0], "devices") != 0 || word(t, got[0], "device") != 0 {
		t.Errorf("it is told %q", got[0])
	}
}

// Two that are greedy at once, one with twice the share of the other: the kernels they get done are as their shares, be these
// short against the window or longer than it. Only the ratio is looked at; how fast this machine is does not matter.
func TestKernelsAreDoneInProportionToTheShare(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		name   string
		how    string
		blocks int // 100 keep the simulated GPU busy for 0.1 ms
		ms     int
	}{{"short kernels", "busy", 100, 2000}, {"kernels of a window's length", "busy", 20000, 6000}, {"each waited for", "sync", 20000, 6000}} {
		t.Run(c.name, func(t *testing.T) {
			var all []*talk
			small, large := region(t, n.uuid, limit, contextFee, 2000, 0), region(t, n.uuid, limit, contextFee, 4000, 2000)
			for _, dir := range []string{small, large} {
				all = append(all, n.talk(t, dir, "launch", "1", "wait", c.how, fmt.Sprint(c.ms), fmt.Sprint(c.blocks), "wait"))
			}
			for _, k := range all {
				k.hear()
			}
			for _, k := range all {
				k.goOn()
			}
			a, b := word(t, all[0].hear(), "done"), word(t, all[1].hear(), "done")
			if ratio := float64(b) / float64(a); ratio < 1.4 || ratio > 2.8 {
				t.Errorf("%d kernels with 20 %% and %d with 40 %%: ratio %.2f, want about 2", a, b, ratio)
			}
			t.Logf("%d with 20 %%, %d with 40 %%", a, b)
			if counter(t, small, 1) != uint64(a)+1 {
				t.Errorf("%d launches counted of %d", counter(t, small, 1), a+1)
			}
			if counter(t, small, 2) == 0 {
				t.Error("no time counted as waited at the gate")
			}
		})
	}
}
