package queue

import (
	"fmt"
	"strings"
	"testing"
)

func condText(c Condition) string {
	if c == nil {
		return ""
	}
	return c.String()
}

func TestParseCondition(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"a state", "done(123)", "done(123)", ""},
		{"a number alone means done", "123", "done(123)", ""},
		{"a name alone means done", "train", `done("train")`, ""},
		{"a quoted name alone", `'my job' && "x"`, `done("my job") && done("x")`, ""},
		{"a name like a function", "done && exit", `done("done") && done("exit")`, ""},
		{"all states", "ended(1)&&started(2)&&post_done(3)&&post_err(4)", "ended(1) && started(2) && post_done(3) && post_err(4)", ""},
		{"exit", "exit(1)", "exit(1)", ""},
		{"exit with a code", "exit(1,3)", "exit(1, == 3)", ""},
		{"exit with a comparison", "exit ( x , >= 3 )", `exit("x", >= 3)`, ""},
		{"counts", "numrun(1,>5)&&numpend(1,==0)&&numhold(1,!=2)&&numstart(1,<3)&&numexit(1,<=0)&&numdone(1,>=9)",
			"numrun(1, > 5) && numpend(1, == 0) && numhold(1, != 2) && numstart(1, < 3) && numexit(1, <= 0) && numdone(1, >= 9)", ""},
		{"all elements", "numended(1,*)", "numended(1, *)", ""},
		{"&& binds closer than ||", "a||b&&c", `done("a") || done("b") && done("c")`, ""},
		{"parentheses that matter stay", "(a||b)&&c", `(done("a") || done("b")) && done("c")`, ""},
		{"others go", "((a)&&(b&&(c)))", `done("a") && done("b") && done("c")`, ""},
		{"not", "!done(1)&&!(a||!b)", `!done(1) && !(done("a") || !done("b"))`, ""},
		{"an element", "done(1[3])&&x[4]", `done(1[3]) && done("x[4]")`, ""},
		{"one to one", `done(1[*]) && done("x[*]")`, `done(1[*]) && done("x[*]")`, ""},
		{"a prefix", "done(tr*)", `done("tr*")`, ""},
		{"quoted digits are a name", `done("123")`, `done("123")`, ""},
		{"a quote in a name", `done('a"b\')`, "", "is not closed"},
		{"escaped quotes", `done("a\"b\\c")`, `done("a\"b\\c")`, ""},
		{"brackets that hold no index are the name's", "]]", `done("]]")`, ""},
		{"a name of another script", "done(größe)", `done("größe")`, ""},

		{"empty", " ", "", "Dependency condition syntax error"},
		{"D2: LSF knows no comma between conditions", "done(1),done(2)", "", "want && or ||"},
		{"D2: nor a question mark", "done(1)?done(2)", "", "want && or ||"},
		{"D2: text after a condition", "done(5)+60garbage", "", "want && or ||"},
		{"D2: text after a number", "done(5+60garbage)", "", "must be quoted"},
		{"D2: half an element", "done(7_)", "", "must be quoted"},
		{"D4: another system's word", "aftercorr(1)", "", "no function aftercorr(): want one of done"},
		{"an unknown function", "success(1)", "", "no function success(): want one of done"},
		{"external", `external(1,"ok")`, "", "external() is not supported"},
		{"nothing inside", "done()", "", "want a job's number or name"},
		{"not closed", "done(1", "", `want ")"`},
		{"two jobs inside", "done(1,2)", "", `want ")"`},
		{"one &", "1&2", "", "is not understood"},
		{"nothing after &&", "1&&", "", "got the end"},
		{"two jobs side by side", "done(1) done(2)", "", "want && or ||"},
		{"a name that begins with a digit", "done(1a)", "", "must be quoted"},
		{"job 0", "done(0)", "", "no job number"},
		{"a number too large", "done(99999999999999999999)", "", "no job number"},
		{"a count without an operator", "numdone(1, 5)", "", "or *, in numdone()"},
		{"a count without anything", "numdone(1)", "", `want ","`},
		{"a count of an element", "numdone(1[2], >1)", "", "without an index"},
		{"a code too large", "exit(1, 256)", "", "0 to 255"},
		{"a negative code", "exit(1, > -1)", "", "0 to 255"},
		{"a range of elements", "done(1[1-3])", "", "want [n] or [*]"},
		{"element 0", "done(1[0])", "", "want [n] or [*]"},
		{"a control character", "done(\"a\nb\")", "", "control character"},
		{"deep", strings.Repeat("(", 70) + "1" + strings.Repeat(")", 70), "", "nested more than"},
		{"very deep", strings.Repeat("!", 100_000) + "1", "", "nested more than"},
		{"very many", "1" + strings.Repeat("&&1", maxDependTerms), "", "more than 10000 jobs"},
		{"very long", strings.Repeat(" ", maxDependLength+1) + "1", "", "longer than"},
	} {
		got, err := ParseCondition(c.in)
		check(t, c.name, condText(got), c.want, err, c.err)
		if err != nil && !strings.HasPrefix(err.Error(), "Dependency condition syntax error: ") {
			t.Errorf("%s: %q lacks LSF's phrase", c.name, err)
		}
	}
}

// jobsByID is a Lookup.
type jobsByID map[JobID]*Job

func (m jobsByID) Job(id JobID) *Job { return m[id] }

// elements makes jobs of words such as "1:DONE" and "2:PEND,RUN,EXIT/3": an array has several, from index 1.
func elements(words ...string) jobsByID {
	m := jobsByID{}
	for _, word := range words {
		id, list, _ := strings.Cut(word, ":")
		j := &Job{}
		fmt.Sscan(id, &j.ID)
		states := strings.Split(list, ",")
		for i, s := range states {
			e := Element{}
			if len(states) > 1 {
				e.Index = i + 1
			}
			state, code, _ := strings.Cut(s, "/")
			if e.State = State(state); e.State.Final() {
				e.Result = &Result{PostFailed: code == "post"}
				fmt.Sscan(code, &e.Result.Status)
				e.Result.Status <<= 8
			}
			j.Elements = append(j.Elements, e)
		}
		m[j.ID] = j
	}
	return m
}

func TestConditionEval(t *testing.T) {
	for _, c := range []struct {
		name, cond, jobs string
		want             Truth
	}{
		{"it waits", "done(1)", "1:PEND", False},
		{"it runs", "done(1)", "1:RUN", False},
		{"its node is lost", "done(1)", "1:UNKWN", False},
		{"D5: it is done", "done(1)", "1:DONE", True},
		{"D1: it failed", "done(1)", "1:EXIT/1", Never},
		{"D1: it does not exist", "done(9)", "1:DONE", Never},
		{"a name that was not resolved", "done(x)", "1:DONE", Never},
		{"ended either way", "ended(1)", "1:EXIT/1", True},
		{"not yet ended", "ended(1)", "1:USUSP", False},
		{"failed, as hoped", "exit(1)", "1:EXIT/1", True},
		{"it did not fail", "exit(1)", "1:DONE", Never},
		{"with the right code", "exit(1, >= 3)", "1:EXIT/3", True},
		{"with another code", "exit(1, 4)", "1:EXIT/3", Never},
		{"with a code to come", "exit(1, 4)", "1:RUN", False},
		{"started", "started(1)", "1:SSUSP", True},
		{"not started", "started(1)", "1:PSUSP", False},
		{"started once", "started(1)", "1:EXIT/1", True},
		{"post-execution went well", "post_done(1)", "1:EXIT/1", True},
		{"post-execution failed", "post_err(1)", "1:DONE/post", True},
		{"post-execution did not fail", "post_err(1)", "1:DONE", Never},

		{"not done", "!done(1)", "1:RUN", True},
		{"not done any more", "!done(1)", "1:DONE", Never},
		{"cannot be done", "!done(1)", "1:EXIT/1", True},
		{"one of two", "done(1) || done(2)", "1:EXIT/1 2:RUN", False},
		{"the other of two", "done(1) || done(2)", "1:EXIT/1 2:DONE", True},
		{"neither of two", "done(1) || done(2)", "1:EXIT/1 2:EXIT/1", Never},
		{"both", "done(1) && done(2)", "1:DONE 2:DONE", True},
		{"both, later", "done(1) && done(2)", "1:DONE 2:RUN", False},
		{"one of both cannot", "done(2) && done(1)", "1:EXIT/1 2:RUN", Never},
		{"not both", "!(done(1) && done(2))", "1:EXIT/1 2:RUN", True},

		{"D4: all elements of an array", "done(1)", "1:DONE,DONE", True},
		{"an element to come", "done(1)", "1:DONE,RUN", False},
		{"an element failed", "done(1)", "1:RUN,EXIT/1", Never},
		{"a requeued element waits again", "done(1)", "1:DONE,PEND", False},
		{"one element", "done(1[2])", "1:RUN,DONE", True},
		{"an element that is none", "done(1[3])", "1:RUN,DONE", Never},
		{"one to one", "done(1[*])", "1:RUN,DONE,RUN", True}, // the index is 2
		{"one to one, waits", "done(1[*])", "1:DONE,RUN,DONE", False},
		{"one to one, too short", "done(1[*])", "1:DONE", Never},

		{"enough are done", "numdone(1, > 1)", "1:DONE,DONE,RUN", True},
		{"and stay so", "!numdone(1, > 1)", "1:DONE,DONE,RUN", Never},
		{"not enough yet", "numdone(1, > 1)", "1:DONE,RUN,EXIT/1", False},
		{"never enough", "numdone(1, > 1)", "1:DONE,EXIT/1,EXIT/1", Never},
		{"exactly, but it may grow", "!numdone(1, == 1)", "1:DONE,RUN", False},
		{"exactly, passed", "numdone(1, == 1)", "1:DONE,DONE,RUN", Never},
		{"exactly, skipped", "numdone(1, != 1)", "1:DONE,RUN", False},
		{"some failed", "numexit(1, >= 1)", "1:EXIT/1,RUN", True},
		{"all ended", "numended(1, *)", "1:EXIT/1,DONE", True},
		{"not all ended", "numended(1, *)", "1:EXIT/1,RUN", False},
		{"all done cannot be", "numdone(1, *)", "1:EXIT/1,RUN", Never},
		{"running now", "numrun(1, >= 1)", "1:RUN,PEND", True},
		{"started includes stopped ones", "numstart(1, == 2)", "1:RUN,SSUSP,PEND", True},
		{"waiting, held", "numpend(1, == 1) && numhold(1, == 1)", "1:PEND,PSUSP", True},
		{"none runs any more", "numrun(1, >= 1)", "1:DONE,EXIT/1", Never},
	} {
		cond, err := ParseCondition(c.cond)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := cond.Eval(2, elements(strings.Fields(c.jobs)...))
		check(t, c.name, got, c.want, nil, "")
	}
}

func TestConditionResolve(t *testing.T) {
	find := func(name string) []JobID {
		return map[string][]JobID{"a": {7, 5, 7}, "b*": {9}}[name]
	}
	for _, c := range []struct{ name, in, want, err string }{
		{"numbers stay", "done(3)", "done(3)", ""},
		{"a name of one job", "exit('b*', > 1)", "exit(9, > 1)", ""},
		{"a name of two: both", "done(a)", "done(5) && done(7)", ""},
		{"not both", "!done(a)", "!(done(5) && done(7))", ""},
		{"either the two or the other", "a || done(b*)", "done(5) && done(7) || done(9)", ""},
		{"one to one", "done(a[*]) && 3", "done(5[*]) && done(7[*]) && done(3)", ""},
		{"counts", "numdone(a, *)", "numdone(5, *) && numdone(7, *)", ""},
		{"unknown", "done(c)", "", "c: No matching job found"},
	} {
		cond, err := ParseCondition(c.in)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := cond.Resolve(find)
		check(t, c.name, condText(got), c.want, err, c.err)
		if err == nil {
			for _, r := range got.Refs() {
				if r.Job == 0 {
					t.Errorf("%s: %v has no number", c.name, r)
				}
			}
		}
	}
	cond, _ := ParseCondition("a && !a || 3[*]")
	if refs := fmt.Sprint(cond.Refs()); refs != `["a" 3[*]]` {
		t.Errorf("each reference once: got %s", refs)
	}
	if !PerElement(cond) || PerElement(nil) {
		t.Error("[*] differs by element, nothing else does")
	}
	many := func(string) []JobID {
		ids := make([]JobID, maxDependTerms+1)
		for i := range ids {
			ids[i] = JobID(i + 1)
		}
		return ids
	}
	_, err := cond.Resolve(many)
	check(t, "a name of too many jobs", 0, 0, err, "at most 10000")
	// The longest canonical text must still be one that ParseCondition reads.
	long, _ := ParseCondition("numstart(a, >= 1000000)")
	resolved, err := long.Resolve(func(string) []JobID { return many("")[1:] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCondition(resolved.String()); err != nil {
		t.Error(err)
	}
}

func FuzzParseCondition(f *testing.F) {
	for _, s := range []string{"done(1) && !exit(x, > 3) || numended(1, *)", `'my job' && "x[*]"`, "!!(a||b)&&c", `"a\"b\\c"`, "a[3]", "((("} {
		f.Add(s)
	}
	jobs := elements("1:DONE,EXIT/3,RUN", "2:PEND", "3:EXIT/post")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCondition(s)
		if err != nil {
			return
		}
		again, err := ParseCondition(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q gives %s, which reads back as %s (%v)", s, c, condText(again), err)
		}
		resolved, err := c.Resolve(func(string) []JobID { return []JobID{1, 2} })
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		stored, err := ParseCondition(resolved.String())
		if err != nil || stored.String() != resolved.String() {
			t.Fatalf("%s is stored as %s (%v)", resolved, condText(stored), err)
		}
		for index := range 3 {
			if a, b := stored.Eval(index, jobs), resolved.Eval(index, jobs); a != b {
				t.Fatalf("%s is %s, but %s when stored", resolved, b, a)
			}
		}
	})
}
