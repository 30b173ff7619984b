package bsub

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzBuild gives any arguments and any script: the answer is an error in LSF's form, or a Spec that
// is valid and that the same options make again.
func FuzzBuild(f *testing.F) {
	f.Add("-q\x00normal\x00-n\x002\x00-R\x00select[mem>1] rusage[mem=1]\x00prog\x00a", "")
	f.Add("-J\x00a[1-10:2]%3\x00-W\x001:30\x00-M\x004GB\x00-gpu\x00fgpu=0.5\x00-w\x00done(1)", "#!/bin/sh\r\n#BSUB -oo a -eo b \\\n -m \"h1! h2+2\"\r\necho\r\n")
	f.Add("-M20000\x00-R'select[mem>1]'\x00-q normal -n 2\x00script", "#BSUB -J 'x y' -b 9:00 -env \"none, A=1\"\nx")
	f.Add("-Is\x00-K\x00--\x00-n", "\x00")
	f.Fuzz(func(t *testing.T, line, script string) {
		args := strings.Split(line, "\x00")
		if line == "" {
			args = nil
		}
		in := input(script, map[string]string{"script": script}, "A=1", "LSB_JOBID=1")
		s, err := Build(args, in)
		if err != nil {
			if text := err.Error(); s != nil || !strings.HasSuffix(text, ". Job not submitted.") || len(text) > 4000 {
				t.Fatalf("%.300q: %v %.300q", args, s, text)
			}
			return
		}
		if s.Help || s.Version {
			return
		}
		if err := s.Spec.Validate(); len(err) > 0 {
			t.Fatalf("%q %q: invalid: %v", args, script, err)
		}
		if len(s.Script) == 0 || s.Spec.Command == "" {
			t.Fatalf("%q %q: nothing to run", args, script)
		}
		again := *s.Spec
		if err := Apply(&again, s.Options, in); err != nil || !reflect.DeepEqual(&again, s.Spec) {
			t.Fatalf("%q %q: applied twice: %v\n got %s\nwant %s", args, script, err, asJSON(again), asJSON(s.Spec))
		}
		if _, err := BuildMod(args, in); err != nil && !strings.HasSuffix(err.Error(), ". Job not modified.") {
			t.Fatalf("%q: %v", args, err)
		}
	})
}
