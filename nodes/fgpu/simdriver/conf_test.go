package simdriver

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var confs = []struct {
	text string
	ok   bool
}{
	{"FAIRSLICE_SIM_GPUS=2x8GiB\n", true},
	{"FAIRSLICE_SIM_GPUS=2x8GiB", true},
	{"# a comment = nothing\n\nFAIRSLICE_SIM_NODE=a b=c\nFAIRSLICE_SIM_GPUS=0x1M\n\n", true},
	{"FAIRSLICE_SIM_GPUS=1x8G\nFAIRSLICE_SIM_STATE=/x\nFAIRSLICE_SIM_MIG=anything\nFAIRSLICE_SIM_CONTEXT=0\nFAIRSLICE_SIM_BLOCK=1\nFAIRSLICE_SIM_CUDA=11030\n", true},
	{"FAIRSLICE_SIM_GPUS=1x8G\nFAIRSLICE_SIM_CONTEXT=0M\nFAIRSLICE_SIM_BLOCK=999999999\n", true},
	{"", false},
	{"\n", false},
	{"#FAIRSLICE_SIM_GPUS=2x8GiB\n", false},
	{" FAIRSLICE_SIM_GPUS=2x8GiB\n", false},
	{"FAIRSLICE_SIM_GPUS =2x8GiB\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB \n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\r\n", false},
	{"FAIRSLICE_SIM_GPUS\n", false},
	{"FAIRSLICE_SIM_GPUS=\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_GPUS=2x8GiB\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_NODE=\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_NODE=n\tx\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_NODE=é\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_OTHER=1\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nanything\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_STATE=relative\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_CONTEXT=64\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_CONTEXT=16385G\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_BLOCK=0\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_BLOCK=1e5\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_BLOCK=1000000000\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_CUDA=13005\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_CUDA=8000\n", false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_NODE=" + strings.Repeat("x", 4095), true},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\nFAIRSLICE_SIM_NODE=" + strings.Repeat("x", 4096), false},
	{"FAIRSLICE_SIM_GPUS=2x8GiB\n" + strings.Repeat("#\n", 32<<10), false},
}

func TestParseConf(t *testing.T) {
	for _, c := range confs {
		if got, err := ParseConf([]byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%.80q: %+v, %v", c.text, got, err)
		}
	}
}

func FuzzParseConf(f *testing.F) {
	for _, c := range confs {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConf([]byte(text))
		if err != nil {
			return
		}
		if again, err := ParseConf([]byte(c.String())); err != nil || again != c {
			t.Fatalf("%q reads as %+v, written and read again as %+v, %v", text, c, again, err)
		}
	})
}

// The driver and ParseConf must never disagree.
func TestDriverReadsTheSameConf(t *testing.T) {
	program := filepath.Join(t.TempDir(), "parseconf")
	if err := compile(program, "-fsanitize=undefined", "-fno-sanitize-recover", "testdata/parseconf.c", "conf.c", "spec.c"); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range confs {
		texts = append(texts, c.text)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5000 { // lines of the table, mixed, and half of them with a blow
		var lines []string
		for range rng.IntN(6) {
			some := strings.Split(confs[rng.IntN(len(confs)-3)].text, "\n")
			lines = append(lines, some[rng.IntN(len(some))])
		}
		s := "FAIRSLICE_SIM_GPUS=2x8GiB\n" + strings.Join(lines, "\n")
		if at := rng.IntN(2 * len(s)); at < len(s) {
			s = s[:at] + []string{"", "=", "\n", "#", "\x7f", "0"}[rng.IntN(6)] + s[at+rng.IntN(2):]
		}
		texts = append(texts, s)
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\x00") + "\x00")
	answers, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(answers)), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(lines), len(texts))
	}
	accepted := 0
	for i, text := range texts {
		c, err := ParseConf([]byte(text))
		if err != nil {
			if !strings.HasPrefix(lines[i], "no ") {
				t.Errorf("%.200q: the driver says %q, ParseConf %v", text, lines[i], err)
			}
			continue
		}
		accepted++
		want := "ok|" + strings.Join([]string{c.GPUs, c.Node, c.State, c.MIG, c.Context, c.Block, c.CUDA}, "|") + "|"
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("%.200q: the driver says %q, ParseConf %q", text, lines[i], want)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d texts were accepted: the table is too weak", accepted)
	}
}

// With the file beside the libraries, a job's environment changes nothing, and an empty one lacks nothing.
func TestConfFileWins(t *testing.T) {
	n := newNode(t)
	libs, state := t.TempDir(), t.TempDir()
	for _, name := range []string{CUDALibraryName, LibraryName} {
		text, err := os.ReadFile(filepath.Join(n.dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(libs, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := WriteConf(libs, "1x512MiB", "n1", state); err != nil {
			t.Fatal(err)
		}
	}
	want := "5bad Fairslice Simulated GPU 512MiB 536870912"
	for _, env := range [][]string{n.env, nil} {
		m := node{dir: n.dir, state: state, env: append(env[:len(env):len(env)], "LD_LIBRARY_PATH="+libs)}
		if got := m.run(t, "devices"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if bytes, _, _ := m.used(t); bytes != 0 {
			t.Errorf("used %d", bytes)
		}
	}
	if _, err := os.Stat(filepath.Join(n.state, "ledger")); err == nil {
		t.Error("the environment's state was used")
	}
	if err := os.WriteFile(filepath.Join(libs, ConfName), []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := node{dir: n.dir, env: append(n.env[:len(n.env):len(n.env)], "LD_LIBRARY_PATH="+libs)}
	cmd := m.command(t, "devices")
	var said strings.Builder
	cmd.Stderr = &said
	if out, err := cmd.Output(); err != nil || string(out) != "CUDA_ERROR_INVALID_VALUE\n" || !strings.Contains(said.String(), "simulated.conf, line 1: want NAME=value") {
		t.Errorf("got %q, %v, %q", out, err, said.String())
	}
}

func TestWriteConfRefusesWhatTheDriverWould(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range [][3]string{{"8GiB", "n1", ""}, {"1x8GiB", "n\n1", ""}, {"1x8GiB", "n1", "relative"}, {"1x8GiB", "", "/x\nFAIRSLICE_SIM_NODE=n2"}} {
		if err := WriteConf(dir, bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%q was written", bad)
		}
	}
	if err := WriteConf(dir, "1x8GiB", "n1", "", func(c *Conf) { c.MIG = "7:1g.1gb" }); err == nil {
		t.Error("a MIG instance of a GPU that is not there was written")
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left %v", list)
	}
	if err := WriteConf(filepath.Join(dir, "missing"), "1x8GiB", "n1", ""); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", "n1")) {
		t.Errorf("got %v", err)
	}
}
