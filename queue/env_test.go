package queue

import (
	"slices"
	"strings"
	"testing"
)

func TestEnv(t *testing.T) {
	user := []string{"HOME=/h", "A=1", "B=x y", "BASH_FUNC_m%%=() { :; }"}
	job := append([]string{"LSB_JOBID=7", "LSB_HOSTS=a", "LS_SUBCWD=/old", "LSFUSER=u", "CUDA_VISIBLE_DEVICES=3",
		"CUDA_VISIBLE_DEVICES1=3", "LSF_ENVDIR=/etc", "LSB_DEFAULTQUEUE=q"}, user...)
	for _, c := range []struct {
		name    string
		specs   []string
		environ []string
		want    string
		err     string
	}{
		{"all is the default", nil, user, strings.Join(user, ";"), ""},
		{"all", []string{"all"}, user, strings.Join(user, ";"), ""},
		{"none", []string{"none"}, user, "", ""},
		{"quotes that a script passed on", []string{`"none"`}, user, "", ""},
		{"all but one, and one more", []string{"all, ~A, C=2"}, user, "HOME=/h;B=x y;BASH_FUNC_m%%=() { :; };C=2", ""},
		{"only what is listed", []string{"A, C=2, D"}, user, "A=1;C=2", ""},
		{"one set again", []string{"all, A=2"}, user, "HOME=/h;B=x y;BASH_FUNC_m%%=() { :; };A=2", ""},
		{"psij repeats it", []string{"none", "A=1", "C=2"}, user, "A=1;C=2", ""},
		{"the last wins", []string{"all, A=2", "~A, HOME=x"}, user, "B=x y;BASH_FUNC_m%%=() { :; };HOME=x", ""},
		{"a value with commas", []string{`C="a,b", D='x', E=p"q,r"s, F=`}, user, "C=a,b;D=x;E=pq,rs;F=", ""},
		{"outer blanks", []string{`C=" a "`}, user, "C= a ", ""},
		{"a value with =", []string{"C=a=b"}, user, "C=a=b", ""},
		{"a function of bash", []string{"BASH_FUNC_m%%"}, user, "BASH_FUNC_m%%=() { :; }", ""},
		{"an outer job does not leak", nil, job, "LSF_ENVDIR=/etc;LSB_DEFAULTQUEUE=q;" + strings.Join(user, ";"), ""},
		{"not even by name", []string{"LSB_JOBID, A"}, job, "A=1", ""},
		{"GPUs chosen outside a job are the user's", nil, []string{"CUDA_VISIBLE_DEVICES=0"}, "CUDA_VISIBLE_DEVICES=0", ""},
		{"broken words of an environment go", nil, []string{"x", "=y", "A=1"}, "A=1", ""},

		{"both", []string{"all", "none"}, nil, "", "exclude each other"},
		{"taking from nothing", []string{"~A"}, nil, "", `write "all, ~A"`},
		{"taking a value", []string{"all, ~A=1"}, nil, "", "takes no value"},
		{"an empty item", []string{"all,,A"}, nil, "", "an item is empty"},
		{"empty", []string{""}, nil, "", "an item is empty"},
		{"no name", []string{"=1"}, nil, "", "no variable's name"},
		{"a name with a blank", []string{"A B=1"}, nil, "", "is no variable's name"},
		{"a number", []string{"1A"}, nil, "", "is no variable's name"},
		{"an open quote", []string{"A='x"}, nil, "", "is not closed"},
		{"a NUL byte", []string{"A=\x00"}, nil, "", "NUL"},
		{"what the system sets", []string{"all, LSB_JOBID=5"}, nil, "", "set by the batch system"},
	} {
		r, err := ParseEnv(c.specs)
		got := ""
		if err == nil {
			got = strings.Join(r.Apply(c.environ), ";")
		}
		check(t, c.name, got, c.want, err, c.err)
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add("all, ~A, B=2", `C="a,b"`)
	f.Add("none", "A=x'y\"z'")
	f.Add("A, B", "~C")
	environ := []string{"A=1", "B=2", "LSB_JOBID=1"}
	f.Fuzz(func(t *testing.T, a, b string) {
		r, err := ParseEnv([]string{a, b})
		if err != nil {
			return
		}
		got := r.Apply(environ)
		if slices.ContainsFunc(got, func(kv string) bool { return strings.HasPrefix(kv, "LSB_JOBID=") || strings.Contains(kv, "\x00") }) {
			t.Fatalf("%q, %q leak: %q", a, b, got)
		}
		again, err := ParseEnv([]string{r.String()})
		if err != nil || !slices.Equal(again.Apply(environ), got) || again.String() != r.String() {
			t.Fatalf("%q, %q give %s, which reads back as %s (%v)", a, b, r, again, err)
		}
	})
}
