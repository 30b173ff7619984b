package etc

import (
	"fmt"
	"strconv"
	"strings"
)

// Accounting is how long the past is kept in the database, and what is written of it besides.
type Accounting struct {
	Keep       Months `toml:"keep"`        // 0: for ever
	ArchiveDir string `toml:"archive_dir"` // where batchd puts what is older; never "" with Keep
	MonthlyDir string `toml:"monthly_dir"` // "" for no monthly files
}

// Months is a time in months of the calendar.
type Months int

// maxMonths is a hundred years.
const maxMonths = 1200

const wantMonths = `want a number of months or years, such as "24 months" or "2 years", or "" for ever`

// parseMonths reads "24 months" or "2 years", and "" as 0.
func parseMonths(s string) (Months, error) {
	if s == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(strings.TrimSpace(s), " ")
	each := map[string]int{"month": 1, "months": 1, "year": 12, "years": 12}[strings.TrimSpace(unit)]
	n, err := strconv.Atoi(number)
	switch {
	case !isDigits(number) || each == 0:
		return 0, fmt.Errorf("%s; got %s", wantMonths, quote(s))
	case err != nil || n > maxMonths/each:
		return 0, fmt.Errorf("%s is more than 100 years", quote(s))
	case n == 0:
		return 0, fmt.Errorf("%s; got %s", wantMonths, quote(s))
	}
	return Months(n * each), nil
}

func (v *checker) accounting(a *Accounting) {
	at := func(key string) path { return path{"accounting", key} }
	if a.Keep < 0 || a.Keep > maxMonths {
		v.say(at("keep"), "%s; got %d months", wantMonths, a.Keep)
	}
	v.absolute(at("archive_dir"), a.ArchiveDir, false)
	v.absolute(at("monthly_dir"), a.MonthlyDir, false)
	if a.Keep > 0 && a.ArchiveDir == "" && v.r.ok(at("keep"), at("archive_dir")) {
		v.say(at("keep"), "needs the key archive_dir: nothing is deleted that is not in a file")
	}
}
