package mps

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParsePids(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []int // nil with no error: none
		bad        bool
	}{
		{"no server", "", nil, false},
		{"one", "4711\n", []int{4711}, false},
		{"several", "1\n22\n333\n", []int{1, 22, 333}, false},
		{"without a last line end", "1\n22", []int{1, 22}, false},
		{"with carriage returns and empty lines", "1\r\n\r\n22\r\n", []int{1, 22}, false},
		{"a message", "Cannot find MPS control daemon process\n", nil, true},
		{"a message behind a process id", "4711 is not a server\n", nil, true},
		{"zero", "0\n", nil, true},
		{"less", "-1\n", nil, true},
		{"a sign", "+1\n", nil, true},
		{"more than a process id can be", "2147483648\n", nil, true},
	} {
		got, err := ParsePids(c.text)
		if (err != nil) != c.bad || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]Status{"ACTIVE\n": StatusActive, "FAULT\n": StatusFault, " INITIALIZING": StatusInitializing,
		"": "", "active": "", "ACTIVE FAULT": "", "Server 5 not found": ""} {
		if got, err := ParseStatus(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

func TestParsePercentage(t *testing.T) {
	for text, want := range map[string]float64{"100.0\n": 100, "25": 25, "12.50": 12.5, "0.0": 0,
		"": -1, "101": -1, "-1": -1, "1e1": -1, "NaN": -1, "0x10": -1, "25 %": -1, ".": -1, "1_0": -1} {
		got, err := ParsePercentage(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func FuzzParsePids(f *testing.F) {
	for _, s := range []string{"", "1\n22\n", "x", "-1", "99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pids, err := ParsePids(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, pid := range pids {
			if pid <= 0 {
				t.Fatalf("%q gave %v", text, pids)
			}
			fmt.Fprintln(&again, pid)
		}
		if second, err := ParsePids(again.String()); err != nil || !slices.Equal(second, pids) {
			t.Fatalf("%q gave %v, which reads as %v, %v", text, pids, second, err)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add("ACTIVE\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseStatus(text); err == nil && !strings.Contains(text, string(s)) {
			t.Fatalf("%q is %q", text, s)
		}
	})
}

func FuzzParsePercentage(f *testing.F) {
	for _, s := range []string{"100.0", "25", "1e5", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePercentage(text); err == nil && !(p >= 0 && p <= 100) {
			t.Fatalf("%q is %v", text, p)
		}
	})
}
