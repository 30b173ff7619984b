package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixed is a region that does not change.
type fixed struct {
	info     fgpu.Info
	usage    []fgpu.DeviceUsage
	usageErr error
	history  map[int][]fgpu.Sample
}

func (f *fixed) Info() fgpu.Info                    { return f.info }
func (f *fixed) Usage() ([]fgpu.DeviceUsage, error) { return f.usage, f.usageErr }
func (f *fixed) History(device int) []fgpu.Sample   { return f.history[device] }
func (f *fixed) Close() error                       { return nil }

const second = uint64(time.Second)

// twoSlices is a job with a quarter of one GPU, which works, and a MIG instance that is lost.
func twoSlices() *fixed {
	f := &fixed{
		info: fgpu.Info{
			Job: "12[3]", Policy: fgpu.Hard, Frame: fgpu.DefaultFrame, Heartbeat: 99 * second,
			Devices: []fgpu.DeviceInfo{
				{Slice: nodes.Slice{UUID: "GPU-5f2a1c9e-0000-4000-8000-000000000001", Index: 0, Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeShim},
					Model: "Fairslice Simulated GPU 8GiB", Physical: 8 << 30, Untracked: 64 << 20, Driver: 1536 << 20, Utilization: 2130},
				{Slice: nodes.Slice{UUID: "MIG-77", Index: 3, Amount: 85, Memory: 3 << 30, SMShare: 4285, Mode: nodes.ModeMIG},
					Model: "NVIDIA H200 MIG 3g.71gb", Physical: 3 << 30, Lost: true},
			},
			Processes: []fgpu.Process{{PID: 4711, Device: 0, Bytes: 1024<<20 + 1}, {PID: 4712, Device: 0, Bytes: 512 << 20}},
		},
		usage:   []fgpu.DeviceUsage{{Held: 1472 << 20, Processes: 2, Contexts: 2, Denied: 3, Launches: 123456, Throttled: 12340 * time.Millisecond}, {}},
		history: map[int][]fgpu.Sample{},
	}
	for i := range 420 { // seven minutes: a ramp of use, then idle
		s := fgpu.Sample{Bytes: int64(i) * 4 << 20, Utilization: i * 6, Throttled: 100}
		if i >= 380 {
			s = fgpu.Sample{Bytes: 64 << 20}
		}
		f.history[0] = append(f.history[0], s)
	}
	return f
}

func here(r region) system {
	return system{
		getenv: func(string) string { return "" }, find: func(func(string) string) (string, error) { return "/slice", nil },
		open:    func(string) (region, error) { return r, nil },
		program: func(pid int) string { return map[int]string{4711: "python", 4712: "evil\x1b[2J\n|"}[pid] },
		now:     time.Date(2026, 3, 18, 3, 6, 7, 0, time.UTC), monotonic: 100 * second,
	}
}

func do(s system, line string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(strings.Fields(line), s, &o, &e)
	return code, o.String(), e.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s:\n%s", file, got)
	}
}

func TestListingsAreGolden(t *testing.T) {
	for name, line := range map[string]string{"table.txt": "", "list.txt": "-L", "state.json": "--json", "history.json": "--json --history --minutes 1", "history.txt": "--history"} {
		code, out, errs := do(here(twoSlices()), line)
		if code != shown || errs != "" {
			t.Errorf("%q: %d %q", line, code, errs)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(out)) {
			t.Errorf("%q: no JSON", line)
		}
		golden(t, name, out)
	}
}

// Whatever a process or a GPU is called, the table keeps its columns and the terminal its cursor.
func TestTheTableKeepsItsShape(t *testing.T) {
	for _, name := range []string{"", "python", strings.Repeat("x", 500), "日本語の名前", "a\x00b\xff\n", "\x1b[31m", "e\u0301\u202e"} {
		f := twoSlices()
		f.info.Job, f.info.Devices[0].Model, f.info.Devices[0].Slice.UUID = name, name, name
		f.info.Devices[0].Driver, f.usage[0].Held, f.usage[0].Launches = 1<<62, 1<<62, 1<<63
		s := here(f)
		s.program = func(int) string { return name }
		_, out, _ := do(s, "")
		for _, l := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			if utf8.RuneCountInString(l) != tableWidth+2 || strings.ContainsAny(l, "\x1b\x00\r") || !utf8.ValidString(l) {
				t.Errorf("%q: a line of %d characters: %q", name, utf8.RuneCountInString(l), l)
			}
		}
	}
}

func TestASimulatedGPUIsCalledSo(t *testing.T) {
	f := twoSlices()
	if _, out, _ := do(here(f), ""); !strings.Contains(out, "SIMULATED GPU") {
		t.Errorf("the table does not say it:\n%s", out)
	}
	f.info.Devices[0].Model = "NVIDIA H200"
	if _, out, _ := do(here(f), ""); strings.Contains(strings.ToLower(out), "simulated") {
		t.Errorf("a real one is called simulated:\n%s", out)
	}
	if _, out, _ := do(here(f), "--json"); strings.Contains(out, `"simulated": true`) {
		t.Errorf("a real one is called simulated:\n%s", out)
	}
}

func TestWhereNothingIsThere(t *testing.T) {
	missing := here(nil)
	missing.find = func(func(string) string) (string, error) { return "", fgpu.ErrNoSlice }
	gone := here(nil)
	gone.open = func(string) (region, error) { return nil, fmt.Errorf("%w: gone", fgpu.ErrNoSlice) }
	broken := here(nil)
	broken.open = func(string) (region, error) { return nil, errors.New("open the slice: not a slice file") }
	for name, c := range map[string]struct {
		s    system
		line string
		code int
		want string
	}{
		"no job with a slice": {missing, "", sliceless, "fgpu-smi: no slice of a GPU here"},
		"no slice file":       {gone, "--json", sliceless, "fgpu-smi: no slice of a GPU here"},
		"a damaged one":       {broken, "-L", failed, "fgpu-smi: open the slice: not a slice file"},
		"a wrong option":      {missing, "--loop 3", wrong, `fgpu-smi: unknown option "--loop": want one of`},
	} {
		if code, out, errs := do(c.s, c.line); code != c.code || out != "" || !strings.HasPrefix(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
	}
	// Help and version are for everybody.
	for _, line := range []string{"--help", "-V"} {
		if code, out, errs := do(missing, line); code != shown || out == "" || errs != "" {
			t.Errorf("%s: %d %q %q", line, code, out, errs)
		}
	}
}

func TestNotesSayWhatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fixed)
		want   string
	}{
		"never looked at":        {func(f *fixed) { f.info.Heartbeat = 0 }, "Note: noded has not looked yet"},
		"looked at long ago":     {func(f *fixed) { f.info.Heartbeat = 10 * second }, "Note: noded looked 1m30s ago"},
		"looked at just now":     {func(*fixed) {}, ""},
		"by another clock":       {func(f *fixed) { f.info.Heartbeat = 200 * second }, ""},
		"whose usage is another": {func(f *fixed) { f.usage, f.usageErr = nil, fmt.Errorf("usage: %w", fs.ErrPermission) }, "Note: what the job's processes hold may be read by its user only: memory is the driver's figure"},
		"whose usage is broken":  {func(f *fixed) { f.usage, f.usageErr = nil, fgpu.ErrScribbled }, "Note: " + fgpu.ErrScribbled.Error() + ": memory is the driver's figure"},
	} {
		f := twoSlices()
		c.change(f)
		code, out, _ := do(here(f), "")
		_, notes, _ := strings.Cut(out, "Note:")
		if code != shown || c.want == "" && notes != "" || !strings.Contains(out, c.want) {
			t.Errorf("a slice %s: %d\n%s", name, code, out)
		}
		if f.usageErr != nil && !strings.Contains(out, "1536 / 2048 MiB") {
			t.Errorf("a slice %s does not show the driver's figure:\n%s", name, out)
		}
	}
}

// The programs's two ends fit: what noded writes is what is shown.
func TestARealRegion(t *testing.T) {
	dir := t.TempDir()
	r, err := fgpu.Create(dir, fgpu.Spec{Job: "77", UID: os.Getuid(), GID: os.Getgid(), Frame: fgpu.DefaultFrame, Devices: []fgpu.Device{{
		Slice: nodes.Slice{UUID: "GPU-real", Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeShim}, Model: "Fairslice Simulated GPU 8GiB", Physical: 8 << 30}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.AddSample(0, fgpu.Sample{Bytes: 100 << 20, Utilization: 2000})
	r.Beat(fgpu.Monotonic())
	s := here(nil)
	s.find = func(func(string) string) (string, error) { return dir, nil }
	s.open = func(dir string) (region, error) { return fgpu.OpenReadOnly(dir) }
	s.monotonic = fgpu.Monotonic()
	code, out, errs := do(s, "--json --history")
	var got state
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != shown || errs != "" {
		t.Fatalf("%d %v %q\n%s", code, err, errs, out)
	}
	if len(got.GPUs) != 1 || got.Job != "77" || !got.Simulated || len(got.Notes) != 0 {
		t.Fatalf("%+v", got)
	}
	if g := got.GPUs[0]; g.UUID != "GPU-real" || g.MemoryLimit != 2<<30 || g.SMLimit != 25 || g.FGPU != 0.5 ||
		len(g.History) != 1 || g.History[0] != (sample{Memory: 100 << 20, SM: 20}) {
		t.Errorf("%+v", g)
	}
}

// --minutes shows so many seconds and no more, the newest; what a terminal cannot show is not sent to it.
func TestHistory(t *testing.T) {
	f := twoSlices()
	_, out, _ := do(here(f), "--history --minutes 2")
	if !strings.Contains(out, "-2m") || strings.Contains(out, "-7m") {
		t.Errorf("two minutes:\n%s", out)
	}
	if strings.ContainsFunc(out, func(r rune) bool { return r > 126 }) {
		t.Errorf("more than ASCII without a locale:\n%s", out)
	}
	s := here(f)
	s.getenv = func(string) string { return "C.UTF-8" }
	_, out, _ = do(s, "--history --minutes 10")
	if !strings.Contains(out, "-7m") || !strings.Contains(out, "█") {
		t.Errorf("all there is, as blocks:\n%s", out)
	}
	if !strings.Contains(out, "no history yet") || !strings.Contains(out, ", LOST") {
		t.Errorf("the second GPU is lost, and was never measured:\n%s", out)
	}
}

func TestUnicodeLocale(t *testing.T) {
	for env, want := range map[string]bool{"": false, "LANG=C": false, "LANG=en_US.UTF-8": true, "LANG=C.utf8": true,
		"LC_ALL=C LANG=en_US.UTF-8": false, "LC_CTYPE=de_DE.UTF-8 LANG=C": true} {
		got := unicodeLocale(func(name string) string {
			for _, pair := range strings.Fields(env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
}
