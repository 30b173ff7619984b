package simdriver

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is a folder with the simulated driver and the program testdata/cuda.c.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "simdriver-test-"); err != nil {
		return "", err
	}
	build := exec.Command("sh", "build.sh")
	build.Env = append(os.Environ(), "OUT="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build.sh: %w\n%s", err, out)
	}
	return dir, compile(filepath.Join(dir, "cuda"), "testdata/cuda.c", "-rdynamic", "-L"+dir, "-l:"+CUDALibraryName, "-ldl")
})

func compile(program string, args ...string) error {
	args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program}, args...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// node is a simulated node of its own.
type node struct {
	dir   string // of the libraries and programs
	state string
	env   []string
}

func newNode(t *testing.T, env ...string) node {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	n := node{dir: dir, state: t.TempDir()}
	n.env = append(os.Environ(), GPUsVar+"=2x8GiB", NodeVar+"=n1", StateVar+"="+n.state, "LD_LIBRARY_PATH="+dir,
		"CUDA_MPS_PIPE_DIRECTORY="+filepath.Join(n.state, "no-mps"))
	n.env = append(n.env, env...)
	return n
}

func (n node) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), filepath.Join(n.dir, "cuda"), args...)
	cmd.Env = n.env
	cmd.Stderr = os.Stderr
	return cmd
}

func (n node) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.command(t, args...).Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// background starts the program and returns once it has said that it runs.
type background struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (n node) start(t *testing.T, args ...string) background {
	t.Helper()
	b := background{cmd: n.command(t, args...)}
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.cmd.Process.Kill(); b.cmd.Wait() })
	b.out = bufio.NewScanner(out)
	if !b.out.Scan() || b.out.Text() != "running" {
		t.Fatalf("%q said %q", args, b.out.Text())
	}
	return b
}

// used is what NVML says of the first GPU: bytes, processes, and the sum of theirs.
func (n node) used(t *testing.T) (bytes int64, processes int, sum int64) {
	t.Helper()
	if _, err := fmt.Sscan(n.run(t, "nvml"), &bytes, &processes, &sum); err != nil {
		t.Fatal(err)
	}
	return bytes, processes, sum
}

func TestSizes(t *testing.T)            { newNode(t).check(t, "sizes") }
func TestStreamsAndEvents(t *testing.T) { newNode(t).check(t, "order") }
func TestFork(t *testing.T)             { newNode(t).check(t, "fork") }
func TestIPC(t *testing.T)              { newNode(t).check(t, "ipc") }

func (n node) check(t *testing.T, name string) {
	t.Helper()
	if got := n.run(t, name); got != "ok" {
		t.Error(got)
	}
	if bytes, processes, _ := n.used(t); bytes != 0 || processes != 0 {
		t.Errorf("afterwards %d processes hold %d bytes", processes, bytes)
	}
}

func TestVersions(t *testing.T) {
	for _, version := range []string{"13000", "13010", "12080", "11030"} {
		newNode(t, CUDAVar+"="+version).check(t, "versions")
	}
}

func TestPrivateWithoutState(t *testing.T) { newNode(t, StateVar+"=").check(t, "order") }

func TestContextCost(t *testing.T) {
	n := newNode(t, ContextVar+"=100M")
	n.start(t, "churn", "1").cmd.Process.Kill()
	b := n.start(t, "greedy", "1")
	if bytes, processes, sum := n.used(t); bytes != 100<<20 || processes != 1 || sum != bytes {
		t.Errorf("got %d bytes of %d processes with %d", bytes, processes, sum)
	}
	b.in.Close()
}

// Device time: with times of its own (testdata/time.c), so that the answers are exact.
func TestDeviceTime(t *testing.T) {
	program := filepath.Join(t.TempDir(), "time")
	if err := compile(program, "-fsanitize=undefined", "-fno-sanitize-recover", "testdata/time.c", "device_time.c", "ledger.c", "alive.c"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// Three processes launch as fast as they can, one of them kernels of ten times the length. Whatever the machine does,
// of the device's time each has had a third when they stop together.
func TestProcessesShareTheDevice(t *testing.T) {
	n := newNode(t, BlockVar+"=1000000")
	grid := []int{100, 100, 1000}
	var all []background
	for _, blocks := range grid {
		all = append(all, n.start(t, "greedy", strconv.Itoa(blocks)))
	}
	before := n.served(t)
	for mean := uint64(0); mean < 1e9; { // until they have had a second each
		mean = 0
		for pid, served := range n.served(t) {
			mean += (served - before[pid]) / uint64(len(all))
		}
	}
	after := n.served(t)
	var had []uint64
	for _, b := range all {
		had = append(had, after[b.cmd.Process.Pid]-before[b.cmd.Process.Pid])
		b.in.Close()
	}
	for i, b := range all {
		if ratio := float64(had[i]) / float64(had[0]); ratio < 0.99 || ratio > 1.01 {
			t.Errorf("served %v", had)
		}
		b.out.Scan()
		if kernels, err := strconv.Atoi(b.out.Text()); err != nil || kernels == 0 {
			t.Errorf("said %q", b.out.Text())
		}
	}
}

// served reads from the ledger how much device time each process has had on the first GPU. It is all of one moment only
// if nobody writes, but then the processes are served together.
func (n node) served(t *testing.T) map[int]uint64 {
	t.Helper()
	n.run(t, "nvml") // a look: it works out what was served up to now
	out := map[int]uint64{}
	for _, s := range n.slots(t) {
		out[s.pid] = s.served
	}
	return out
}

type slot struct {
	pid           int
	bytes, served uint64
}

func (n node) slots(t *testing.T) (list []slot) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.state, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	word := func(at int) (v uint64) {
		for i := range 8 {
			v |= uint64(text[at+i]) << (8 * i)
		}
		return v
	}
	const header, size = 4096 + 64, 1664 // as ledger.h asserts
	for i := range 1024 {
		if at := header + i*size; word(at) != 0 {
			list = append(list, slot{int(word(at) >> 42), word(at + 8), word(at + 24)})
		}
	}
	return list
}

// A process that is killed at any instruction, also one that has the ledger's lock, leaves nothing and stops nobody.
func TestKilledProcesses(t *testing.T) {
	n := newNode(t)
	rng := rand.New(rand.NewPCG(4, 9))
	var alive []background
	for round := range 60 {
		for len(alive) < 4 {
			alive = append(alive, n.start(t, "churn", strconv.Itoa(round)))
		}
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Microsecond) // where the kill hits, not what is waited for
		i := rng.IntN(len(alive))
		alive[i].cmd.Process.Kill()
		dead := alive[i].cmd.Process.Pid
		if round%2 == 0 {
			alive[i].cmd.Wait()
		} else { // it stays a zombie
			const pPID, wExited, wNoWait = 1, 4, 0x1000000
			if _, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(dead), 0, wExited|wNoWait, 0, 0); errno != 0 {
				t.Fatal(errno)
			}
		}
		alive = slices.Delete(alive, i, i+1)
		bytes, processes, _ := n.used(t)
		if processes != len(alive) || bytes > 8*gib {
			t.Fatalf("round %d: %d processes hold %d bytes, with %d alive", round, processes, bytes, len(alive))
		}
		for _, s := range n.slots(t) {
			if s.pid == dead {
				t.Fatalf("round %d: the dead process %d has a slot", round, dead)
			}
		}
	}
	for _, b := range alive {
		b.cmd.Process.Kill()
		b.cmd.Wait()
	}
	n.check(t, "sizes") // all of the card is there again, to the byte
}

// Whatever threads and processes do at the edge, nobody gets a byte that is not there.
func TestRaceForTheLastBytes(t *testing.T) {
	n := newNode(t)
	var all []*exec.Cmd
	var said [3]bytes.Buffer
	for i := range 3 {
		cmd := n.command(t, "race", strconv.Itoa(i))
		cmd.Stdout = &said[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said[i].Bytes())
		}
	}
	n.check(t, "sizes")
}

func TestLostGPU(t *testing.T) {
	n := newNode(t)
	b := n.start(t, "lost")
	if err := SetLost(n.state, 0, true); err != nil {
		t.Fatal(err)
	}
	b.in.Write([]byte("\n"))
	if b.out.Scan(); b.out.Text() != "ok" {
		t.Error(b.out.Text())
	}
}

func TestDevices(t *testing.T) {
	first, second := "5bad Fairslice Simulated GPU 8GiB 8589934592", "0ca2 Fairslice Simulated GPU 8GiB 8589934592"
	for visible, want := range map[string]string{
		"0,1":                          first + "\n" + second,
		"1,0":                          second + "\n" + first,
		"GPU-0ca26b6a-3a4f-875e":       second,
		"GPU-":                         "CUDA_ERROR_NO_DEVICE", // not one alone
		"1,7,0":                        second,                 // the list ends at what does not exist
		"":                             "CUDA_ERROR_NO_DEVICE",
		"-1":                           "CUDA_ERROR_NO_DEVICE",
		"0,0":                          first,
		strings.Repeat("GPU-x,", 2000): "CUDA_ERROR_NO_DEVICE",
	} {
		if got := newNode(t, "CUDA_VISIBLE_DEVICES="+visible).run(t, "devices"); got != want {
			t.Errorf("%.30q: got %q, want %q", visible, got, want)
		}
	}
	if got := newNode(t, GPUsVar+"=8GiB").run(t, "devices"); got != "CUDA_ERROR_INVALID_VALUE" {
		t.Errorf("got %q", got)
	}
}

func TestIoctlProgram(t *testing.T) {
	n := newNode(t)
	start := func(bytes string) (*exec.Cmd, string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(n.dir, IoctlName), bytes, "60")
		cmd.Env = n.env
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan()
		return cmd, lines.Text()
	}
	holder, said := start("8589934592")
	if said != "holding 8589934592 bytes of simulated GPU 0" {
		t.Errorf("said %q", said)
	}
	if bytes, processes, _ := n.used(t); bytes != 8*gib || processes != 1 {
		t.Errorf("%d processes hold %d bytes", processes, bytes)
	}
	if refused, said := start("1"); said != "" || refused.Wait() == nil {
		t.Errorf("one byte more was given: %q", said)
	}
	holder.Process.Kill()
	holder.Wait()
	if bytes, _, _ := n.used(t); bytes != 0 {
		t.Errorf("%d bytes are left", bytes)
	}
}

var row = regexp.MustCompile(`(?m)^(?:SIM|FGPU)_ENTRY\((\w+), (\w+), (\d+), \w+\)`)

// What the fence knows of, this driver has, by the same names and from the same versions on; and it exports nothing
// else, whatever the version.
func TestEntries(t *testing.T) {
	read := func(file string) map[string]int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, m := range row.FindAllStringSubmatch(string(text), -1) {
			since, _ := strconv.Atoi(m[3])
			out[m[1]+" "+m[2]] = since
		}
		return out
	}
	ours, theirs := read("cuda_entries.def"), read("../abi/entries.def")
	if len(theirs) < 100 {
		t.Fatalf("only %d rows in abi/entries.def", len(theirs))
	}
	for name, since := range theirs {
		if got, there := ours[name]; !there || got != since {
			t.Errorf("%s since %d: here %d, %v", name, since, got, there)
		}
	}
	for _, version := range []int{99990, 11030} {
		dir := newNode(t).dir
		if version < 99990 {
			dir = t.TempDir()
			build := exec.Command("sh", "build.sh")
			build.Env = append(os.Environ(), "OUT="+dir, "SIM_CUDA="+strconv.Itoa(version))
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		want := map[string]bool{"fairsliceSimulated": true}
		for name, since := range ours {
			_, spelling, _ := strings.Cut(name, " ")
			if since <= version {
				want[spelling] = true
			}
		}
		got := map[string]bool{}
		for _, s := range symbols(t, filepath.Join(dir, CUDALibraryName)) {
			if s.Section != elf.SHN_UNDEF {
				got[s.Name] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("version %d: %d exports, want %d", version, len(got), len(want))
		}
	}
}

func symbols(t *testing.T, file string) []elf.Symbol {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The libraries are loaded in containers with C libraries as old as any in use.
func TestOldCLibraryIsEnough(t *testing.T) {
	dir := newNode(t).dir
	for _, name := range []string{CUDALibraryName, LibraryName} {
		for _, s := range symbols(t, filepath.Join(dir, name)) {
			var major, minor int
			if _, err := fmt.Sscanf(s.Version, "GLIBC_%d.%d", &major, &minor); err == nil && (major > 2 || minor > 17) {
				t.Errorf("%s needs %s of %s", name, s.Name, s.Version)
			}
		}
	}
}
