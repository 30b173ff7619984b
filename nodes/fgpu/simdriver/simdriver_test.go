package simdriver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const gib = 1 << 30

var specs = []struct {
	text  string
	count int
	bytes int64 // -1: not a spec
}{
	{"2x8GiB", 2, 8 * gib},
	{"2x8G", 2, 8 * gib},
	{"2X8gb", 2, 8 * gib},
	{"2x8192MiB", 2, 8 * gib},
	{"2x8192m", 2, 8 * gib},
	{"1x8191mB", 1, 8191 << 20},
	{"0x8GiB", 0, 8 * gib},
	{"64x1M", 64, 1 << 20},
	{"002x008G", 2, 8 * gib},
	{"1x16384GiB", 1, 16384 * gib},
	{"1x16777216MiB", 1, 16384 * gib},
	{"", 0, -1},
	{"2", 0, -1},
	{"2x", 0, -1},
	{"x8GiB", 0, -1},
	{"2x8", 0, -1},
	{"2x8GiBs", 0, -1},
	{"2x8Gi", 0, -1},
	{"2x8KiB", 0, -1},
	{"2x8TiB", 0, -1},
	{"2x8 GiB", 0, -1},
	{" 2x8GiB", 0, -1},
	{"2x8GiB\n", 0, -1},
	{"2x8.5GiB", 0, -1},
	{"2x-8GiB", 0, -1},
	{"-2x8GiB", 0, -1},
	{"+2x8GiB", 0, -1},
	{"2×8GiB", 0, -1},
	{"2x8GİB", 0, -1},
	{"2x0GiB", 0, -1},
	{"65x8GiB", 0, -1},
	{"1x16385GiB", 0, -1},
	{"1x16777217MiB", 0, -1},
	{"1x999999999GiB", 0, -1},
	{"1x0000000008GiB", 0, -1},
	{"1x9999999999GiB", 0, -1},
	{"18446744073709551618x8GiB", 0, -1},
	{"2x18446744073709551624GiB", 0, -1},
}

func TestParseSpec(t *testing.T) {
	for _, c := range specs {
		count, size, err := ParseSpec(c.text)
		if c.bytes < 0 {
			if err == nil || !strings.Contains(err.Error(), "2x8GiB") {
				t.Errorf("ParseSpec(%q) = %d, %d, %v: want an error that shows how", c.text, count, size, err)
			}
		} else if err != nil || count != c.count || size != c.bytes {
			t.Errorf("ParseSpec(%q) = %d, %d, %v: want %d, %d", c.text, count, size, err, c.count, c.bytes)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, c := range specs {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		count, size, err := ParseSpec(s)
		if err != nil {
			return
		}
		if count < 0 || count > maxGPUs || size < 1<<20 || size > maxMiB<<20 || size%(1<<20) != 0 {
			t.Fatalf("%q gave %d, %d", s, count, size)
		}
		again := fmt.Sprintf("%dx%dMiB", count, size>>20)
		if c2, s2, err := ParseSpec(again); err != nil || c2 != count || s2 != size {
			t.Fatalf("%q reads as %q, which reads as %d, %d, %v", s, again, c2, s2, err)
		}
	})
}

// The driver and ParseSpec must never disagree: a node would announce what its driver refuses.
func TestDriverReadsTheSameGrammar(t *testing.T) {
	program := filepath.Join(t.TempDir(), "parse")
	out, err := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover",
		"-o", program, "testdata/parse.c", "spec.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	var texts []string
	for _, c := range specs {
		texts = append(texts, c.text)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	count := []string{"0", "1", "08", "64", "65", "99999999", "1000000000"}
	size := []string{"0", "1", "8", "1024", "16384", "16385", "16777216", "16777217", "999999999", "1000000000"}
	unit := []string{"G", "g", "Gb", "gB", "GiB", "gIb", "M", "m", "MB", "mb", "MiB", "Mi", "K", "T", ""}
	for range 20000 {
		s := one(count...) + one("x", "X") + one(size...) + one(unit...)
		if at := rng.IntN(2 * len(s)); at < len(s) { // half of them get a blow
			s = s[:at] + one(" ", "-", ".", "é", "\n", "0", "x", "B", "") + s[at+rng.IntN(2):]
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
		want := "no"
		if count, size, err := ParseSpec(text); err == nil {
			want = fmt.Sprint(count, " ", size)
			accepted++
		}
		if lines[i] != want {
			t.Errorf("%q: the driver says %q, ParseSpec %q", text, lines[i], want)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d texts were accepted: the table is too weak", accepted)
	}
}

func TestEnv(t *testing.T) {
	got, err := Env("2x8GiB", "n1")
	if want := []string{"FAIRSLICE_SIM_GPUS=2x8GiB", "FAIRSLICE_SIM_NODE=n1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range [][2]string{{"8GiB", "n1"}, {"2x8GiB", ""}, {"2x8GiB", "a\x00b"}} {
		if got, err := Env(bad[0], bad[1]); err == nil {
			t.Errorf("Env(%q) = %q", bad, got)
		}
	}
}

func TestBuildReplacesTheLibrary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	for range 2 {
		if err := Build(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(Files()) || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == CUDALibraryName }) {
			t.Fatalf("in the folder: %v, %v", entries, err)
		}
	}
}

func TestBuildSaysWhatIsMissing(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	if err := Build(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "C compiler") {
		t.Errorf("got %v", err)
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	if err := SetProcesses(dir, 3, []Process{{PID: 7, Bytes: 5, SMPercent: 9}, {PID: 8}}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "gpu3")); err != nil || !bytes.Equal(got, []byte("7 5 9\n8 0 0\n")) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []Process{{}, {PID: 1, Bytes: -1}, {PID: 1, SMPercent: 101}} {
		if err := SetProcesses(dir, 3, []Process{bad}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	for _, lost := range []bool{true, true, false, false} {
		if err := SetLost(dir, 3, lost); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "gpu3.lost")); (err == nil) != lost {
			t.Errorf("after SetLost(%v): %v", lost, err)
		}
	}
}
