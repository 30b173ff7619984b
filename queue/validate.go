package queue

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fairslice/nodes"
)

// Lengths of what a Spec holds, in bytes.
const (
	maxCommand  = 1 << 20 // of listings and -E -Ep; the script itself is kept elsewhere
	maxPath     = 4096
	maxWord     = 255
	maxMailUser = 1024
)

// Validate lists everything that is wrong with s whatever the site: what the parsers of options
// refuse, for a Spec that did not come through them, and what contradicts itself. nil means valid.
func (s *Spec) Validate() []error {
	v := &specCheck{}
	if s.Command == "" && s.ScriptHash == "" {
		v.add("No command is specified")
	}
	v.err("Bad job name", nameError(s.Name))
	v.noDotDot("job name", s.Name)
	v.words(s)
	v.paths(s)
	v.quantities(s)
	v.times(s)
	v.array(s)
	v.resources(s)
	v.together(s)
	if s.Depend != "" {
		_, err := ParseCondition(s.Depend)
		v.err("", err)
	}
	return v.errs
}

type specCheck struct{ errs []error }

func (v *specCheck) add(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *specCheck) err(what string, err error) {
	switch {
	case err == nil:
	case what == "":
		v.errs = append(v.errs, err)
	default:
		v.errs = append(v.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// noDotDot: names become parts of file and cgroup names somewhere, so none may lead out of a folder.
func (v *specCheck) noDotDot(what, s string) {
	if s == ".." || strings.Contains(s, "../") || strings.Contains(s, "/..") {
		v.add("%s: Bad %s: it must not hold \"..\" as a part of a path", quoteInput(s), what)
	}
}

// words checks what is shown in one field of a listing, or is one word of the site's.
func (v *specCheck) words(s *Spec) {
	for _, f := range []struct {
		what, option, text string
		most               int
		isName             bool
	}{
		{"job description", "-jd", s.Description, MaxNameLength, false},
		{"queue name", "-q", s.Queue, maxPath, true}, // several, separated by blanks
		{"project name", "-P", s.Project, MaxNameLength, true},
		{"account", "-G", s.Account, maxPath, true},
		{"application profile", "-app", s.App, maxWord, true},
		{"image", "-image", s.Image, maxPath, false},
		{"reservation ID", "-U", s.Reservation, maxWord, true},
		{"mail address", "-u", s.MailUser, maxMailUser, false},
		{"submission host", "bsub", s.SubHost, maxWord, true},
		{"terminal type", "TERM", s.Term, maxWord, false},
		{"resource requirement", "-R", s.ResReq, maxResReqLength, false},
		{"GPU requirement", "-gpu", s.GPU, maxPath, false},
	} {
		if len(f.text) > f.most {
			v.add("%s: the %s has %d bytes, at most %d", f.option, f.what, len(f.text), f.most)
			continue
		}
		// A requirement may be written on several lines.
		text := f.text
		if f.option == "-R" || f.option == "-gpu" {
			text = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text)
		}
		v.err(fmt.Sprintf("%s %s: Bad %s", f.option, quoteInput(f.text), f.what), displayError(text))
		if f.isName {
			v.noDotDot(f.what, f.text)
		}
	}
	v.hash("script_hash", s.ScriptHash)
	v.hash("env_hash", s.EnvHash)
}

func (v *specCheck) hash(what, hash string) {
	if b, err := hex.DecodeString(hash); hash != "" && (err != nil || len(b) != 32 || strings.ToLower(hash) != hash) {
		v.add("internal error: %s is no SHA-256", what)
	}
}

// paths checks file names and commands: any bytes but NUL, which the kernel ends them at.
func (v *specCheck) paths(s *Spec) {
	for _, f := range []struct {
		option, text string
		most         int
	}{
		{"the command", s.Command, maxCommand}, {"-E", s.PreExec, maxCommand}, {"-Ep", s.PostExec, maxCommand},
		{"-cwd", s.CWD, maxPath}, {"-i", s.Stdin, maxPath}, {"-o", s.Stdout, maxPath}, {"-e", s.Stderr, maxPath},
		{"-L", s.Shell, maxPath}, {"the submission directory", s.SubCWD, maxPath},
	} {
		switch {
		case strings.IndexByte(f.text, 0) >= 0:
			v.add("%s holds a NUL byte", f.option)
		case len(f.text) > f.most:
			v.add("%s has %d bytes, at most %d", f.option, len(f.text), f.most)
		case f.most == maxPath && !utf8.ValidString(f.text):
			// Kept as JSON text, a name that is no UTF-8 would come back as another name.
			v.add("%s %s is not valid UTF-8", f.option, quoteInput(f.text))
		}
	}
	v.absolute("the submission directory", s.SubCWD)
	v.absolute("-L", s.Shell)
}

func (v *specCheck) absolute(what, path string) {
	if path != "" && !strings.HasPrefix(path, "/") {
		v.add("%s: %s must be an absolute path", what, quoteInput(path))
	}
}

func (v *specCheck) quantities(s *Spec) {
	if s.MinSlots < 0 || s.MinSlots > MaxSlots || s.MaxSlots < 0 || s.MaxSlots > MaxSlots {
		v.add("-n %d,%d: Bad processor count: want 1 to %d", s.MinSlots, s.MaxSlots, MaxSlots)
	} else if s.MaxSlots > 0 && s.MaxSlots < s.MinSlots {
		v.add("-n %d,%d: Bad processor count: the least is more than the most", s.MinSlots, s.MaxSlots)
	}
	if s.Memory < 0 || s.Memory > MaxMemory {
		v.add("-M %d: Bad MEMLIMIT specification: want at most 1 EB", s.Memory)
	}
	if s.RunLimit < 0 || s.RunLimit > MaxRunLimit {
		v.add("-W %s: Bad RUNLIMIT specification: want at most one year", s.RunLimit)
	}
	if s.Priority < 0 {
		v.add("-sp %d: Bad job priority: want a number from 1", s.Priority)
	}
	if s.Umask < 0 || s.Umask > 0o777 {
		v.add("umask %#o: want 0 to 0777", s.Umask)
	}
	for _, letter := range slices.Sorted(maps.Keys(s.Limits)) {
		n := s.Limits[letter]
		opt, ok := limitOptions[letter]
		most := map[byte]int64{'s': MaxMemory, 't': int64(MaxRunLimit / time.Second), 'n': maxCount}[opt.kind]
		if !ok || n < 0 || n > most || n == 0 && !opt.zero {
			v.add("-%s %d: no such limit, or out of its bounds", quoteInput(letter), n)
		}
	}
}

func (v *specCheck) times(s *Spec) {
	for _, t := range []time.Time{s.Begin, s.Terminate} {
		if y := t.Year(); !t.IsZero() && (y < 1970 || y > 9999) {
			v.add("-b and -t: Bad time specification: the year %d", y)
		}
	}
	if !s.Begin.IsZero() && !s.Terminate.IsZero() && !s.Terminate.After(s.Begin) {
		v.add("-t: the job would end before -b lets it start")
	}
}

func (v *specCheck) array(s *Spec) {
	if s.Array == nil {
		return
	}
	if n := len(s.Array.Ranges); n == 0 || n > maxArrayRanges {
		v.add("%s: %d ranges, want 1 to %d", errArrayIndex, n, maxArrayRanges)
	}
	for _, r := range s.Array.Ranges {
		if r.First < 1 || r.Last < r.First || r.Last > MaxArrayIndex || r.Step < 1 || r.Step > MaxArrayIndex {
			v.add("%s: %d-%d:%d", errArrayIndex, r.First, r.Last, r.Step)
		}
	}
	if s.Array.Limit < 0 || s.Array.Limit > MaxArrayIndex {
		v.add("%s: the limit %d", errArrayIndex, s.Array.Limit)
	}
	if s.Interactive.Session() {
		v.add("Interactive job arrays are not supported")
	}
}

func (v *specCheck) resources(s *Spec) {
	r := s.Resources
	if s.Resources.Select != "" {
		n, err := s.Resources.Select.parse()
		if err == nil && n.String() != string(s.Resources.Select) {
			err = errors.New("Bad resource requirement syntax: in select: not in canonical form")
		}
		v.err("", err)
	}
	if r.Memory < 0 || r.Memory > MaxMemory || r.GPUMemory < 0 || r.GPUMemory > MaxMemory || r.WholeGPUs < 0 ||
		r.WholeGPUs > maxGPUs || r.FGPU < 0 || r.FGPU > 10_000*nodes.OneFGPU {
		v.add("Error in rusage section: impossible quantities")
	}
	switch r.MemoryScope {
	case "", PerHost, PerTask, PerJob:
	default:
		v.add("Error in rusage section: scope %s", quoteInput(string(r.MemoryScope)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Consumables)) {
		if q := r.Consumables[name]; !isPlainName(name) || q < 0 || q > maxQuantity {
			v.add("Error in rusage section: %s=%d", quoteInput(name), q)
		}
	}
	if r.PerHost < 0 || r.PerHost > MaxSlots || r.OneHost && r.PerHost > 0 || r.Cores < 0 || r.Cores > maxCores {
		v.add("Bad resource requirement syntax: impossible span or affinity")
	}
	_, err := GPURequest(s)
	v.err("", err)
	if len(s.Hosts) > 0 {
		parsed, err := ParseHosts(FormatHosts(s.Hosts))
		if err == nil && !slices.Equal(parsed, s.Hosts) {
			err = fmt.Errorf("-m %s: Bad host specification: not in canonical form", quoteInput(FormatHosts(s.Hosts)))
		}
		v.err("", err)
	}
}

// together checks options that exclude each other.
func (v *specCheck) together(s *Spec) {
	switch s.Interactive {
	case Batch, Wait, Pipes, Pty, PtyShell:
	default:
		v.add("%s: Bad kind of interaction: want -K, -I, -Ip or -Is", quoteInput(string(s.Interactive)))
	}
	if s.Overwrite && s.Stdout == "" {
		v.add("-oo: no output file")
	}
	if s.OverwriteE && s.Stderr == "" {
		v.add("-eo: no error file")
	}
}
