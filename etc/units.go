package etc

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Bounds of what can be written down. The first two are queue.MaxMemory and queue.MaxRunLimit, the
// last is the most that nodes.ParseAmount reads.
const (
	maxSize             = int64(1) << 60
	maxRunLimit         = 365 * 24 * time.Hour
	maxAmount    Amount = 10_000 * 100
	sizeLetters         = "KMGTPE"
	wantSize            = `want a size with its unit, such as "512MiB" or "4GiB" (K M G T P E, always base 1024)`
	wantRunLimit        = `want [hour:]minute or a duration, such as "90", "24:00" or "36h"`
	wantDuration        = `want a duration with its units, such as "90s" or "1h30m"`
	wantAmount          = `want a number of fGPU above 0 with at most two decimals, such as 2 or 0.25`
)

// parseSize reads "4GiB", "4GB", "4G" or "1.5g" into bytes, always base 1024, part of a byte rounded up. A
// number without a unit is refused: whether 4096 means bytes or KB is what people get wrong.
func parseSize(s string) (int64, error) {
	text := strings.TrimSpace(s)
	suffix := strings.TrimLeft(text, "0123456789.")
	number := text[:len(text)-len(suffix)]
	unit := strings.ToUpper(strings.TrimSpace(suffix))
	letter := -1
	if unit != "" && (unit[1:] == "" || unit[1:] == "B" || unit[1:] == "IB") {
		letter = strings.IndexByte(sizeLetters, unit[0])
	}
	// The length is bounded before a big number is made of the text.
	if letter < 0 || !isDecimal(number) || len(number) > 40 {
		return 0, fmt.Errorf("%s; got %s", wantSize, quote(s))
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%s; got %s", wantSize, quote(s))
	}
	r.Mul(r, new(big.Rat).SetInt64(1<<(10*(letter+1))))
	if r.Cmp(new(big.Rat).SetInt64(maxSize)) > 0 {
		return 0, fmt.Errorf("%s is more than 1 EiB", quote(s))
	}
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	n := q.Int64()
	if m.Sign() > 0 {
		n++
	}
	return n, nil
}

// parseRunLimit reads LSF's "[hour:]minute" or a duration: "90" are minutes, "90s" are seconds.
func parseRunLimit(s string) (time.Duration, error) {
	text := strings.TrimSpace(s)
	d, err := time.ParseDuration(text)
	if hours, minutes, colon := strings.Cut(text, ":"); isDigits(hours) && (!colon || isDigits(minutes)) {
		if !colon {
			hours, minutes = "0", hours
		}
		d, err = parseMinutes(hours, minutes)
	}
	switch {
	case err != nil || d < 0:
		return 0, fmt.Errorf("%s; got %s", wantRunLimit, quote(s))
	case d == 0:
		return 0, errNoLimit
	case d > maxRunLimit:
		return 0, fmt.Errorf("%s is more than one year", quote(s))
	}
	return d, nil
}

// parseMinutes is exact up to ten years; more is not read, so that nothing can overflow.
func parseMinutes(hours, minutes string) (time.Duration, error) {
	const most = 10 * maxRunLimit
	h, err1 := strconv.ParseInt(hours, 10, 64)
	m, err2 := strconv.ParseInt(minutes, 10, 64)
	if err1 != nil || err2 != nil || h > int64(most/time.Hour) || m > int64(most/time.Minute) {
		return most, nil // digits only, so an error means too many of them
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute, nil
}

// errNoLimit keeps a 0 from meaning either "nothing at all" or "as much as you like".
var errNoLimit = errors.New("0 is no limit: leave the key out for none")

// parseAmount reads 1/100 fGPU as nodes.ParseAmount does.
func parseAmount(s string) (Amount, error) {
	whole, frac, dotted := strings.Cut(s, ".")
	if !isDigits(whole) || dotted && !isDigits(frac) || len(frac) > 2 {
		return 0, fmt.Errorf("%s; got %s", wantAmount, quote(s))
	}
	var a Amount
	for _, c := range []byte(whole + (frac + "00")[:2]) {
		if a = a*10 + Amount(c-'0'); a > maxAmount {
			return 0, fmt.Errorf("%s is more than %d fGPU", quote(s), maxAmount/100)
		}
	}
	if a == 0 {
		return 0, fmt.Errorf("%s; got %s", wantAmount, quote(s))
	}
	return a, nil
}

func isDecimal(s string) bool {
	whole, frac, dotted := strings.Cut(s, ".")
	return isDigits(whole) && (!dotted || isDigits(frac))
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// quote shows a text of the file in a message: quoted, and never more than a line of it.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
