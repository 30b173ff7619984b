package test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// ids are the jobs that a script has submitted, in order. Transcripts call them 101, 102, …
type ids []string

var submitted = regexp.MustCompile(`Job <(\d+)> is submitted`)

func (k *ids) learn(out string) {
	for _, m := range submitted.FindAllStringSubmatch(out, -1) {
		*k = append(*k, m[1])
	}
}

// variable is the value of $J or $J1, ….
func (k *ids) variable(name string) (string, bool) {
	n := len(*k)
	if name != "J" {
		var err error
		rest, ok := strings.CutPrefix(name, "J")
		if n, err = strconv.Atoi(rest); !ok || err != nil {
			return "", false
		}
	}
	if n < 1 || n > len(*k) {
		return "", false
	}
	return (*k)[n-1], true
}

// shell is a command line in the current directory and environment of the script.
func shell(ts *testscript.TestScript, line string, known *ids) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "STATE", "FAIRSLICE_ADDR", "TZ", "USER", "LSB_BJOBS_CONSISTENT_EXIT_CODE"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for i, id := range *known {
		cmd.Env = append(cmd.Env, fmt.Sprintf("J%d=%s", i+1, id), "J="+id)
	}
	return cmd
}

func exitLine(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf("[exit %d]\n", code)
}

// folded are the commands whose long lines are folded at column 79.
var folded = regexp.MustCompile(`\b(bjobs|bhist|bacct)\b[^|]* -l\b`)

// normaliser replaces what differs from run to run by words that are as wide.
type normaliser struct {
	c      *cluster
	work   string
	known  *ids
	folded bool
}

func (n *normaliser) block(text, prefix string) string {
	if text == "" {
		return ""
	}
	ended := strings.HasSuffix(text, "\n")
	text = strings.TrimSuffix(text, "\n")
	if n.folded {
		text = unfold(text)
	}
	text = sums(n.seconds(n.values(n.names(text))))
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if n.folded {
			l = fold(l)
		}
		lines[i] = strings.ReplaceAll(prefix+l, "\n", "\n"+prefix)
	}
	text = strings.Join(lines, "\n") + "\n"
	if !ended {
		text += "[no line end]\n"
	}
	return text
}

// unfold joins what was folded: names have other lengths elsewhere.
func unfold(text string) string {
	var b strings.Builder
	last := 0
	for i, l := range strings.Split(text, "\n") {
		rest, indented := strings.CutPrefix(l, strings.Repeat(" ", 21))
		switch {
		case i == 0:
		case indented && last == 79:
			b.WriteString(rest)
			last = len(l)
			continue
		default:
			b.WriteByte('\n')
		}
		b.WriteString(l)
		last = len(l)
	}
	return b.String()
}

func fold(l string) string {
	if len(l) <= 79 || strings.HasPrefix(l, "----") {
		return l
	}
	var b strings.Builder
	b.WriteString(l[:79])
	for l = l[79:]; l != ""; {
		m := min(58, len(l))
		b.WriteString("\n" + strings.Repeat(" ", 21) + l[:m])
		l = l[m:]
	}
	return b.String()
}

// names replaces the places and names of this machine.
func (n *normaliser) names(s string) string {
	s = strings.ReplaceAll(s, n.work, "/w")
	s = strings.ReplaceAll(s, n.c.dir, "/state")
	s = regexp.MustCompile(`charged </(\S*/)?`+regexp.QuoteMeta(n.c.user)+`>`).ReplaceAllString(s, "charged </${1}alice>")
	if n.c.home != "/" {
		s = regexp.MustCompile(regexp.QuoteMeta(n.c.home)+`([/>]|$)`).ReplaceAllString(s, "/home/alice$1")
	}
	s = column(s, n.c.user, "alice", 7)
	s = column(s, n.c.host, "subhost", 11)
	if len(n.c.host) > 11 {
		s = column(s, n.c.host[:11], "subhost", 11)
	}
	if len(*n.known) == 0 {
		return s
	}
	word := regexp.MustCompile(`\d+`)
	at := word.FindAllStringIndex(s, -1)
	var b strings.Builder
	end := 0
	for _, m := range at {
		b.WriteString(s[end:m[0]])
		end = m[1]
		b.WriteString(n.id(s[m[0]:m[1]]))
	}
	return b.String() + s[end:]
}

// id is the number by which transcripts call a job.
func (n *normaliser) id(number string) string {
	for i, id := range *n.known {
		if id == number {
			return strconv.Itoa(101 + i)
		}
	}
	return number
}

// column replaces a name: in a column as wide as the table makes it, else as it is.
func column(s, name, by string, width int) string {
	re := regexp.MustCompile(`(^|[\n <"/|@])` + regexp.QuoteMeta(name) + `([>"|,\n']| +|$)`)
	return re.ReplaceAllStringFunc(s, func(m string) string {
		p := re.FindStringSubmatch(m)
		// "killed by root or LSF administrator" is no name.
		if gap := len(p[2]); strings.HasPrefix(p[2], " ") && (gap > 1 || len(name) >= width) {
			full := max(width, len(name))
			return p[1] + by + strings.Repeat(" ", max(width-len(by), 0)+gap-(full-len(name)))
		}
		return p[1] + by + p[2]
	})
}

const (
	month = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
	day   = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`
)

var valueRules = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`(?m)^.*: Resource usage collected\..*\n(?: {21}.*\n)*`), ""},
	{regexp.MustCompile(`(?m)^ MEMORY USAGE:\n MAX MEM:.*\n\n?`), ""},
	{regexp.MustCompile(day + ` ` + month + ` [ \d]\d \d\d:\d\d:\d\d \d{4}`), "Thu Jan  1 00:00:00 1970"},
	{regexp.MustCompile(day + ` ` + month + ` [ \d]\d \d\d:\d\d:\d\d`), "Thu Jan  1 00:00:00"},
	{regexp.MustCompile(month + ` [ \d]\d \d\d:\d\d:\d\d \d{4}`), "Jan  1 00:00:00 1970"},
	{regexp.MustCompile(month + ` [ \d]\d \d\d:\d\d`), "Jan  1 00:00"},
	{regexp.MustCompile(month + ` +\d+ \d{4}`), "Jan  1 1970"},
	{regexp.MustCompile(`\d\d/\d\d-\d\d:\d\d:\d\d`), "01/01-00:00:00"},
	{regexp.MustCompile(`\d{3}:\d\d:\d\d\.\d\d`), "000:00:00.00"},
	{regexp.MustCompile(`(Priority: queue \d+, then )[\d.]+ = xfactor [\d.]+ \(([\d.]+) x [\d.]+\)`), "${1}0.9 = xfactor 0.9 (${2} x 0.9)"},
	{regexp.MustCompile(`CPU time used is [\d.]+ seconds`), "CPU time used is 0.0 seconds"},
	{regexp.MustCompile(`[\d.]+ second\(s\)`), "0 second(s)"},
	{regexp.MustCompile(`\(Pid \d+\)`), "(Pid 1)"},
	{regexp.MustCompile(`Execution Pid <\d+>`), "Execution Pid <1>"},
	{regexp.MustCompile(`(?m)^(    (?:CPU time|Run time|Turnaround time) : +)[\d.]+ sec\.`), "${1}0 sec."},
	{regexp.MustCompile(`(?m)^(    (?:Max Memory|Average Memory|Delta Memory|Max Swap|Max Processes|Max Threads) : +)\S.*$`), "${1}?"},
	{regexp.MustCompile(`\d+ (?:s|ms) ago`), "0 s ago"},
	{regexp.MustCompile(`([Vv]ersion) \d+ (of the policy|is in force)`), "$1 7 $2"},
	{regexp.MustCompile(`\bwant( a tree below)? alice\b`), "want$1 root"}, // an account, whose name the tests' user may have
	{regexp.MustCompile(`(?m)^# version \d+, set by (\S+) at [-\d]+ [:\d]+$`), "# version 7, set by $1 at 1970-01-01 00:00:00"},
	{regexp.MustCompile(`(?m)^[-\d]{10} [:\d]{8} +(\S+) +version \d+$`), "1970-01-01 00:00:00  $1  version 7"},
	{regexp.MustCompile(`(?m)^ +[\d.]+ +\d+ +\d+ +(done|exit) +[\d.]+ +[\d.]+[KMG] +0M$`), "      0.00        0              0     $1         0.0000     0M      0M"},
	{regexp.MustCompile(`(?m)^     USED: CPU time [\d.]+ of [\d.]+ slot-seconds \([\d.]+ %\)$`), "     USED: CPU time 0.00 of 0.00 slot-seconds (0.00 %)"},
	{regexp.MustCompile(`(?m)^ +[\d.]+% +[\d.]+%$`), "                      0.00%               0.00%"},
	{regexp.MustCompile(`(Jan  1 00:00 ) +[\d.]+ +\d+ +\d+ +(done|exit) +[\d.]+ `), "$1      0.00        0              0     $2         0.0000 "},
	{regexp.MustCompile(`(Expected start: .*), in .*\.`), "$1, in 1 d."},
	{regexp.MustCompile(`\(\d+ (?:s|ms)\)`), "(0 s)"},
}

func (n *normaliser) values(s string) string {
	for _, r := range valueRules {
		s = r.re.ReplaceAllString(s, r.by)
	}
	return s
}

var (
	stateTimes = regexp.MustCompile(`PEND +PSUSP +RUN +USUSP +SSUSP +UNKWN +TOTAL`)
	lastSeven  = regexp.MustCompile(`(?:\d+ +){6}\d+ *$`)
	digits     = regexp.MustCompile(`\d+`)
)

// seconds blanks the numbers of bhist's tables.
func (n *normaliser) seconds(s string) string {
	lines := strings.Split(s, "\n")
	in := false
	for i, l := range lines {
		switch {
		case stateTimes.MatchString(l):
			in = true
		case in:
			lines[i] = lastSeven.ReplaceAllStringFunc(l, func(m string) string {
				return digits.ReplaceAllStringFunc(m, func(d string) string { return "n" + strings.Repeat(" ", len(d)-1) })
			})
		}
	}
	return strings.Join(lines, "\n")
}

var (
	summary    = regexp.MustCompile(`(?s)\nSUMMARY: .*`)
	measured   = regexp.MustCompile(`((?:CPU|Run|wait|turnaround) time[a-z A-Z]*:|factor of a job:|throughput:|during)( +[\d.]+)`)
	lastDigits = regexp.MustCompile(`[\d.]+$`)
)

// sums blanks what bacct measures, and keeps what it counts.
func sums(s string) string {
	return summary.ReplaceAllStringFunc(s, func(text string) string {
		return measured.ReplaceAllStringFunc(text, func(m string) string {
			return lastDigits.ReplaceAllStringFunc(m, func(d string) string { return strings.Repeat(" ", len(d)-1) + "n" })
		})
	})
}
