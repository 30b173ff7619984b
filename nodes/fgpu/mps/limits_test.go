package mps

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The simulated driver reads limits from a job's environment: whatever is there, it must refuse what is no limit.
func TestSimulatedDriverReadsLimits(t *testing.T) {
	program := filepath.Join(t.TempDir(), "limits")
	out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover",
		"-o", program, "testdata/limits.c", "../simdriver/mps_limits.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	run := func(texts []string) []string {
		t.Helper()
		cmd := exec.Command(program)
		cmd.Stdin = strings.NewReader(strings.Join(texts, "\x00") + "\x00")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(lines) != len(texts) {
			t.Fatalf("%d answers to %d texts: %s", len(lines), len(texts), out)
		}
		return lines
	}
	long := "GPU-" + strings.Repeat("5", 43)
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint(i, "=1M")
	}
	cases := [][2]string{
		{"%25", "2500"}, {"%12.5", "1250"}, {"%100.0", "10000"}, {"%0.01", "1"}, {"%33.339", "3333"},
		{"%", "no"}, {"%0", "no"}, {"%0.00", "no"}, {"%100.01", "no"}, {"%101", "no"}, {"%-1", "no"}, {"%+1", "no"}, {"%25%", "no"},
		{"%2 5", "no"}, {"%.5", "no"}, {"%5.", "no"}, {"%1e1", "no"}, {"%nan", "no"}, {"%99999999999999999999", "no"},
		{"M2G", "2048"}, {"M2GB", "2048"}, {"M512M", "512"}, {"M512MB", "512"}, {"M0M", "0"}, {"M999999999G", "1023999998976"},
		{"M2", "no"}, {"MG", "no"}, {"M2g", "no"}, {"M2T", "no"}, {"M-2G", "no"}, {"M2.5G", "no"}, {"M2 G", "no"}, {"M1000000000M", "no"}, {"M", "no"},
		{"L0=2G", "0=2048"}, {"L0=2G,1=512MB", "0=2048 1=512"}, {"L0=2G,0=1G", "0=1024"}, {"LGPU-5b=1M", "GPU-5b=1"}, {"L" + long + "=1M", long + "=1"},
		{"L", "no"}, {"L0", "no"}, {"L0=", "no"}, {"L=2G", "no"}, {"L0=2G,", "no"}, {"L,0=2G", "no"}, {"L0=2G;1=2G", "no"}, {"L0=1G,1", "no"},
		{"L" + long + "5=1M", "no"}, {"L" + strings.Join(many, ","), "no"}, {"L0=" + strings.Repeat("1", 100) + "G", "no"},
	}
	var texts []string
	for _, c := range cases {
		texts = append(texts, c[0])
	}
	for i, got := range run(texts) {
		if got != cases[i][1] {
			t.Errorf("%.60q: got %s, want %s", cases[i][0], got, cases[i][1])
		}
	}

	// What is accepted is of the grammar, as this expression has it.
	grammar := regexp.MustCompile(`^(%\d{1,3}(\.\d{1,9})?|M\d{1,9}[GM]B?|L([^=,]{1,47}=\d{1,9}[GM]B?)(,[^=,]{1,47}=\d{1,9}[GM]B?)*)$`)
	rng := rand.New(rand.NewPCG(5, 6))
	texts = nil
	for range 20000 {
		s := cases[rng.IntN(len(cases))][0]
		for range rng.IntN(3) {
			at := rng.IntN(len(s))
			s = s[:at] + []string{"=", ",", "G", "1", ".", "é", "\n", ""}[rng.IntN(8)] + s[at+rng.IntN(2):]
			if s == "" {
				s = "M"
			}
		}
		texts = append(texts, strings.ReplaceAll(s, "\n", " "))
	}
	accepted := 0
	for i, got := range run(texts) {
		if got == "no" {
			continue
		}
		accepted++
		if !grammar.MatchString(texts[i]) {
			t.Errorf("%q was read as %s", texts[i], got)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d texts were accepted: the table is too weak", accepted)
	}
}
