package queue

import (
	"fmt"
	"slices"
	"strings"
)

// Truth is what a Condition is at a moment.
type Truth int

// Truths. False may become true; Never cannot, unless a job that has ended is requeued.
const (
	False Truth = iota
	True
	Never
)

func (t Truth) String() string { return [...]string{"false", "true", "never"}[t] }

// Lookup finds a job by its number: nil for one that does not exist (any more). What a Condition of a
// live job mentions must not be forgotten, or the Condition can never hold.
type Lookup interface{ Job(JobID) *Job }

// fact is a truth value that knows whether it can still change.
type fact struct{ holds, fixed bool }

var never = fact{holds: false, fixed: true}

// Eval is part of Condition.
func (n *condNode) Eval(index int, look Lookup) Truth {
	switch v := n.eval(index, look); {
	case v.holds:
		return True
	case v.fixed:
		return Never
	}
	return False
}

func (n *condNode) eval(index int, look Lookup) fact {
	switch n.op {
	case condNot:
		v := n.kids[0].eval(index, look)
		return fact{!v.holds, v.fixed}
	case condAnd, condOr:
		return foldFacts(n.op == condAnd, len(n.kids), func(i int) fact { return n.kids[i].eval(index, look) })
	}
	if n.ref.Job == 0 {
		return never // a name that was not resolved names nothing
	}
	j := look.Job(n.ref.Job)
	if j == nil || len(j.Elements) == 0 {
		return never
	}
	if n.cmp != "" && n.word != "exit" {
		return n.count(j)
	}
	one := n.ref.Index
	if n.ref.Each && index > 0 {
		one = index
	}
	if one > 0 {
		e := j.Element(one)
		if e == nil {
			return never
		}
		return n.element(e)
	}
	return foldFacts(true, len(j.Elements), func(i int) fact { return n.element(&j.Elements[i]) })
}

// foldFacts is "and" (all) or "or" (any): one fixed fact that decides it fixes the whole.
func foldFacts(all bool, count int, at func(int) fact) fact {
	out := fact{holds: all, fixed: true}
	for i := range count {
		v := at(i)
		if v.holds != all {
			if v.fixed {
				return v
			}
			out = fact{!all, false}
		} else if out.holds == all {
			out.fixed = out.fixed && v.fixed
		}
	}
	return out
}

// element is what the word says of one element. Pending ones count as not having run, also when they
// were requeued.
func (n *condNode) element(e *Element) fact {
	final := e.State.Final()
	switch n.word {
	case "started":
		// As in LSF, what ended without a start has left the queue too, and counts.
		return fact{!e.State.Pending(), final}
	case "ended":
		return fact{final, final}
	case "done":
		return fact{e.State == Done, final}
	case "exit":
		holds := e.State == Exit
		if holds && n.cmp != "" {
			holds = compareNumbers(e.Result.ExitCode(), n.cmp, n.n)
		}
		return fact{holds, final}
	}
	// An element is final only when its post-execution command has ended as well.
	failed := e.Result != nil && e.Result.PostFailed
	return fact{final && failed == (n.word == "post_err"), final}
}

// count compares how many elements are in a state. Elements that have ended stay where they are, so
// the count can only move between least and most.
func (n *condNode) count(j *Job) fact {
	in, least, most := 0, 0, 0
	for i := range j.Elements {
		s := j.Elements[i].State
		now := n.counts(s)
		if now {
			in++
		}
		switch {
		case !s.Final():
			most++
		case now:
			least, most = least+1, most+1
		}
	}
	cmp, number := n.cmp, n.n
	if cmp == "*" {
		cmp, number = "==", len(j.Elements)
	}
	// A comparison with a number changes its truth at most at number-1, number and number+1.
	holds, fixed := compareNumbers(in, cmp, number), true
	for _, v := range []int{least, most, number - 1, number, number + 1} {
		if v >= least && v <= most && compareNumbers(v, cmp, number) != holds {
			fixed = false
		}
	}
	return fact{holds, fixed}
}

func (n *condNode) counts(s State) bool {
	switch n.word {
	case "numrun":
		return s == Run
	case "numpend":
		return s == Pend
	case "numhold":
		return s == PSusp
	case "numstart":
		return s == Run || s == USusp || s == SSusp
	case "numexit":
		return s == Exit
	case "numdone":
		return s == Done
	}
	return s.Final() // numended
}

// String is part of Condition.
func (n *condNode) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *condNode) write(b *strings.Builder) {
	switch n.op {
	case condTerm:
		fmt.Fprintf(b, "%s(%s", n.word, n.ref)
		switch {
		case n.cmp == "*":
			b.WriteString(", *")
		case n.cmp != "":
			fmt.Fprintf(b, ", %s %d", n.cmp, n.n)
		}
		b.WriteByte(')')
		return
	case condNot:
		b.WriteByte('!')
	}
	for i, k := range n.kids {
		if i > 0 {
			b.WriteString(map[condOp]string{condOr: " || ", condAnd: " && "}[n.op])
		}
		if k.op < n.op { // binds less than what it stands in
			b.WriteByte('(')
			k.write(b)
			b.WriteByte(')')
			continue
		}
		k.write(b)
	}
}

// Refs is part of Condition.
func (n *condNode) Refs() []JobRef {
	var out []JobRef
	seen := map[JobRef]bool{}
	n.eachTerm(func(t *condNode) {
		if !seen[t.ref] {
			seen[t.ref] = true
			out = append(out, t.ref)
		}
	})
	return out
}

func (n *condNode) eachTerm(do func(*condNode)) {
	if n.op == condTerm {
		do(n)
	}
	for _, k := range n.kids {
		k.eachTerm(do)
	}
}

// Resolve is part of Condition.
func (n *condNode) Resolve(find func(name string) []JobID) (Condition, error) {
	known, terms := map[string][]JobID{}, 0
	var err error
	n.eachTerm(func(t *condNode) {
		ids, asked := known[t.ref.Name]
		if t.ref.Job != 0 {
			ids = []JobID{t.ref.Job}
		} else if !asked {
			ids = slices.Clone(find(t.ref.Name))
			slices.Sort(ids)
			ids = slices.Compact(ids)
			known[t.ref.Name] = ids
		}
		if len(ids) == 0 && err == nil {
			err = fmt.Errorf("%s: No matching job found", t.ref.Name)
		}
		terms += len(ids)
	})
	if err == nil && terms > maxDependTerms {
		err = fmt.Errorf("Dependency condition: its names stand for %d jobs, at most %d", terms, maxDependTerms)
	}
	if err != nil {
		return nil, err
	}
	return n.resolve(known), nil
}

func (n *condNode) resolve(known map[string][]JobID) *condNode {
	if n.op == condTerm {
		if n.ref.Job != 0 {
			return n
		}
		all := make([]*condNode, 0, len(known[n.ref.Name]))
		for _, id := range known[n.ref.Name] {
			t := *n
			t.ref.Job, t.ref.Name = id, ""
			all = append(all, &t)
		}
		return joinConditions(condAnd, all)
	}
	kids := make([]*condNode, len(n.kids))
	for i, k := range n.kids {
		kids[i] = k.resolve(known)
	}
	if n.op == condNot {
		return &condNode{op: condNot, kids: kids}
	}
	return joinConditions(n.op, kids)
}
