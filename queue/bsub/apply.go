package bsub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fairslice/queue"
	"fairslice/queue/option"
)

// Apply sets what the options say on spec, in their order, and is the one path from option words to a
// Spec: for bsub, for bmod (whose -Wn forms take an option back), at the client and in the daemon. Of
// in it uses Now, Unit, MaxArray and Consumables. What spec points to is replaced, never changed, so
// that a shallow copy of a job's Spec may be given. After an error spec is to be thrown away.
func Apply(spec *queue.Spec, options []queue.Given, in Input) error {
	_, err := apply(spec, options, in)
	return err
}

// apply is Apply that also returns what the submitter should be told.
func apply(spec *queue.Spec, options []queue.Given, in Input) (notes []string, err error) {
	a := &applier{spec: spec, in: in}
	for _, g := range options {
		if len(g.Values) == 0 {
			if err := a.one(g.Name, ""); err != nil {
				return nil, err
			}
		}
		for _, v := range g.Values {
			if err := a.one(g.Name, v); err != nil {
				return nil, err
			}
		}
	}
	if a.wholeHosts {
		a.reqs = append(a.reqs, "span[ptile=1]")
	}
	if len(a.reqs) > 0 {
		parsed, err := queue.ParseResReq(a.reqs, in.resReqOptions())
		if err != nil {
			return nil, err
		}
		spec.ResReq, spec.Resources = strings.Join(a.reqs, " "), parsed
	}
	return a.notes, nil
}

// RunningOK says that bmod may apply these options to a job that runs.
func RunningOK(options []queue.Given) bool {
	for _, g := range options {
		r := find(g.Name)
		if r == nil {
			r = find(strings.TrimSuffix(g.Name, "n"))
		}
		if r == nil || !r.running {
			return false
		}
	}
	return true
}

type applier struct {
	spec *queue.Spec
	in   Input
	reqs []string // all of -R

	wholeHosts bool // -nnodes: one slot on each host, whatever span says
	notes      []string
}

var noTime time.Time

func (a *applier) one(name, v string) error {
	if name == newCommand {
		return setCommand(a, v)
	}
	r := find(name)
	if r == nil {
		if base, ok := strings.CutSuffix(name, "n"); ok {
			if r = find(base); r != nil && r.reset != nil {
				r.reset(a.spec)
				return nil
			}
		}
		return fmt.Errorf("-%s: unknown option", name)
	}
	if r.unsupported {
		return fmt.Errorf("Option -%s is not supported here", name)
	}
	// Values travel and are kept as text: what is none would come back changed, a file name above all.
	if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
		return badArgument(name, fmt.Errorf("%q is not UTF-8 text", shorten(v)))
	}
	if r.Value == option.Required && v == "" && !r.mayBeEmpty() {
		return badArgument(name, errors.New("the value is empty"))
	}
	return r.set(a, v)
}

// mayBeEmpty: templates leave names empty that they have no word for, and that says as much as none;
// an empty limit, file or queue is a mistake.
func (r *row) mayBeEmpty() bool {
	return slices.Contains([]string{"J", "jd", "P", "G", "app", "u"}, r.Name)
}

func badArgument(name string, err error) error {
	return fmt.Errorf("Bad argument for option -%s: %w", name, err)
}

func setName(a *applier, v string) error {
	// bmod -J "%5" changes how many elements run at once, and nothing else.
	if limit, ok := strings.CutPrefix(v, "%"); ok && a.spec.Array != nil && !strings.Contains(v, "[") {
		array := *a.spec.Array
		if array.Limit = 0; limit != "0" { // 0 takes the limit away
			n, err := queue.ParseArrayLimit(v)
			if err != nil {
				return err
			}
			array.Limit = n
		}
		a.spec.Array = &array
		return nil
	}
	if v == "" {
		a.spec.Name = ""
		return nil
	}
	name, array, err := queue.ParseJobName(v, a.in.MaxArray)
	if err != nil {
		return err
	}
	a.spec.Name = name
	if array != nil {
		a.spec.Array = array
	}
	return nil
}

func setPriority(a *applier, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return badArgument("sp", fmt.Errorf("%q: want a number from 1", shorten(v)))
	}
	a.spec.Priority = n
	return nil
}

func setDepend(a *applier, v string) error {
	if _, err := queue.ParseCondition(v); err != nil {
		return err
	}
	a.spec.Depend = v
	return nil
}

func setShell(a *applier, v string) error {
	if !strings.HasPrefix(v, "/") {
		return badArgument("L", fmt.Errorf("%q: want an absolute path such as /bin/bash", shorten(v)))
	}
	a.spec.Shell = v
	return nil
}

func setSlots(a *applier, v string) error {
	minimum, maximum, err := queue.ParseSlots(v)
	if err != nil {
		return err
	}
	a.spec.MinSlots, a.spec.MaxSlots = minimum, maximum
	return nil
}

// setHosts is IBM's way to ask for whole hosts: one slot on each, shared with nobody.
func setHosts(a *applier, v string) error {
	n, _, err := queue.ParseSlots(v)
	if err != nil || strings.Contains(v, ",") {
		return badArgument("nnodes", fmt.Errorf("%q: want a number of hosts from 1", shorten(v)))
	}
	a.spec.MinSlots, a.spec.MaxSlots, a.spec.Exclusive = n, n, true
	a.wholeHosts = true
	return nil
}

func addResReq(a *applier, v string) error {
	a.reqs = append(a.reqs, v)
	return nil
}

func setGPU(a *applier, v string) error {
	parsed, notes, err := queue.ParseGPU(v, a.in.Unit)
	if err != nil {
		return err
	}
	a.spec.GPU, a.spec.GPURequest = v, &parsed
	a.notes = append(a.notes, notes...)
	return nil
}

func setApps(a *applier, v string) error {
	names, err := queue.ParseApps(v)
	if err != nil {
		return badArgument("apps", err)
	}
	a.spec.Apps = names
	return nil
}

func setWishes(a *applier, v string) error {
	hosts, err := queue.ParseHosts(v)
	if err != nil {
		return err
	}
	a.spec.Hosts = hosts
	return nil
}

func setRunLimit(a *applier, v string) error {
	d, err := queue.ParseRunLimit(v)
	if err != nil {
		return err
	}
	a.spec.RunLimit = d
	return nil
}

func setBegin(a *applier, v string) error {
	when, err := queue.ParseWhen(v, a.in.Now)
	if err != nil {
		return err
	}
	a.spec.Begin = when
	return nil
}

func setTerminate(a *applier, v string) error {
	when, err := queue.ParseWhen(v, a.in.Now)
	if err != nil {
		return err
	}
	a.spec.Terminate = when
	return nil
}

func setMemory(a *applier, v string) error {
	n, err := queue.ParseMemory(v, a.in.limitUnit())
	if err != nil {
		return err
	}
	a.spec.Memory = n
	return nil
}

func (a *applier) limit(name, v string) error {
	n, err := queue.ParseLimit(name, v, a.in.limitUnit())
	if err != nil {
		return err
	}
	limits := maps.Clone(a.spec.Limits) // a copy of the Spec may share the map
	if limits == nil {
		limits = map[string]int64{}
	}
	limits[name] = n
	a.spec.Limits = limits
	return nil
}

func dropLimit(s *queue.Spec, name string) {
	limits := maps.Clone(s.Limits)
	if delete(limits, name); len(limits) == 0 {
		limits = nil
	}
	s.Limits = limits
}

// shorten keeps an error readable when the value is not.
func shorten(v string) string {
	if len(v) > 80 {
		return strings.ToValidUTF8(v[:80], "") + "…"
	}
	return v
}
