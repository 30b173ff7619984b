package images

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"fairslice/nodes"
)

// Labels is what an image says of itself: the apps it can serve, the resources it needs, on what it runs. The zero
// value is an image that says nothing, and can run.
type Labels struct {
	Apps []App

	// What a job of this image is given at least, at most, and where it asks for nothing. Zero: not said.
	Min, Max, Preferred Resources

	Accelerators []string // kinds of accelerator that it can use, such as "cuda", in the image's order; empty: not said
	CoreCountEnv []string // environment variables to set to the number of the job's cores
	Role         Role
	Features     []string // such as "batch", "query", "tty"
	BaseDistro   string   // such as "ubuntu22.04"
	RuntimeType  string   // such as "python"
	RuntimePath  string   // absolute path of the runtime in the image; {runtime_path} of a Service
	Workdir      string   // absolute: where the image's own command starts; empty: not said

	// Other are the labels that mean nothing here, as they are.
	Other map[string]string
}

// Role is what an image is for.
type Role string

const (
	Compute   Role = "compute" // where nothing is said
	Inference Role = "inference"
	System    Role = "system"
)

// Resources are amounts that labels name. Zero means "not said".
type Resources struct {
	CPU    int          `json:"cpu,omitempty"`    // cores
	Memory int64        `json:"memory,omitempty"` // bytes
	Shmem  int64        `json:"shmem,omitempty"`  // bytes of /dev/shm
	FGPU   nodes.Amount `json:"fgpu,omitempty"`
	GPUs   int          `json:"gpus,omitempty"` // whole GPUs
}

// Bounds of what is read; far above any real image.
const (
	maxLabels     = 4096
	maxLabelBytes = 64 << 10
	maxItems      = 256
)

// ParseLabels reads an image's labels: Backend.AI's, "ai.backend.*", and our short form, "fairslice.*". They mean the
// same, and where an image has both, ours counts:
//
//	ai.backend.service-ports           fairslice.apps           jupyter:http:8091,vscode:tcp:[8180,8181]
//	ai.backend.resource.min.cpu        fairslice.min.cpu        also max and preferred: cores
//	ai.backend.resource.min.mem        fairslice.min.mem        bytes, or with a unit: 512m, 1.5g
//	ai.backend.resource.min.shmem      fairslice.min.shmem
//	ai.backend.resource.min.cuda.shares  fairslice.min.fgpu     0.5
//	ai.backend.resource.min.cuda.device  fairslice.min.gpus     whole GPUs
//	ai.backend.accelerators            fairslice.accelerators   cuda,rocm
//	ai.backend.envs.corecount          fairslice.corecount-env  OMP_NUM_THREADS,NPROC
//	ai.backend.role                    fairslice.role           compute, inference or system
//	ai.backend.features                fairslice.features       words
//	ai.backend.base-distro             fairslice.base-distro
//	ai.backend.runtime-type, -path     fairslice.runtime-type, -path
//	                                   fairslice.workdir
//
// A known label that is malformed is an error, which names it and its value; all such are reported at once. An unknown
// label "fairslice.…" is a mistake too. Any other is kept in Other.
func ParseLabels(raw map[string]string) (Labels, error) {
	if len(raw) > maxLabels {
		return Labels{}, fmt.Errorf("%d labels; at most %d can be read", len(raw), maxLabels)
	}
	l := Labels{Role: Compute}
	var problems []error
	// Sorted, "fairslice." comes after "ai.backend.", and so counts.
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		value := raw[key]
		known, err := false, error(nil)
		if len(value) > maxLabelBytes {
			err = fmt.Errorf("has %d bytes; at most %d can be read", len(value), maxLabelBytes)
		} else {
			known, err = l.read(key, strings.TrimSpace(value))
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("label %s=%s: %w", key, brief(value), err))
		case !known && strings.HasPrefix(key, ownPrefix):
			problems = append(problems, fmt.Errorf("label %s=%s: there is no such label; see the list of labels %s*", key, brief(value), ownPrefix))
		case !known:
			if l.Other == nil {
				l.Other = map[string]string{}
			}
			l.Other[key] = value
		}
	}
	if err := l.check(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return Labels{}, errors.Join(problems...)
	}
	return l, nil
}

const (
	ownPrefix     = "fairslice."
	backendPrefix = "ai.backend."
)

// backendNames are Backend.AI's names for what is called otherwise here.
var backendNames = map[string]string{"service-ports": "apps", "envs.corecount": "corecount-env"}

// read takes one label; false means that it is not known.
func (l *Labels) read(key, value string) (known bool, err error) {
	name, own := strings.CutPrefix(key, ownPrefix)
	if !own {
		var backend bool
		if name, backend = strings.CutPrefix(key, backendPrefix); !backend {
			return false, nil
		}
		if n, ok := backendNames[name]; ok {
			name = n
		}
		name = strings.TrimPrefix(name, "resource.")
	}
	switch name {
	case "apps":
		l.Apps, err = ParseApps(value)
	case "accelerators":
		l.Accelerators, err = parseWords(value, ",", "a kind of accelerator such as cuda", word)
	case "corecount-env":
		l.CoreCountEnv, err = parseWords(value, ",", "the name of an environment variable", variable)
	case "features":
		l.Features, err = parseWords(value, " ", "a word", word)
	case "role":
		l.Role = Role(strings.ToLower(value))
		if l.Role != Compute && l.Role != Inference && l.Role != System {
			err = errors.New("want compute, inference or system")
		}
	case "base-distro":
		l.BaseDistro, err = value, plain(value)
	case "runtime-type":
		l.RuntimeType, err = value, plain(value)
	case "runtime-path":
		l.RuntimePath, err = value, absolute(value)
	case "workdir":
		if !own {
			return false, nil
		}
		l.Workdir, err = value, absolute(value)
	default:
		return l.readResource(name, value, own)
	}
	return true, err
}

func (l *Labels) readResource(name, value string, own bool) (known bool, err error) {
	which, slot, _ := strings.Cut(name, ".")
	r, ok := map[string]*Resources{"min": &l.Min, "max": &l.Max, "preferred": &l.Preferred}[which]
	if !ok {
		return false, nil
	}
	if !own {
		// Backend.AI has other slots too (rocm.device, tpu.device …): not ours to judge.
		slot = map[string]string{"cpu": "cpu", "mem": "mem", "shmem": "shmem", "cuda.shares": "fgpu", "cuda.device": "gpus"}[slot]
	}
	switch slot {
	case "cpu":
		r.CPU, err = parseCount(value)
	case "mem":
		r.Memory, err = parseBytes(value)
	case "shmem":
		r.Shmem, err = parseBytes(value)
	case "gpus":
		r.GPUs, err = parseCount(value)
	case "fgpu":
		if strings.Trim(value, "0.") == "" && value != "" { // as many images write who can do without
			r.FGPU = 0
			break
		}
		r.FGPU, err = nodes.ParseAmount(value)
	default:
		return false, nil
	}
	return true, err
}

// check judges what one label alone cannot show.
func (l *Labels) check() error {
	for _, one := range []struct {
		what        string
		least, most int64
	}{
		{"cpu", int64(l.Min.CPU), int64(l.Max.CPU)},
		{"mem", l.Min.Memory, l.Max.Memory},
		{"shmem", l.Min.Shmem, l.Max.Shmem},
		{"fgpu", int64(l.Min.FGPU), int64(l.Max.FGPU)},
		{"gpus", int64(l.Min.GPUs), int64(l.Max.GPUs)},
	} {
		if one.most > 0 && one.least > one.most {
			return fmt.Errorf("labels: the least %s, %d, is more than the most, %d", one.what, one.least, one.most)
		}
	}
	return nil
}

// parseCount reads digits, at most a million.
func parseCount(s string) (int, error) {
	const most = 1_000_000
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, errors.New("want a whole number")
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > most {
		return 0, fmt.Errorf("more than %d", most)
	}
	return n, nil
}

// parseBytes reads bytes as Backend.AI writes them: "1073741824", "512m", "1.5g", "2GiB"; units are base 1024. Part
// of a byte is rounded up.
func parseBytes(s string) (int64, error) {
	const want = "want bytes, or a number with a unit such as 512m or 1.5g"
	const most = int64(1) << 60
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	number, unit := s[:i], strings.ToLower(strings.TrimSpace(s[i:]))
	if unit != "" && strings.Contains("kmgtpe", unit[:1]) && (unit[1:] == "b" || unit[1:] == "ib") {
		unit = unit[:1]
	}
	if unit == "b" {
		unit = ""
	}
	shift := strings.Index("kmgtpe", unit)
	whole, fraction, dotted := strings.Cut(number, ".")
	if len(unit) > 1 || shift < 0 || len(number) > 40 || whole == "" || dotted && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errors.New(want)
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, errors.New(want)
	}
	if unit != "" {
		r.Mul(r, new(big.Rat).SetInt64(1<<(10*(shift+1))))
	}
	if r.Cmp(new(big.Rat).SetInt64(most)) > 0 {
		return 0, errors.New("more than 1 EB")
	}
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		return q.Int64() + 1, nil
	}
	return q.Int64(), nil
}

// parseWords reads a list of what ok accepts; repetitions are left out.
func parseWords(s, separator, what string, ok func(string) bool) ([]string, error) {
	var out []string
	for _, w := range strings.Split(s, separator) {
		w = strings.TrimSpace(w)
		switch {
		case w == "" && (separator == " " || s == ""):
			continue
		case !ok(w) || len(w) > 255:
			return nil, fmt.Errorf("%s is not %s", brief(w), what)
		case len(out) == maxItems:
			return nil, fmt.Errorf("more than %d", maxItems)
		case !slices.Contains(out, w):
			out = append(out, w)
		}
	}
	return out, nil
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// word is letters, digits and . _ - with a letter or digit at the start.
func word(s string) bool {
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && (i == 0 || !strings.Contains("._-", s[i:i+1])) {
			return false
		}
	}
	return s != ""
}

// variable is a name that every shell accepts.
func variable(s string) bool {
	for i := range len(s) {
		if !letter(s[i]) && s[i] != '_' && (i == 0 || !digit(s[i])) {
			return false
		}
	}
	return s != ""
}

func plain(s string) error {
	if len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("want at most 255 characters, and no control characters")
	}
	return nil
}

func absolute(s string) error {
	if !strings.HasPrefix(s, "/") || len(s) > 4095 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("want an absolute path")
	}
	return nil
}

// brief shows outside text in an error: quoted, and never more than a line of it.
func brief(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
