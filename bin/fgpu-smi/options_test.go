package main

import (
	"strings"
	"testing"
	"unicode"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"":                                  {minutes: 5},
		"--history":                         {history: true, minutes: 5},
		"--history --minutes 10 --json":     {history: true, json: true, minutes: 10},
		"--minutes=1 --history":             {history: true, minutes: 1},
		"--history --minutes 2 --minutes 3": {history: true, minutes: 3},
		"-L":                                {list: true, minutes: 5},
		"-L --json":                         {list: true, json: true, minutes: 5},
		"-h":                                {help: true, minutes: 5},
		"--version":                         {version: true, minutes: 5},
	} {
		got, err := parse(strings.Fields(line))
		if err != nil || got != want {
			t.Errorf("%q: %+v %v, want %+v", line, got, err, want)
		}
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for line, want := range map[string]string{
		"-q":                       `unknown option "-q": want one of --history, --minutes N, --json, -L`,
		"--loop 5":                 `unknown option "--loop"`,
		"gpu0":                     `unknown option "gpu0"`,
		"-":                        `unknown option "-"`,
		"--json=yes":               `unknown option "--json=yes"`,
		"--his":                    `unknown option "--his"`,
		"--history --minutes":      "--minutes needs a number from 1 to 10",
		"--history --minutes=":     `--minutes "": want a number from 1 to 10`,
		"--history --minutes 0":    `--minutes "0": want`,
		"--history --minutes 11":   `--minutes "11": want`,
		"--history --minutes +3":   `--minutes "+3": want`,
		"--history --minutes 2m":   `--minutes "2m": want`,
		"--history --minutes -L":   `--minutes "-L": want`,
		"--history --minutes 1e99": `--minutes "1e99": want`,
		"--minutes 3":              "--minutes is for --history",
		"-L --history":             "exclude each other",
	} {
		if got, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, want %q", line, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"", "--history\x00--minutes\x005", "-L\x00--json", "--minutes=9\x00--history", "\xff", "--minutes=\x00", "--json=\x1b[31m"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		o, err := parse(strings.Split(line, "\x00"))
		if err != nil {
			for _, r := range err.Error() {
				if unicode.IsControl(r) {
					t.Fatalf("the error for %q has the character %U", line, r)
				}
			}
			if o != (options{}) {
				t.Fatalf("%q: an error, and %+v", line, o)
			}
			return
		}
		if o.minutes < 1 || o.minutes > historyMinutes || o.list && o.history {
			t.Fatalf("%q: %+v", line, o)
		}
	})
}
