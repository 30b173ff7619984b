package bsub

import (
	"strings"
	"testing"
)

func TestEnvironmentOfBsub(t *testing.T) {
	got, err := Build([]string{"x"}, input("", nil, "LSB_DEFAULTQUEUE=night", "LSB_DEFAULTPROJECT=p", "BSUB_QUIET=1"))
	if err != nil || got.Spec.Queue != "night" || got.Spec.Project != "p" || !got.Quiet || !got.DefaultQueue {
		t.Errorf("%v %s", err, asJSON(got))
	}
	for args, good := range map[string]bool{"-q|anything|-R|select[mem=1]": true, "-R|select[abc=abc]": false, "-R|rusage[mem=": false} {
		in := input("", nil, "BSUB_CHK_RESREQ=1")
		in.Stdin = func() ([]byte, error) { t.Error("standard input was read"); return nil, nil }
		got, err := Build(strings.Split(args, "|"), in)
		if (err == nil) != good || good && !got.CheckOnly {
			t.Errorf("BSUB_CHK_RESREQ %s: %v", args, err)
		}
	}
}

func TestEnvironmentOfTheJob(t *testing.T) {
	big := "BIG=" + strings.Repeat("x", 1<<20)
	env := []string{"A=1", "B=2", "LSB_JOBID=7", "LSB_JOBINDEX=3", "LS_SUBCWD=/x", "LSB_DEFAULTQUEUE=q", big}
	for _, tc := range []struct {
		why  string
		args []string
		want []string
	}{
		{"all but what an outer job was told", []string{"x"}, []string{"A=1", "B=2", "LSB_DEFAULTQUEUE=q", big}},
		{"none, then one: psij", []string{"-env", "none", "-env", "C=3", "x"}, []string{"C=3"}},
		{"none", []string{"-env", "none", "x"}, nil},
		{"all but, and more", []string{"-env", "all, ~BIG, C=3", "x"}, []string{"A=1", "B=2", "C=3", "LSB_DEFAULTQUEUE=q"}},
	} {
		got, err := Build(tc.args, input("", nil, env...))
		if err != nil {
			t.Errorf("%s: %v", tc.why, err)
			continue
		}
		have := map[string]bool{}
		for _, kv := range got.Env {
			have[kv] = true
		}
		for _, kv := range tc.want {
			if !have[kv] {
				t.Errorf("%s: %.40s is missing", tc.why, kv)
			}
		}
		if len(got.Env) != len(tc.want) {
			t.Errorf("%s: %.300q", tc.why, got.Env)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	if s, err := Build([]string{"-h"}, Input{}); err != nil || !s.Help {
		t.Errorf("%v %v", s, err)
	}
	if s, err := Build([]string{"-V"}, Input{}); err != nil || !s.Version {
		t.Errorf("%v %v", s, err)
	}
	for _, page := range []string{Command.Help(), ModCommand.Help()} {
		for _, line := range strings.Split(page, "\n") {
			if len(line) > 90 { // examples may stand out
				t.Errorf("too wide: %q", line)
			}
		}
	}
}
