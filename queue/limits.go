package queue

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Bounds of what can be asked for. They are far above any machine, so that sums over a cluster cannot overflow.
const (
	MaxMemory   int64         = 1 << 60              // bytes: 1 EB
	MaxRunLimit time.Duration = 365 * 24 * time.Hour // one year
	MaxSlots                  = 1_000_000
)

const (
	kib int64 = 1 << 10
	mib int64 = 1 << 20
)

// unitLetters are LSF's, each 1024 times the one before.
const unitLetters = "KMGTPE"

// ParseMemory reads -M: a decimal number in unit bytes (the site's LSF_UNIT_FOR_LIMITS), or with a
// unit of its own: K M G T P E, KB …, KiB …, in any case, always base 1024. LSF's "hard limit" mark
// "!" at the end is accepted: every memory limit here is hard. Part of a byte is rounded up. Zero is
// an error, because a stored 0 means "no limit".
func ParseMemory(s string, unit int64) (int64, error) {
	bytes, err := parseSize(strings.TrimSuffix(strings.TrimSpace(s), "!"), unit)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: Bad MEMLIMIT specification: %w", quoteInput(s), err)
	case bytes == 0:
		return 0, fmt.Errorf("%s: Bad MEMLIMIT specification: 0 is no limit; leave -M out for none", quoteInput(s))
	}
	return bytes, nil
}

// parseSize is ParseMemory without the mark and without LSF's words; it accepts 0.
func parseSize(s string, unit int64) (int64, error) {
	digits := strings.TrimLeft(s, "0123456789.")
	number, suffix := s[:len(s)-len(digits)], digits
	if unit <= 0 || unit > 1<<60 {
		return 0, fmt.Errorf("internal error: a unit of %d bytes", unit)
	}
	if suffix != "" {
		u, ok := unitOf(suffix)
		if !ok || number == "" {
			return 0, fmt.Errorf("want a number and a unit, one of K M G T P E (KB, MiB … too), such as 4G or 1.5GB; got %s", quoteInput(s))
		}
		unit = u
	}
	// The length is bounded before big numbers are made of the text; 40 digits are more than any size needs.
	if !decimal(number) || len(number) > 40 {
		return 0, fmt.Errorf("want a number such as 4096, 4G or 1.5GB, got %s", quoteInput(s))
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("want a number such as 4096, 4G or 1.5GB, got %s", quoteInput(s))
	}
	r.Mul(r, new(big.Rat).SetInt64(unit))
	if r.Cmp(new(big.Rat).SetInt64(MaxMemory)) > 0 {
		return 0, fmt.Errorf("%s is more than 1 EB, the most that can be asked for", quoteInput(s))
	}
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	bytes := q.Int64()
	if m.Sign() > 0 {
		bytes++
	}
	return bytes, nil
}

// unitOf reads "G", "gb" or "GiB".
func unitOf(suffix string) (int64, bool) {
	s := strings.ToUpper(suffix)
	if s == "" {
		return 0, false
	}
	i := strings.IndexByte(unitLetters, s[0])
	if i < 0 || s[1:] != "" && s[1:] != "B" && s[1:] != "IB" {
		return 0, false
	}
	return 1 << (10 * (i + 1)), true
}

// decimal says that s is digits with at most one point, and a digit on each side of it.
func decimal(s string) bool {
	whole, frac, dotted := strings.Cut(s, ".")
	return allDigits(whole) && (!dotted || allDigits(frac))
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// quoteInput shows a piece of the user's text in an error: as it is when it is plain, quoted when it
// is not, and never more than a line of it.
func quoteInput(s string) string {
	const most = 60
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "..."
	}
	if q := strconv.Quote(s); len(q) != len(s)+2 || s == "" || strings.Contains(s, " ") {
		return q + cut
	}
	return s + cut
}

// exactSize is the shortest text that parseSize reads back as bytes, which must be whole KB.
func exactSize(bytes int64) string {
	unit, letter := kib, 0
	for letter < len(unitLetters)-1 && bytes%(unit*1024) == 0 && bytes > 0 {
		unit, letter = unit*1024, letter+1
	}
	return strconv.FormatInt(bytes/unit, 10) + unitLetters[letter:letter+1]
}

// FormatMemory prints bytes as LSF's listings do: "9 Mbytes", "5.2 Gbytes". Below one megabyte it
// shows kilobytes. One decimal from gigabytes on, left out when it is 0; rounded to the nearest.
func FormatMemory(bytes int64) string {
	if bytes <= 0 {
		return "0 Mbytes"
	}
	unit, letter := kib, 0
	for letter < len(unitLetters)-1 && bytes/1024 >= unit {
		unit, letter = unit*1024, letter+1
	}
	if letter < 2 {
		return fmt.Sprintf("%d %cbytes", max((bytes+unit/2)/unit, 1), unitLetters[letter])
	}
	text := strconv.FormatFloat(float64(bytes)/float64(unit), 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + unitLetters[letter:letter+1] + "bytes"
}

// ParseRunLimit reads -W: "[hour:]minute[/host]". Minutes may exceed 59. LSF's "/host" asks to count
// time at that host's speed; here a minute is a minute, so a name is checked and then not used. At
// least a minute, at most a year.
func ParseRunLimit(s string) (time.Duration, error) {
	minutes, err := parseMinutes(s)
	if err != nil {
		return 0, fmt.Errorf("%s: Bad RUNLIMIT specification: %w", quoteInput(s), err)
	}
	return time.Duration(minutes) * time.Minute, nil
}

const maxMinutes = int64(MaxRunLimit / time.Minute)

// parseMinutes reads "[hour:]minute[/host]" into minutes, 1 to a year's.
func parseMinutes(s string) (int64, error) {
	const want = "want [hour:]minute[/host_name] such as 90 or 1:30"
	text, host, slash := strings.Cut(strings.TrimSpace(s), "/")
	if slash && hostNameError(host) != nil {
		return 0, fmt.Errorf("%s; %s is no host name", want, quoteInput(host))
	}
	first, second, colon := strings.Cut(text, ":")
	if strings.Contains(second, ":") {
		return 0, fmt.Errorf("%s; seconds cannot be given", want)
	}
	if !allDigits(first) || colon && !allDigits(second) {
		return 0, fmt.Errorf("%s; got %s", want, quoteInput(text))
	}
	var total int64
	for _, part := range []struct {
		text   string
		factor int64
	}{{first, map[bool]int64{true: 60, false: 1}[colon]}, {second, 1}} {
		if part.text == "" {
			continue
		}
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n > maxMinutes {
			return 0, fmt.Errorf("more than one year (%d minutes)", maxMinutes)
		}
		total += n * part.factor
	}
	switch {
	case total > maxMinutes:
		return 0, fmt.Errorf("more than one year (%d minutes)", maxMinutes)
	case total == 0:
		return 0, fmt.Errorf("want at least one minute; leave the option out for the queue's default")
	}
	return total, nil
}

// ParseSlots reads -n: "4", "2,8" (at least 2, at most 8), or "4," which some scripts write for "4".
// Whether the queue allows that many is decided elsewhere.
func ParseSlots(s string) (least, most int, err error) {
	first, second, comma := strings.Cut(strings.TrimSpace(s), ",")
	if least, err = parseSlotCount(first); err != nil {
		return 0, 0, fmt.Errorf("%s: Bad processor count: %w", quoteInput(s), err)
	}
	if !comma || strings.TrimSpace(second) == "" {
		return least, least, nil
	}
	if most, err = parseSlotCount(second); err != nil {
		return 0, 0, fmt.Errorf("%s: Bad processor count: %w", quoteInput(s), err)
	}
	if least > most {
		return 0, 0, fmt.Errorf("%s: Bad processor count: the least, %d, is more than the most, %d", quoteInput(s), least, most)
	}
	return least, most, nil
}

func parseSlotCount(s string) (int, error) {
	s = strings.TrimSpace(s)
	if !allDigits(s) {
		return 0, fmt.Errorf("want min[,max] such as 4 or 2,8; got %s", quoteInput(s))
	}
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n > MaxSlots:
		return 0, fmt.Errorf("%s is more than %d", quoteInput(s), MaxSlots)
	case n == 0:
		return 0, fmt.Errorf("a job needs at least one slot")
	}
	return n, nil
}

// limitOption describes one of LSF's per-process limits.
type limitOption struct {
	what string
	kind byte // 's' size, 't' time, 'n' count
	zero bool // whether 0 makes sense: no core files is a wish, no stack is a mistake
}

var limitOptions = map[string]limitOption{
	"C": {"CORELIMIT", 's', true},
	"D": {"DATALIMIT", 's', false},
	"F": {"FILELIMIT", 's', false},
	"S": {"STACKLIMIT", 's', false},
	"v": {"SWAPLIMIT", 's', false},
	"c": {"CPULIMIT", 't', false},
	"p": {"PROCESSLIMIT", 'n', false},
	"T": {"THREADLIMIT", 'n', false},
}

// maxCount bounds -p and -T: Linux has no more process numbers.
const maxCount = 4 << 20

// ParseLimit reads one of -C -D -F -S -v (a size, as ParseMemory), -c ([hour:]minute[/host], in
// seconds) and -p -T (a count), the way Spec.Limits keeps it.
func ParseLimit(letter, s string, unit int64) (int64, error) {
	opt, ok := limitOptions[letter]
	if !ok {
		return 0, fmt.Errorf("-%s is no limit: want one of -C -c -D -F -p -S -T -v", letter)
	}
	var n int64
	var err error
	text := strings.TrimSpace(s)
	switch opt.kind {
	case 's':
		n, err = parseSize(text, unit)
	case 't':
		n, err = parseMinutes(text)
		n *= 60
	default:
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || !allDigits(text) || n > maxCount {
			err = fmt.Errorf("want a number from 1 to %d", maxCount)
		}
	}
	if err == nil && n == 0 && !opt.zero {
		err = fmt.Errorf("0 is no limit; leave -%s out for none", letter)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: Bad %s specification: %w", quoteInput(s), opt.what, err)
	}
	return n, nil
}
