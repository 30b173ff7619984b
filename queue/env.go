package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EnvRule is a parsed -env: which of the submitter's variables a job gets. The zero value is the
// default, all of them.
type EnvRule struct {
	None  bool // start with no variable: "none", or a list without "all"
	Items []EnvItem
}

// EnvItem changes one variable.
type EnvItem struct {
	Name  string
	Op    EnvOp
	Value string // of EnvSet
}

// EnvOp is what an EnvItem does.
type EnvOp int

// The operations of -env.
const (
	EnvCopy   EnvOp = iota // NAME: as it is at the submitter
	EnvSet                 // NAME=value
	EnvRemove              // ~NAME
)

const maxEnvText = 1 << 20

// ParseEnv reads all -env of a submission, as if they were one list: "all" or "none", then NAME,
// NAME=value and ~NAME separated by commas. Without "all", only what is listed is passed on. A value
// with commas, quotes or outer blanks is quoted with ' or ". Later items win.
func ParseEnv(specs []string) (EnvRule, error) {
	var r EnvRule
	all, none, total := false, false, 0
	for _, spec := range specs {
		if total += len(spec); total > maxEnvText {
			return EnvRule{}, fmt.Errorf("-env: longer than %d bytes", maxEnvText)
		}
		items, err := splitQuoted(unquoteWhole(spec))
		if err != nil {
			return EnvRule{}, fmt.Errorf("-env %s: %w", quoteInput(spec), err)
		}
		for _, item := range items {
			switch item {
			case "all":
				all = true
			case "none":
				none = true
			default:
				parsed, err := parseEnvItem(item)
				if err != nil {
					return EnvRule{}, fmt.Errorf("-env %s: %w", quoteInput(spec), err)
				}
				r.Items = append(r.Items, parsed)
			}
		}
	}
	r.None = !all && (none || len(r.Items) > 0)
	if all && none {
		return EnvRule{}, errors.New("-env: all and none exclude each other")
	}
	for _, it := range r.Items {
		if it.Op == EnvRemove && !all {
			return EnvRule{}, fmt.Errorf("-env: ~%s takes a variable out of all: write \"all, ~%s\"", it.Name, it.Name)
		}
	}
	return r, nil
}

// splitQuoted cuts at commas outside quotes and trims; quotes stay.
func splitQuoted(s string) ([]string, error) {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("the quote at position %d is not closed: quote the whole value", i+1)
			}
			i += end + 1
		case ',':
			out, start = append(out, s[start:i]), i+1
		}
	}
	out = append(out, s[start:])
	for i := range out {
		if out[i] = strings.TrimSpace(out[i]); out[i] == "" {
			return nil, errors.New("an item is empty: want all, none, NAME, NAME=value or ~NAME, separated by commas")
		}
	}
	return out, nil
}

func parseEnvItem(item string) (EnvItem, error) {
	it := EnvItem{}
	name, value, set := strings.Cut(item, "=")
	name, remove := strings.CutPrefix(name, "~")
	it.Name = strings.TrimSpace(name)
	switch {
	case remove && set:
		return it, fmt.Errorf("%s: ~NAME takes no value", quoteInput(item))
	case remove:
		it.Op = EnvRemove
	case set:
		it.Op = EnvSet
		// Quotes may stand around a part of the value, as in a shell: PATH="a,b":c.
		var b strings.Builder
		for rest := strings.TrimSpace(value); rest != ""; {
			if end := strings.IndexByte(rest[1:], rest[0]); end >= 0 && (rest[0] == '"' || rest[0] == '\'') {
				b.WriteString(rest[1 : end+1])
				rest = rest[end+2:]
				continue
			}
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
		if it.Value = b.String(); strings.IndexByte(it.Value, 0) >= 0 {
			return it, fmt.Errorf("%s: a value cannot hold a NUL byte", quoteInput(item))
		}
	}
	for i := range len(it.Name) {
		if c := it.Name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"'~,=", c) >= 0 || i == 0 && c >= '0' && c <= '9' {
			return it, fmt.Errorf("%s is no variable's name", quoteInput(it.Name))
		}
	}
	if it.Name == "" {
		return it, fmt.Errorf("%s: no variable's name", quoteInput(item))
	}
	if set && ofAJob(it.Name) {
		return it, fmt.Errorf("%s is set by the batch system and cannot be given", it.Name)
	}
	return it, nil
}

// String is the canonical text: one list that ParseEnv reads back.
func (r EnvRule) String() string {
	words := []string{"all"}
	if r.None {
		words[0] = "none"
	}
	for _, it := range r.Items {
		switch it.Op {
		case EnvSet:
			words = append(words, it.Name+"="+quoteEnv(it.Value))
		case EnvRemove:
			words = append(words, "~"+it.Name)
		default:
			words = append(words, it.Name)
		}
	}
	return strings.Join(words, ", ")
}

// quoteEnv puts a value in quotes; one that holds double quotes gets single ones around those.
func quoteEnv(v string) string {
	return `"` + strings.ReplaceAll(v, `"`, `"'"'"`) + `"`
}

// jobSettings are the LSB_ variables by which a user sets how commands behave; all others tell a job
// about itself.
var jobSettings = []string{"LSB_DEFAULT", "LSB_BJOBS_", "LSB_BSUB_", "LSB_BHIST_", "LSB_BQUEUES_", "LSB_BHOSTS_",
	"LSB_NTRIES", "LSB_MAILTO", "LSB_SHORT_HOSTLIST", "LSB_CONFDIR", "LSB_SHAREDIR"}

// ofAJob says that a variable describes the job it is found in, and would be wrong in another.
func ofAJob(name string) bool {
	switch name {
	case "LS_SUBCWD", "LS_JOBPID", "LS_EXEC_T", "LSFUSER":
		return true
	}
	return strings.HasPrefix(name, "LSB_") &&
		!slices.ContainsFunc(jobSettings, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Apply makes a job's environment of the submitter's ("NAME=value" each). Whatever the rule says, the
// variables of an outer job are left out, so that a job submitted by a job does not take itself for
// that one; so is the outer job's choice of GPUs. Order is kept, what the rule sets comes last.
func (r EnvRule) Apply(environ []string) []string {
	const devices = "CUDA_VISIBLE_DEVICES" // and, with a number after it, one for each task
	inJob := slices.ContainsFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, "LSB_JOBID=") })
	last := map[string]EnvItem{}
	var order []string
	for _, it := range r.Items {
		if _, again := last[it.Name]; !again {
			order = append(order, it.Name)
		}
		last[it.Name] = it
	}
	out := make([]string, 0, len(environ)+len(order))
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || ofAJob(name) || inJob && strings.HasPrefix(name, devices) {
			continue
		}
		it, listed := last[name]
		if listed && it.Op == EnvCopy || !listed && !r.None {
			out = append(out, kv)
		}
	}
	for _, name := range order {
		if it := last[name]; it.Op == EnvSet {
			out = append(out, name+"="+it.Value)
		}
	}
	return out
}
