package simdriver

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What ParseMIG makes of texts for 4 GPUs of 16 GiB; "no" is a refusal.
var migTexts = []struct{ name, text, want string }{
	{"nothing is in MIG mode", "", "0000"},
	{"MIG mode without instances", "0:", "1000"},
	{"two halves", "0:3g.4gb,3g.4gb", "1000 0/1/0:3g.4gb:42:4 0/2/0:3g.4gb:42:4"},
	{"a count", "1:1g.1gb*2", "0100 1/1/0:1g.1gb:14:1 1/2/0:1g.1gb:14:1"},
	{"two GPUs, in any order", "2:7g.16gb;0:1g.2gb", "1010 2/1/0:7g.16gb:98:16 0/1/0:1g.2gb:14:2"},
	{"one of them undivided", "2:;0:1g.2gb", "1010 0/1/0:1g.2gb:14:2"},
	{"compute instances share a GPU instance", "0:1c.3g.8gb,2c.3g.8gb", "1000 0/1/0:1c.3g.8gb:14:8 0/1/1:2c.3g.8gb:28:8"},
	{"the next GPU instance begins where the first is full", "0:2c.3g.8gb*2", "1000 0/1/0:2c.3g.8gb:28:8 0/2/0:2c.3g.8gb:28:8"},
	{"other memory is another GPU instance", "0:1c.3g.8gb,1c.3g.4gb", "1000 0/1/0:1c.3g.8gb:14:8 0/2/0:1c.3g.4gb:14:4"},
	{"a whole instance takes no place in one that is shared", "0:1c.3g.4gb,3g.4gb", "1000 0/1/0:1c.3g.4gb:14:4 0/2/0:3g.4gb:42:4"},
	{"a compute instance that fills its GPU instance has its name", "0:3c.3g.4gb", "1000 0/1/0:3g.4gb:42:4"},
	{"too many slices", "0:4g.4gb*2", "no"},
	{"too much memory", "0:3g.9gb*2", "no"},
	{"too many", "0:1g.1gb*8", "no"},
	{"none", "0:1g.1gb*0", "no"},
	{"no such GPU", "4:1g.1gb", "no"},
	{"a GPU twice", "0:1g.1gb;0:1g.1gb", "no"},
	{"no GPU", "1g.1gb", "no"},
	{"no slices", "0:0g.1gb", "no"},
	{"eight slices", "0:8g.1gb", "no"},
	{"no memory", "0:1g.0gb", "no"},
	{"no compute slices", "0:0c.1g.1gb", "no"},
	{"more compute slices than slices", "0:2c.1g.1gb", "no"},
	{"upper case", "0:1G.1GB", "no"},
	{"a space", "0:1g.1gb, 1g.1gb", "no"},
	{"an empty item", "0:1g.1gb,", "no"},
	{"an empty GPU", "0:1g.1gb;", "no"},
	{"an attribute that is not simulated", "0:1g.1gb+me", "no"},
	{"five digits", "0:1g.00001gb", "no"},
	{"more than fits a number", "99999999999999999999:", "no"},
}

func migString(m MIG, err error) string {
	if err != nil {
		return "no"
	}
	enabled := []byte("0000")
	for _, gpu := range m.GPUs {
		enabled[gpu] = '1'
	}
	text := string(enabled)
	for _, it := range m.Instances {
		text += fmt.Sprintf(" %d/%d/%d:%s:%d:%d", it.GPU, it.GPUInstance, it.ComputeInstance, it.Profile, it.SMs, it.Bytes>>30)
	}
	return text
}

func TestParseMIG(t *testing.T) {
	for _, c := range migTexts {
		m, err := ParseMIG(c.text, 4, 16*gib)
		if got := migString(m, err); got != c.want {
			t.Errorf("%s: %q gives %s, %v, want %s", c.name, c.text, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "0:3g.4gb,3g.4gb") {
			t.Errorf("%s: %v does not show how", c.name, err)
		}
	}
}

func FuzzParseMIG(f *testing.F) {
	for _, c := range migTexts {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMIG(text, 4, 16*gib)
		if err != nil {
			return
		}
		slices, memory := map[[2]int]int{}, map[[2]int]int64{} // by GPU instance
		for _, it := range m.Instances {
			key := [2]int{it.GPU, it.GPUInstance}
			slices[key] += it.SMs / migSliceSMs
			if before, seen := memory[key]; seen && before != it.Bytes {
				t.Fatalf("%q: GPU instance %v has %d and %d bytes", text, key, before, it.Bytes)
			}
			memory[key] = it.Bytes
		}
		for gpu := range 4 {
			var s int
			var b int64
			for key := range slices {
				if key[0] == gpu {
					s, b = s+slices[key], b+memory[key]
				}
			}
			if s > migSlices || b > 16*gib {
				t.Fatalf("%q: GPU %d has %d slices and %d bytes given out", text, gpu, s, b)
			}
		}
	})
}

// The driver and ParseMIG must never disagree: a node would announce what its driver refuses.
func TestDriverReadsTheSameMIGGrammar(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mig")
	out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover",
		"-o", program, "testdata/mig.c", "mig.c", "spec.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	var texts []string
	for _, c := range migTexts {
		texts = append(texts, c.text)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	for range 20000 {
		var s string
		for g := range 1 + rng.IntN(2) {
			if g > 0 {
				s += ";"
			}
			s += one("0", "1", "3", "4", "01") + ":"
			for i := range rng.IntN(4) {
				if i > 0 {
					s += ","
				}
				s += one("", "", "1c.", "2c.", "0c.") + one("1", "2", "3", "4", "7", "8") + "g." + one("1", "2", "4", "8", "16", "17") + "gb" + one("", "", "*2", "*3", "*0", "*7")
			}
		}
		if at := rng.IntN(3 * (len(s) + 1)); at < len(s) { // a third of them get a blow
			s = s[:at] + one(" ", "-", ".", "é", "0", "g", ",", ";", "*", "") + s[at+rng.IntN(2):]
		}
		texts = append(texts, s)
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\x00") + "\x00")
	answers, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(answers), "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(lines), len(texts))
	}
	accepted := 0
	for i, text := range texts {
		m, err := ParseMIG(text, 4, 16*gib)
		want := migString(m, err)
		if err == nil {
			accepted++
		}
		if lines[i] != want {
			t.Errorf("%q: the driver says %q, ParseMIG %q, %v", text, lines[i], want, err)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d texts were accepted: the table is too weak", accepted)
	}
}
