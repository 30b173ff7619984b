package accounting

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fairslice/nodes"
)

// word is one word of a policy's line: "physics", "shares=3", `description="High energy"`.
type word struct {
	key   string // before the =, "" without one
	value string
}

// String is the word without quotes, for errors.
func (w word) String() string {
	if w.key == "" {
		return w.value
	}
	return w.key + "=" + w.value
}

// split cuts a line into words at blanks. What follows a = may be in double quotes, in which \" and \\ stand for " and \.
func split(line string) ([]word, error) {
	var out []word
	if !utf8.ValidString(line) {
		return nil, errors.New("the line is not UTF-8; want text")
	}
	for i, r := range line {
		if unicode.IsControl(r) && r != '\t' {
			return nil, fmt.Errorf("character %q at byte %d; want no control characters", r, i+1)
		}
	}
	for rest := strings.TrimLeft(line, " \t"); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, " \t") {
		end := strings.IndexAny(rest, " \t\"")
		if end < 0 || rest[end] != '"' {
			if end < 0 {
				end = len(rest)
			}
			key, value, pair := strings.Cut(rest[:end], "=")
			switch {
			case pair && key == "":
				return nil, fmt.Errorf("%s: want a word before the =", shown(rest[:end]))
			case pair && value == "":
				return nil, fmt.Errorf("%s: want a value after the =", shown(rest[:end]))
			case !pair:
				key, value = "", key
			}
			out, rest = append(out, word{key, value}), rest[end:]
			continue
		}
		key := strings.TrimSuffix(rest[:end], "=")
		if len(key) == end || key == "" || strings.Contains(key, "=") {
			return nil, fmt.Errorf("%s: want a quote only right after a =, as in description=\"High energy\"", shown(rest[:end+1]))
		}
		value, after, err := unquote(rest[end+1:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if after != "" && after[0] != ' ' && after[0] != '\t' {
			return nil, fmt.Errorf("%s: %s follows the closing quote; want a blank", key, shown(after))
		}
		out, rest = append(out, word{key, value}), after
	}
	return out, nil
}

// unquote reads to the closing quote.
func unquote(s string) (value, after string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			return "", "", errors.New(`\ in quotes: want \" or \\`)
		}
	}
	return "", "", errors.New("no closing quote; want one on the same line")
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func quoteIfNeeded(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\"#") {
		return quote(s)
	}
	return s
}

// eachOption gives every word to the function of its key, at most once each. A flag is a word without =.
func eachOption(words []word, item string, set map[string]func(string) error) error {
	seen := map[string]bool{}
	for _, w := range words {
		name := w.key
		if name == "" {
			name = w.value
		}
		f, known := set[name]
		isFlag := name == "default" || name == "hard" || name == "soft"
		switch {
		case !known:
			return fmt.Errorf("%s: %s is not known here; want %s", item, shown(w.String()), options(set))
		case isFlag && w.key != "":
			return fmt.Errorf("%s: %s: want just the word %s", item, shown(w.String()), name)
		case !isFlag && w.key == "":
			return fmt.Errorf("%s: %s: want %s=VALUE", item, shown(name), name)
		case seen[name]:
			return fmt.Errorf("%s: %s is given twice", item, name)
		}
		seen[name] = true
		value := w.value
		if isFlag {
			value = ""
		}
		if err := f(value); err != nil {
			return fmt.Errorf("%s: %s: %w", item, shown(w.String()), err)
		}
	}
	return nil
}

func options(set map[string]func(string) error) string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func flag(to *bool) func(string) error {
	return func(string) error { *to = true; return nil }
}

// shown is a piece of the text as errors show it: never more than a line, never what a terminal would act on.
func shown(s string) string {
	const most = 60
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "..."
	}
	if q := strconv.Quote(s); q != `"`+s+`"` || s == "" || strings.Contains(s, " ") {
		return q + cut
	}
	return s + cut
}

const (
	maxName        = 64  // bytes
	maxDescription = 200 // bytes
	maxImage       = 400 // bytes
)

// checkName holds names to what is safe in a table of any program: the first character is a letter, a digit or _, so
// that no spreadsheet takes a name for a formula, and no command takes it for an option.
func checkName(what, s string) error {
	if len(s) > maxName {
		return fmt.Errorf("%s %s: has %d bytes; at most %d", what, shown(s), len(s), maxName)
	}
	for i, r := range s {
		inner := i > 0 && strings.ContainsRune(".-@+$", r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && !inner {
			return fmt.Errorf("%s %s: want letters, digits and _, and after the first also . - @ + $", what, shown(s))
		}
	}
	if s == "" {
		return fmt.Errorf("%s: want a name, not nothing", what)
	}
	return nil
}

func checkDescription(s string) error {
	switch {
	case len(s) > maxDescription:
		return fmt.Errorf("has %d bytes; at most %d", len(s), maxDescription)
	case s != "" && strings.ContainsRune("=+-@", rune(s[0])):
		return errors.New("must not begin with = + - or @, which a spreadsheet takes for a formula")
	}
	return nil
}

func checkImage(s string) error {
	if len(s) > maxImage {
		return fmt.Errorf("image %s: has %d bytes; at most %d", shown(s), len(s), maxImage)
	}
	for _, r := range s {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\\' {
			return fmt.Errorf("image %s: want a reference without blanks and quotes", shown(s))
		}
	}
	return nil
}

func parseShares(s string) (int64, error) { return parseWhole(s, MaxShares) }

// parseWhole reads a whole number from 0 to most.
func parseWhole(s string, most int64) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || int64(n) > most || s[0] == '+' {
		return 0, fmt.Errorf("want a whole number from 0 to %d", most)
	}
	return int64(n), nil
}

// parseHundredths reads a decimal number with at most two decimals, up to most whole ones, in hundredths.
func parseHundredths(s string, most int64) (int64, error) {
	whole, frac, dotted := strings.Cut(s, ".")
	w, err := parseWhole(whole, most)
	if whole == "" || err != nil || dotted && frac == "" || len(frac) > 2 || strings.Trim(frac, "0123456789") != "" {
		return 0, fmt.Errorf("want a number from 0 to %d with at most two decimals, such as 0.5", most)
	}
	f, _ := strconv.ParseInt((frac + "00")[:2], 10, 64) // two digits
	if n := w*100 + f; n <= most*100 {
		return n, nil
	}
	return 0, fmt.Errorf("want a number from 0 to %d", most)
}

// maxHours bounds a budget: a million GPUs for more than ten years.
const maxHours = 100_000_000_000

func parseHours(s string) (int64, error) {
	n, err := parseHundredths(s, maxHours)
	if err == nil && n == 0 {
		err = errors.New("want more than 0; to allow none, use: limit account=NAME fgpu=0")
	}
	return n, err
}

func hundredths(n int64) string { return nodes.Amount(n).String() }

const (
	maxCount    = 1_000_000_000  // of jobs, slots, sessions and submissions
	maxBytes    = int64(1) << 60 // 1 EB
	maxFGPU     = 1_000_000_000  // whole ones
	maxWallDays = 3660           // ten years
	sizeLetters = "KMGTPE"       // each 1024 times the one before
	wallUnits   = "want minutes, hours:minutes, or a number with m, h or d, such as 90, 1:30, 36h, 7d; from 1 minute to 3660 days"
	sizeUnits   = "want a whole number with K, M, G, T, P or E, of 1024 each, such as 64G, up to 1E; or 0"
	rateUnits   = "want a whole number of submissions in a minute, such as 100/m"
	day         = 24 * time.Hour
	maxYear     = 2199
	minYear     = 2000
	dateText    = "want a day of the calendar as YYYY-MM-DD, from 2000-01-01 to 2199-12-31"
	dateFormat  = "2006-01-02"
	maxWall     = maxWallDays * day
	periodText  = "want month, quarter or until:YYYY-MM-DD"
	untilPrefix = "until:"
)

func parseSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	if s == "" {
		return 0, errors.New(sizeUnits)
	}
	letter := strings.IndexByte(sizeLetters, s[len(s)-1]&^0x20) // either case
	if letter < 0 {
		return 0, errors.New(sizeUnits)
	}
	shift := 10 * (letter + 1)
	n, err := parseWhole(s[:len(s)-1], maxBytes>>shift)
	if err != nil {
		return 0, errors.New(sizeUnits)
	}
	return n << shift, nil
}

// sizeString is the shortest text that parseSize reads back as n, which must be whole K.
func sizeString(n int64) string {
	if n == 0 {
		return "0"
	}
	letter := 0
	for n >>= 10; n%1024 == 0 && letter+1 < len(sizeLetters); n >>= 10 {
		letter++
	}
	return strconv.FormatInt(n, 10) + sizeLetters[letter:letter+1]
}

func parseWall(s string) (time.Duration, error) {
	bad := errors.New(wallUnits)
	if s == "" {
		return 0, bad
	}
	minute := int64(1)
	number := s[:len(s)-1]
	switch s[len(s)-1] {
	case 'm':
	case 'h':
		minute = 60
	case 'd':
		minute = 24 * 60
	default:
		number = s
	}
	most := int64(maxWall / time.Minute)
	hours, minutes, both := strings.Cut(number, ":")
	if both && number != s {
		return 0, bad
	}
	var h int64
	var err error
	if both {
		if h, err = parseWhole(hours, most/60); err != nil || len(minutes) != 2 || minutes > "59" {
			return 0, bad
		}
	} else {
		minutes = number
	}
	n, err := parseWhole(minutes, most/minute)
	if n = n*minute + h*60; err != nil || n < 1 || n > most {
		return 0, bad
	}
	return time.Duration(n) * time.Minute, nil
}

func wallString(d time.Duration) string {
	switch {
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
}

func parseRate(s string) (int64, error) {
	number, ok := strings.CutSuffix(s, "/m")
	n, err := parseWhole(number, maxCount)
	if !ok || err != nil {
		return 0, errors.New(rateUnits)
	}
	return n, nil
}

func parseDate(s string) (Date, error) {
	t, err := time.Parse(dateFormat, s) // refuses days that do not exist
	if err != nil || t.Year() < minYear || t.Year() > maxYear {
		return Date{}, errors.New(dateText)
	}
	return Date{t.Year(), int(t.Month()), t.Day()}, nil
}

// String is the date as YYYY-MM-DD.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

func parsePeriod(s string) (Period, Date, error) {
	switch until, ok := strings.CutPrefix(s, untilPrefix); {
	case s == string(Month) || s == string(Quarter):
		return Period(s), Date{}, nil
	case ok:
		d, err := parseDate(until)
		return UntilDate, d, err
	}
	return "", Date{}, errors.New(periodText)
}
