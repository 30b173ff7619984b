package nvml

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairslice/nodes/fgpu/simdriver"
)

const gib = 1 << 30

var driverDir string // of the simulated driver

// The UUIDs of "2x8GiB" on node n1.
var golden = []string{"GPU-5badd04f-0495-89a9-a3e2-bcfb703d9f3e", "GPU-0ca26b6a-3a4f-875e-89dc-037ba53f7b33"}

// A process is bound to the first library it loads, so a test that needs another one runs this
// binary again: with childVar set, it opens that path and prints a report.
const childVar = "NVML_TEST_CHILD"

type report struct {
	Devices   []Device
	Usage     Usage
	Processes string // or why not
	Lack      string // see lackOf
	NoDriver  bool
	Err       string
}

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(childVar); ok {
		json.NewEncoder(os.Stdout).Encode(look(path))
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if driverDir, err = os.MkdirTemp("", "nvml-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(driverDir)
	cmd := exec.Command("sh", "../fgpu/simdriver/build.sh")
	cmd.Env = append(os.Environ(), "OUT="+driverDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the simulated driver: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func look(path string) (r report) {
	l, err := Open(path)
	if err != nil {
		return report{NoDriver: errors.Is(err, ErrNoDriver), Err: err.Error()}
	}
	defer l.Close()
	if r.Devices, err = l.Devices(); err != nil {
		r.Err = err.Error()
	}
	for _, d := range r.Devices {
		if r.Usage, err = l.Usage(d.UUID); err != nil {
			r.Err = err.Error()
		}
		p, err := l.Processes(d.UUID)
		r.Processes = fmt.Sprint(p)
		if err != nil {
			r.Processes = err.Error()
		}
		r.Lack = lackOf(l, d.UUID)
	}
	return r
}

// child runs look(path) in a process of its own. A process that the loader ended gives no report.
func child(t *testing.T, path string, env ...string) report {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childVar+"="+path), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return r
}

func node(t *testing.T, spec, name string) (stateDir string) {
	stateDir = t.TempDir()
	t.Setenv(simdriver.GPUsVar, spec)
	t.Setenv(simdriver.NodeVar, name)
	t.Setenv(simdriver.StateVar, stateDir)
	return stateDir
}

func open(t *testing.T) *Library {
	t.Helper()
	l, err := Open(driverDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func devices(t *testing.T, l *Library) []Device {
	t.Helper()
	list, err := l.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDevices(t *testing.T) {
	node(t, "2x8GiB", "n1")
	want := Device{
		UUID: golden[0], Name: "Fairslice Simulated GPU 8GiB", Memory: 8 * gib, ComputeMode: ComputeDefault,
		ComputeCapability: "9.0", SMs: 100, PCIBusID: "00000000:01:00.0", DriverVersion: "simulated-1.0", Simulated: true,
	}
	got := devices(t, open(t))
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	want.Index, want.MinorNumber, want.UUID, want.PCIBusID = 1, 1, golden[1], "00000000:02:00.0"
	if got[1] != want {
		t.Errorf("got %+v, want %+v", got[1], want)
	}
}

func TestUUIDs(t *testing.T) {
	form := regexp.MustCompile(`^GPU-[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	list := func(spec, name string) (uuids []string) {
		t.Run(spec+" "+name, func(t *testing.T) {
			node(t, spec, name)
			for _, d := range devices(t, open(t)) {
				uuids = append(uuids, d.UUID)
			}
		})
		return uuids
	}
	seen := map[string]string{}
	for i := range 20 {
		name := fmt.Sprint("n", i)
		for _, uuid := range list("64x1GiB", name) {
			if !form.MatchString(uuid) {
				t.Errorf("%s is no UUID", uuid)
			}
			if seen[uuid] != "" {
				t.Errorf("%s on %s and %s", uuid, seen[uuid], name)
			}
			seen[uuid] = name
		}
	}
	// What a node registered under must be its name after every upgrade.
	if got := list("2x8GiB", "n1"); !slices.Equal(got, golden) {
		t.Errorf("got %q, want %q", got, golden)
	}
}

func TestNoGPUs(t *testing.T) {
	node(t, "0x8GiB", "n1")
	if got := devices(t, open(t)); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBadSettingsSayWhatIsAllowed(t *testing.T) {
	for _, spec := range []string{"", "2", "8GiB", "2x8", "2x0GiB", "65x8GiB", "2x99999999999999999999GiB", strings.Repeat("9", 1<<16)} {
		node(t, spec, "n1")
		_, err := Open(driverDir)
		if err == nil || errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "FAIRSLICE_SIM_GPUS must be COUNTxSIZE, such as 2x8GiB") {
			t.Errorf("%.40q: got %v", spec, err)
		}
	}
	node(t, "1x1GiB", "n1") // and the failures are forgotten
	if got := devices(t, open(t)); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestMissingLibraryIsNoDriver(t *testing.T) {
	empty := t.TempDir()
	for _, path := range []string{empty, filepath.Join(empty, "gone"), filepath.Join(empty, "gone", fileName)} {
		if _, err := Open(path); !errors.Is(err, ErrNoDriver) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestUsageAndProcesses(t *testing.T) {
	state := node(t, "2x8GiB", "n1")
	l := open(t)
	uuid := devices(t, l)[0].UUID
	check := func(when string, want Usage, wantProcesses ...Process) {
		t.Helper()
		if got, err := l.Usage(uuid); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", when, got, err, want)
		}
		got, err := l.Processes(uuid)
		slices.SortFunc(wantProcesses, func(a, b Process) int { return a.Pid - b.Pid })
		if err != nil || !slices.Equal(got, wantProcesses) {
			t.Errorf("%s: got %v, %v, want %v", when, got, err, wantProcesses)
		}
	}
	set := func(list ...simdriver.Process) {
		t.Helper()
		if err := simdriver.SetProcesses(state, 0, list); err != nil {
			t.Fatal(err)
		}
	}
	check("idle", Usage{})

	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Process.Kill()
	me, it := os.Getpid(), other.Process.Pid
	set(simdriver.Process{PID: me, Bytes: 2 * gib, SMPercent: 25}, simdriver.Process{PID: it, Bytes: gib, SMPercent: 30})
	check("two processes", Usage{3 * gib, 55, 27}, Process{me, 2 * gib}, Process{it, gib})

	other.Process.Kill()
	other.Wait()
	check("one killed", Usage{2 * gib, 25, 12}, Process{me, 2 * gib})

	set(simdriver.Process{PID: me, Bytes: 100 * gib, SMPercent: 100})
	check("more than there is", Usage{8 * gib, 100, 50}, Process{me, 8 * gib})

	if err := os.WriteFile(filepath.Join(state, "gpu0"), []byte("nonsense\n-1 5\n\n\xff\x00\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("a damaged ledger", Usage{})

	for _, ask := range []func(string) error{
		func(u string) error { _, err := l.Usage(u); return err },
		func(u string) error { _, err := l.Processes(u); return err },
	} {
		if err := ask("GPU-none"); err == nil || !strings.Contains(err.Error(), "GPU-none") {
			t.Errorf("an unknown GPU: %v", err)
		}
	}
}

func TestLostGPUHidesNoOther(t *testing.T) {
	state := node(t, "3x8GiB", "n1")
	l := open(t)
	before := devices(t, l)
	if err := simdriver.SetLost(state, 0, true); err != nil {
		t.Fatal(err)
	}
	got := devices(t, l)
	want := before[0]
	want.Lost, want.Problem = true, "GPU is lost (simulated): dmesg has its Xid"
	if len(got) != 3 || got[0] != want || got[1] != before[1] || got[2] != before[2] {
		t.Errorf("got %+v", got)
	}
	if _, err := l.Usage(before[0].UUID); !errors.Is(err, ErrLost) {
		t.Errorf("usage of the lost one: %v", err)
	}
	if _, err := l.Processes(before[0].UUID); !errors.Is(err, ErrLost) {
		t.Errorf("processes of the lost one: %v", err)
	}

	// One that never saw it well knows its place only, and still finds the others.
	fresh := open(t)
	if _, err := fresh.Usage(before[2].UUID); err != nil {
		t.Errorf("usage behind a lost one: %v", err)
	}
	got = devices(t, fresh)
	want = Device{MinorNumber: -1, DriverVersion: "simulated-1.0", Simulated: true, Lost: true, Problem: want.Problem}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}

	if err := simdriver.SetLost(state, 0, false); err != nil {
		t.Fatal(err)
	}
	if got := devices(t, l); !slices.Equal(got, before) {
		t.Errorf("after it came back: %+v", got)
	}
}

func TestClose(t *testing.T) {
	node(t, "1x1GiB", "n1")
	a, b := open(t), open(t)
	a.Close()
	a.Close()
	if _, err := a.Devices(); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := a.Usage("x"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := a.Processes("x"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	devices(t, b) // closing one leaves the other
}

func TestManyAtOnce(t *testing.T) {
	state := node(t, "4x8GiB", "n1")
	shared := open(t)
	uuid := devices(t, shared)[1].UUID
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				l, err := Open(driverDir)
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range []*Library{l, shared} {
					if _, err := l.Devices(); err != nil {
						t.Error(err)
					}
					if _, err := l.Usage(uuid); err != nil {
						t.Error(err)
					}
				}
				if err := simdriver.SetProcesses(state, 1, []simdriver.Process{{PID: os.Getpid(), Bytes: int64(i)}}); err != nil {
					t.Error(err)
				}
				l.Close()
			}
		})
	}
	wg.Wait()
}

func TestSecondLibraryIsRefused(t *testing.T) {
	node(t, "1x1GiB", "n1")
	open(t)
	copied := filepath.Join(t.TempDir(), fileName)
	text, err := os.ReadFile(filepath.Join(driverDir, fileName))
	if err == nil {
		err = os.WriteFile(copied, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(copied); err == nil || !strings.Contains(err.Error(), "only one") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultSearchFindsIt(t *testing.T) {
	node(t, "1x8704MiB", "n1")
	r := child(t, "", "LD_LIBRARY_PATH="+driverDir)
	if r.Err != "" || len(r.Devices) != 1 || r.Devices[0].Name != "Fairslice Simulated GPU 8704MiB" {
		t.Errorf("got %+v", r)
	}
}

// On a machine with a real driver this is the test of it.
func TestThisMachinesDriver(t *testing.T) {
	r := child(t, "")
	if r.NoDriver {
		return
	}
	if r.Err != "" {
		t.Fatal(r.Err)
	}
	for _, d := range r.Devices {
		if d.Lost || d.Simulated || d.UUID == "" || d.Memory <= 0 || d.SMs <= 0 || d.PCIBusID == "" || d.MinorNumber < 0 {
			t.Errorf("%+v", d)
		}
	}
	t.Logf("%+v", r)
}

func TestDriverThatLacksCallsDoesNotEndTheProcess(t *testing.T) {
	node(t, "1x8GiB", "n1")
	r := child(t, partial(t, "testdata/old-driver.map"))
	if r.Err != "" || len(r.Devices) != 1 || r.Devices[0].Memory != 8*gib || r.Devices[0].Lost {
		t.Errorf("got %+v", r)
	}
	if d := r.Devices[0]; d.MinorNumber != -1 || d.SMs != 0 || d.PCIBusID != "" || d.DriverVersion != "" {
		t.Errorf("facts from nowhere: %+v", d)
	}
	if (r.Usage != Usage{0, -1, -1}) || !strings.Contains(r.Processes, "Not Supported") {
		t.Errorf("got %+v", r)
	}
	if want := "true 0 <nil> true"; r.Lack != want {
		t.Errorf("it lacks %s, want %s", r.Lack, want)
	}
}

// The first version of the call fills a shorter struct than today's: read by today's, every second
// process would be nonsense.
func TestDriverWithTheFirstProcessList(t *testing.T) {
	state := node(t, "1x8GiB", "n1")
	first, second := os.Getpid(), os.Getppid()
	err := simdriver.SetProcesses(state, 0, []simdriver.Process{{PID: first, Bytes: 1 * gib}, {PID: second, Bytes: 2 * gib}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Process{{first, 1 * gib}, {second, 2 * gib}}
	slices.SortFunc(want, func(a, b Process) int { return a.Pid - b.Pid })
	r := child(t, partial(t, "testdata/v1-processes.map"))
	if r.Processes != fmt.Sprint(want) || r.Usage.MemoryUsed != 3*gib {
		t.Errorf("got %+v, want %v", r, want)
	}
}

func TestFileThatIsNoNVML(t *testing.T) {
	node(t, "1x8GiB", "n1")
	if r := child(t, partial(t, "testdata/no-nvml.map")); r.NoDriver || !strings.Contains(r.Err, "lacks nvmlErrorString") {
		t.Errorf("got %+v", r)
	}
	file := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(file, []byte("not ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := child(t, file); r.NoDriver || !strings.Contains(r.Err, "load "+file) {
		t.Errorf("got %+v", r)
	}
}

// partial builds the simulated driver with only the symbols of a linker's version script.
func partial(t *testing.T, script string) string {
	t.Helper()
	var sources []string
	for _, name := range []string{"nvml", "nvml_mig", "nvml_limits", "memory_limits", "mig", "conf", "ledger", "alive", "device_time", "spec"} {
		sources = append(sources, "../fgpu/simdriver/"+name+".c") // as in build.sh
	}
	lib := filepath.Join(t.TempDir(), fileName)
	args := append([]string{"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--version-script=" + script, "-o", lib}, sources...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return lib
}

func BenchmarkDevices(b *testing.B) {
	b.Setenv(simdriver.GPUsVar, "8x80GiB")
	l, err := Open(driverDir)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	start := time.Now()
	for b.Loop() {
		if _, err := l.Devices(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N)/8, "ns/GPU")
}
