package bsub

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
)

func TestBuildMod(t *testing.T) {
	array := &queue.Array{Ranges: []queue.Range{{First: 1, Last: 9, Step: 1}}, Limit: 2}
	job := queue.Spec{
		Name: "a", Array: array, Command: "old", Queue: "q", RunLimit: time.Hour, Memory: gb, Depend: "done(1)",
		Limits: map[string]int64{"C": 0, "p": 5}, ResReq: "span[hosts=1]", Resources: queue.ResReq{OneHost: true}, Rerunnable: true, Hold: true,
	}
	for _, tc := range []struct {
		why  string
		args []string
		refs string
		want func(s *queue.Spec)
	}{
		{"values", []string{"-W", "2:00", "-M", "2GB", "12"}, "12", func(s *queue.Spec) { s.RunLimit, s.Memory = 2*time.Hour, 2*gb }},
		{"taken back", []string{"-Wn", "-Mn", "-wn", "-qn", "-Rn", "-Hn", "12", "13"}, "12 13", func(s *queue.Spec) {
			s.RunLimit, s.Memory, s.Depend, s.Queue, s.ResReq, s.Resources, s.Hold = 0, 0, "", "", "", queue.ResReq{}, false
		}},
		{"options after the job", []string{"12", "-rn"}, "12", func(s *queue.Spec) { s.Rerunnable = false }},
		{"canu names a job in a condition", []string{"-w", "done(7)", "12"}, "12", func(s *queue.Spec) { s.Depend = "done(7)" }},
		{"elements at once", []string{"-J", "%5", "12"}, "12", func(s *queue.Spec) {
			s.Array = &queue.Array{Ranges: array.Ranges, Limit: 5}
		}},
		{"any number at once", []string{"-J", "%0", "12"}, "12", func(s *queue.Spec) { s.Array = &queue.Array{Ranges: array.Ranges} }},
		{"a new name keeps the array", []string{"-J", "b", "12"}, "12", func(s *queue.Spec) { s.Name = "b" }},
		{"one limit of several", []string{"-pn", "12"}, "12", func(s *queue.Spec) { s.Limits = map[string]int64{"C": 0} }},
		{"another limit", []string{"-T", "7", "12"}, "12", func(s *queue.Spec) { s.Limits = map[string]int64{"C": 0, "p": 5, "T": 7} }},
		{"-R replaces", []string{"-R", "rusage[mem=1GB]", "12"}, "12", func(s *queue.Spec) {
			s.ResReq, s.Resources = "rusage[mem=1GB]", queue.ResReq{Memory: gb}
		}},
		{"the command", []string{"-Z", "new  one", "12"}, "12", func(s *queue.Spec) { s.Command = "new  one" }},
	} {
		m, err := BuildMod(tc.args, input("", nil))
		if err != nil {
			t.Errorf("%s: %v", tc.why, err)
			continue
		}
		got, want, before := job, job, asJSON(job)
		tc.want(&want)
		if err := Apply(&got, m.Options, input("", nil)); err != nil {
			t.Errorf("%s: %v", tc.why, err)
		}
		want.Resources.MemoryScope = got.Resources.MemoryScope
		if !reflect.DeepEqual(got, want) || strings.Join(m.Refs, " ") != tc.refs {
			t.Errorf("%s:\n got %s\nwant %s", tc.why, asJSON(got), asJSON(want))
		}
		if asJSON(job) != before {
			t.Fatalf("%s: the job that was copied has changed", tc.why)
		}
	}
	if m, err := BuildMod([]string{"-Z", "echo a", "1"}, input("", nil)); err != nil || string(m.Script) != "echo a\n" {
		t.Errorf("-Z: %v %v", m, err)
	}
}

func TestBuildModRefuses(t *testing.T) {
	for _, tc := range []struct {
		why  string
		args []string
		want string
	}{
		{"no job", []string{"-W", "5"}, "Job ID must be specified. Job not modified."},
		{"no option", []string{"5"}, "No change is specified"},
		{"not to be changed", []string{"-Is", "5"}, `"-Is": unknown option`},
		{"the list of an array", []string{"-J", "a[1-3]", "5"}, "cannot be changed"},
		{"a bad value", []string{"-n", "0", "5"}, "slot"},
		{"no command", []string{"-Z", " ", "5"}, "No command is specified"},
	} {
		if _, err := BuildMod(tc.args, input("", nil)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
}

func TestRunningOK(t *testing.T) {
	for words, want := range map[string]bool{"M W c o e r rn oo Wn Mn": true, "n": false, "W n": false, "q": false, "Z": false, "Hn": false} {
		var list []queue.Given
		for _, w := range strings.Fields(words) {
			list = append(list, queue.Given{Name: w})
		}
		if RunningOK(list) != want {
			t.Errorf("%s: %v", words, !want)
		}
	}
}
