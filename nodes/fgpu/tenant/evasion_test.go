package tenant_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/simdriver"
	"fairslice/nodes/fgpu/tenant"
)

// refused says that a line tells of memory that was not given.
func refused(l tenant.Line) bool { return l.Has("CUDA_ERROR_OUT_OF_MEMORY") }

func TestEveryAddressOfAnEntryPointIsTheFences(t *testing.T) {
	for _, cuda := range []string{"11030", "11080", "12000", "12090", "13000"} {
		t.Run(cuda, func(t *testing.T) {
			m := machine(t, "FAIRSLICE_SIM_CUDA="+cuda)
			r := slice(t, m, 2*gib, 10_000)
			lines, err := m.Run(t.Context(), r.Dir(), "lookups", "variants")
			if err != nil {
				t.Error(err)
			}
			for _, way := range []string{"dlsym ", "dlsym-default", "dlsym-next", "deepbind", "dlmopen", "libc-dlsym", "libc-dlvsym", "gpa1"} {
				if l := find(t, lines, way); l.Number("fenced") == 0 {
					t.Errorf("%s: nothing is found that way", l)
				}
			}
		})
	}
}

// Without the fence everything is a leak: the test above can fail.
func TestLookupsFindTheDriverWithoutTheFence(t *testing.T) {
	m := machine(t)
	lines, err := m.Run(t.Context(), "", "lookups", "variants")
	if err == nil || tenant.Find(lines, "leak dlsym cuMemAlloc_v2") == "" || tenant.Find(lines, "leak gpa2 cuMemAlloc version 12000") == "" {
		t.Errorf("%v: %q", err, lines)
	}
}

func TestEveryWayToTheDriverEndsAtTheLimit(t *testing.T) {
	for _, via := range []string{"link", "dlsym", "default", "dlvsym", "libc", "deepbind", "dlmopen", "gpa1", "gpa2", "cudart"} {
		for _, streams := range []string{"legacy", "perthread"} {
			if via == "link" && streams == "perthread" {
				continue // a program is linked with one or the other
			}
			t.Run(via+" "+streams, func(t *testing.T) {
				m := machine(t)
				r := slice(t, m, gib, 10_000)
				program := tenant.Program
				if via == "link" {
					program = tenant.Linked
				}
				for _, family := range []string{"malloc", "async", "graph", "vmm"} {
					cmd := m.Other(t.Context(), program, r.Dir(), "via="+via, "streams="+streams, "fill", family, "launch", "10", "1")
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					lines := tenant.Lines(string(out))
					if l := find(t, lines, "fill"); l.Number("before") != gib-contextFee || l.Number("after") >= l.Number("granule") {
						t.Error(l)
					}
					if l := find(t, lines, "launch"); !l.Has("ok") {
						t.Error(l)
					}
				}
				if u := settle(t, r); u.Launches < 4*10 {
					t.Errorf("%d launches were counted: want at least 40", u.Launches)
				}
			})
		}
	}
}

func TestChildrenShareTheSlice(t *testing.T) {
	for _, how := range []string{"fork", "clone", "vfork"} {
		t.Run(how, func(t *testing.T) {
			m := machine(t)
			r := slice(t, m, gib, 10_000)
			// The child's context counts as well: 64 + 512 + 64 + 256 + 256 MiB are more than the limit.
			lines := do(t, m, r.Dir(), "alloc", "malloc", "512M", how, "alloc", "malloc", "256M", "alloc", "vmm", "256M")
			if l := find(t, lines, "alloc malloc 268435456"); !l.Has("ok") {
				t.Error(l)
			}
			if l := find(t, lines, "alloc vmm"); !refused(l) {
				t.Error(l)
			}
			if u := settle(t, r); u.Held != 0 {
				t.Errorf("after the last process: %+v", u)
			}
		})
	}
}

func TestWhatAChildHeldComesBackWhileItsParentLives(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	k := talk(t, m, r.Dir())
	if l := tell(t, k, "alloc malloc 512M"); !l.Has("ok") {
		t.Fatal(l)
	}
	for range 3 {
		if l := tell(t, k, "fork alloc malloc 256M"); !l.Has("ok") {
			t.Fatal(l)
		}
		if l, err := k.Hear(); err != nil || l != "fork exit 0" {
			t.Fatal(l, err)
		}
		// No sweep: whoever is at the limit looks for the dead by itself.
	}
	if u := settle(t, r); u.Held != 512*mib+contextFee {
		t.Errorf("%+v", u)
	}
}

func TestExecGivesBackWhatTheProgramBeforeHeld(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	lines := do(t, m, r.Dir(), "fill", "malloc", "exec", "fill", "malloc")
	var fills []tenant.Line
	for _, l := range lines {
		if strings.HasPrefix(string(l), "fill") {
			fills = append(fills, l)
		}
	}
	// The process id and its start time stay, and so does the slot: the new program must begin with an empty one.
	if len(fills) != 2 || fills[1].Number("total") != gib-contextFee {
		t.Errorf("%q", lines)
	}
}

func TestKilledInTheMiddleOfAnAllocation(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	if l := find(t, do(t, m, r.Dir(), "kill9", "60", "1"), "kill9"); l.Number("killed") != 60 {
		t.Error(l)
	}
	if u := settle(t, r); u.Held != 0 || u.Processes != 0 {
		t.Errorf("after the last process: %+v", u)
	}
	if sum, _ := ledger(t, m); sum != 0 {
		t.Errorf("the driver says %d bytes", sum)
	}
	if l := find(t, do(t, m, r.Dir(), "fill", "malloc"), "fill"); l.Number("total") != gib-contextFee {
		t.Error(l)
	}
}

func Test200ProcessesAttachAtOnce(t *testing.T) {
	m := machine(t, "FAIRSLICE_SIM_CONTEXT=1MiB")
	r := sliceOf(t, m, tenant.Slice{Memory: gib, Share: 10_000, Context: mib})
	l := find(t, do(t, m, r.Dir(), "spawn", "200", "1M"), "spawn")
	if l.Number("good") != 200 {
		t.Error(l)
	}
	t.Log(l)
	if u := settle(t, r); u.Held != 0 || u.Peak < 400*mib || u.Peak > gib {
		t.Errorf("%+v", u)
	}
}

func Test64ThreadsRaceAtTheLimit(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	// 64 threads want up to 16 times 16 MiB each: sixteen times what there is.
	l := find(t, do(t, m, r.Dir(), "threads", "64", "1000", "16M"), "threads")
	if l.Number("over") != 0 || l.Number("granted") == 0 {
		t.Error(l)
	}
	if l.Number("refused") == 0 {
		t.Errorf("nobody came to the limit: %s", l)
	}
	if u := settle(t, r); u.Held != 0 || u.Peak > gib {
		t.Errorf("%+v", u)
	}
}

func TestFreeOfWhatIsUnknownIsTheDriversAnswer(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	k := talk(t, m, r.Dir())
	if err := k.Say("free-unknown"); err != nil {
		t.Fatal(err)
	}
	for _, plain := range do(t, m, "", "free-unknown") {
		if fenced, err := k.Hear(); err != nil || fenced != plain {
			t.Errorf("fenced: %s (%v)\nunfenced: %s", fenced, err, plain)
		}
	}
	if u := settle(t, r); u.Held != contextFee {
		t.Errorf("%+v", u)
	}
}

// unprivileged lets a command run as nobody, so that file modes mean something.
func unprivileged(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a region for another user")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// foreign makes a region of nobody's.
func foreign(t *testing.T, m *tenant.Machine, memory int64) *fgpu.Region {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a region for another user")
	}
	r := slice(t, m, memory, 10_000)
	spec, err := r.Spec()
	if err != nil {
		t.Fatal(err)
	}
	spec.UID, spec.GID = 65534, 65534
	mine, err := fgpu.Create(filepath.Join(open(t), "region"), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mine.Close() })
	return mine
}

func TestATenantCannotRaiseItsLimit(t *testing.T) {
	m := machine(t)
	r := foreign(t, m, gib)
	cmd := m.Command(t.Context(), r.Dir(), "scribble", "ones", "truncate", "unlink")
	unprivileged(t, cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := tenant.Lines(string(out))
	for _, begins := range []string{"scribble slice", "truncate slice", "unlink slice", "unlink usage"} {
		if l := find(t, lines, begins); !strings.HasSuffix(string(l), "Permission denied") {
			t.Error(l)
		}
	}
}

// A tenant may write nonsense over its own accounting while it runs. It may then lose its memory or its
// life; but nothing it does shows it more than its limit, ends noded, or changes what the driver says, by which the watchdog decides.
func TestScribbledRegion(t *testing.T) {
	for _, how := range []string{"zero", "ones", "1", "2", "3"} {
		t.Run(how, func(t *testing.T) {
			m := machine(t)
			r := foreign(t, m, gib)
			cmd := m.Command(t.Context(), r.Dir(), "alloc", "malloc", "256M", "scribble", how, "info", "alloc", "malloc", "256M", "free", "all",
				"launch", "2", "1", "processes", "nvml")
			unprivileged(t, cmd)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			l := find(t, tenant.Lines(string(out)), "info memory")
			if l.Number("total") != gib || l.Number("free") < 0 || l.Number("free") > gib {
				t.Error(l)
			}
			// noded reads it without harm, whatever it says.
			_, sweepErr := r.Sweep(fgpu.Processes{}.Alive)
			if sweepErr != nil && !errors.Is(sweepErr, fgpu.ErrScribbled) {
				t.Error(sweepErr)
			}
			u, err := r.Usage()
			if err != nil && !errors.Is(err, fgpu.ErrScribbled) {
				t.Error(err)
			}
			for _, d := range u {
				if d.Held < 0 || d.Held > card {
					t.Errorf("%+v", d)
				}
			}
			// The next program finds a region that is none, and gets nothing; or one that is in order, and gets its limit.
			again := m.Command(t.Context(), r.Dir(), "alloc", "malloc", fmt.Sprint(gib-contextFee+1))
			unprivileged(t, again)
			out, err = again.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if l := find(t, tenant.Lines(string(out)), "alloc"); !refused(l) {
				t.Error(l)
			}
		})
	}
}

func TestDeletedRegion(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	lines := do(t, m, r.Dir(), "alloc", "malloc", "256M", "unlink", "fill", "malloc")
	if l := find(t, lines, "fill"); l.Number("total") != gib-contextFee-256*mib {
		t.Errorf("who has it mapped keeps its limit: %s", l)
	}
	if l := find(t, do(t, m, r.Dir(), "alloc", "malloc", "1"), "alloc"); !refused(l) {
		t.Errorf("who comes later gets nothing: %s", l)
	}
}

func TestTruncatedRegionUnderARunningProgram(t *testing.T) {
	m := machine(t)
	r := foreign(t, m, gib)
	cmd := m.Command(t.Context(), r.Dir(), "alloc", "malloc", "256M", "truncate", "alloc", "malloc", fmt.Sprint(gib))
	unprivileged(t, cmd)
	out, _ := cmd.CombinedOutput() // it may die of it: the kernel ends who reads a page that is gone
	if l := tenant.Find(tenant.Lines(string(out)), fmt.Sprint("alloc malloc ", gib)); l != "" && !refused(l) {
		t.Error(l)
	}
	if _, err := r.Usage(); !errors.Is(err, fgpu.ErrScribbled) {
		t.Errorf("noded reads it: %v", err)
	}
	if sum, _ := ledger(t, m); sum != 0 {
		t.Errorf("the driver says %d bytes", sum)
	}
}

func TestABadRegionGivesNothing(t *testing.T) {
	// Offsets of region.h: magic, version and size begin both files, and version is at 8.
	overwrite := func(name string, at int64, with ...byte) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.Chmod(path, 0o644); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(with, at)
			return errors.Join(err, f.Close())
		}
	}
	cut := func(name string) func(string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), 4096) }
	}
	owned := func(name string) func(string) error {
		return func(dir string) error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported
			}
			return os.Chown(filepath.Join(dir, name), 4242, 4242)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"slice of another version", overwrite(fgpu.SliceFile, 8, 99)},
		{"usage of another version", overwrite(fgpu.UsageFile, 8, 99)},
		{"slice of another kind", overwrite(fgpu.SliceFile, 0, 'X')},
		{"usage of another kind", overwrite(fgpu.UsageFile, 0, 'X')},
		{"slice cut", cut(fgpu.SliceFile)},
		{"usage cut", cut(fgpu.UsageFile)},
		{"slice of another owner", owned(fgpu.SliceFile)},
		{"no slice", func(dir string) error { return os.Remove(filepath.Join(dir, fgpu.SliceFile)) }},
		{"no usage", func(dir string) error { return os.Remove(filepath.Join(dir, fgpu.UsageFile)) }},
		{"no directory", os.RemoveAll},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t)
			r := slice(t, m, gib, 10_000)
			if err := c.spoil(r.Dir()); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("only root gives files away")
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			cmd := m.Command(t.Context(), r.Dir(), "alloc", "malloc", "1", "alloc", "vmm", "2M", "alloc", "graph", "2M", "alloc", "async", "1",
				"alloc", "managed", "1", "launch", "1", "1")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, stderr.String())
			}
			lines := tenant.Lines(string(out))
			if len(lines) != 6 {
				t.Errorf("%q", lines)
			}
			for _, l := range lines {
				if l.Has("ok") {
					t.Error(l)
				}
			}
			if n := strings.Count(stderr.String(), "\n"); n != 1 {
				t.Errorf("want one line that says why: %q", stderr.String())
			}
		})
	}
}

// A program that is linked statically and talks to the kernel's driver by itself is not reached by the shim. What it holds is
// seen all the same, by its process id: that is what the watchdog ends it for. sim-ioctl is such a one for the simulated driver.
func TestAProgramWithoutLibcudaIsSeenByTheDriver(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.Driver, "sim-ioctl"), fmt.Sprint(2*gib), "60")
	cmd.Env = append(m.Command(t.Context(), r.Dir()).Env, "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if l, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", l, err)
	}
	if u := settle(t, r); u.Held != 0 {
		t.Errorf("the shim saw it: %+v", u)
	}
	_, each := ledger(t, m)
	if got := each[cmd.Process.Pid]; got < 2*gib {
		t.Errorf("the driver says %d bytes", got)
	}
	watch(t, r, each, cmd.Process.Pid)
}

func TestAVersionThatTheDriverLacksIsMissing(t *testing.T) {
	m := machine(t, "FAIRSLICE_SIM_CUDA=11030")
	t.Setenv("SIM_CUDA", "11030") // and its libcuda exports nothing younger
	m.Driver = filepath.Join(open(t), "simdriver")
	if err := simdriver.Build(t.Context(), m.Driver); err != nil {
		t.Fatal(err)
	}
	r := slice(t, m, gib, 10_000)
	if _, err := m.Run(t.Context(), r.Dir(), "via=gpa2", "fill", "malloc"); err == nil {
		t.Error("cuGetProcAddress_v2 is found in CUDA 11.3")
	}
	lines := do(t, m, r.Dir(), "via=gpa1", "fill", "malloc", "free", "all", "fill", "async", "free", "all", "alloc", "graph", "2M")
	if l := find(t, lines, "fill malloc"); l.Number("total") != gib-contextFee {
		t.Error(l)
	}
	if l := find(t, lines, "alloc graph"); !l.Has("CUDA_ERROR_NOT_FOUND") {
		t.Errorf("graphs allocate since CUDA 11.4: %s", l)
	}
}

func TestGPUThatFallsOffTheBus(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	k := talk(t, m, r.Dir())
	if l := tell(t, k, "alloc malloc 1M"); !l.Has("ok") {
		t.Fatal(l)
	}
	var state string
	for _, v := range m.Env {
		if dir, ok := strings.CutPrefix(v, simdriver.StateVar+"="); ok {
			state = dir
		}
	}
	if err := simdriver.SetLost(state, 0, true); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"alloc malloc 1M", "launch 10 100", "nvml"} {
		if l := tell(t, k, command); l.Has("ok") || refused(l) || l.Has("memory") {
			t.Errorf("%s: %s", command, l)
		}
	}
	k.Kill()
	if u := settle(t, r); u.Held != 0 {
		t.Errorf("%+v", u)
	}
}

func TestCaptureIsNotGated(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 100) // one percent: of gated launches, what is launched in a millisecond passes in a frame
	k := talk(t, m, r.Dir())
	if l := tell(t, k, "capture 50000"); !l.Has("ok") {
		t.Fatal(l)
	}
	if l, err := k.Hear(); err != nil || !l.Has("ok") {
		t.Fatal(l, err)
	}
	u := settle(t, r)
	// The graph's launch may wait, for a frame; the 50000 that were only recorded may not.
	if u.Throttled > 5*fgpu.DefaultFrame || u.Launches < 50_000 {
		t.Errorf("%+v: want 50000 launches, the graph's", u)
	}
}

// A library that is bound to what it is linked with before all else goes past whatever is preloaded, unless the shim
// keeps it from being opened so. Either its allocation is refused, or the watchdog sees it.
func TestALibraryOpenedWithDeepbindIsFencedOrSeen(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	k := talk(t, m, r.Dir(), "via=plugin")
	l := tell(t, k, "alloc malloc 2G")
	_, each := ledger(t, m)
	switch {
	case refused(l) && each[k.PID()] <= gib:
	case l.Has("ok"):
		watch(t, r, each, k.PID())
	default:
		t.Errorf("%s, and the driver says %d bytes", l, each[k.PID()])
	}
}
