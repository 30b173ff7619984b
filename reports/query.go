package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind names a report.
type Kind string

// The reports.
const (
	Usage      Kind = "usage"      // what was given to whom
	Wait       Kind = "wait"       // how long jobs waited
	Efficiency Kind = "efficiency" // what was used of what was given
	Wasters    Kind = "wasters"    // who left most unused
	Nodes      Kind = "nodes"      // how much of each node was given
	GPUs       Kind = "gpus"       // how much of each GPU was given
	// Utilisation is how much of all GPUs was given, free, and lost to fragmentation.
	Utilisation Kind = "utilisation"
)

// By is what the rows of a report stand for.
type By string

// The groupings. ByJob is one row for each attempt.
const (
	ByUser    By = "user"
	ByAccount By = "account"
	ByQueue   By = "queue"
	ByImage   By = "image"
	ByProject By = "project"
	ByNode    By = "node"
	ByGPU     By = "gpu"
	ByJob     By = "job"
	ByDay     By = "day"
	ByWeek    By = "week"
	ByMonth   By = "month"
)

var groups = []By{ByUser, ByAccount, ByQueue, ByProject, ByImage, ByDay, ByWeek, ByMonth}

// kinds are the reports with the groupings that each has, the default one first.
var kinds = []struct {
	kind Kind
	by   []By
}{
	{Usage, append(slices.Clone(groups), ByNode, ByGPU)},
	{Wait, groups},
	{Efficiency, append(slices.Clone(groups), ByJob)},
	{Wasters, append(slices.Clone(groups), ByJob)},
	{Nodes, []By{ByNode}},
	{GPUs, []By{ByGPU}},
	{Utilisation, []By{ByDay, ByWeek, ByMonth}},
}

// Calendar says that rows are stretches of time.
func (b By) Calendar() bool { return b == ByDay || b == ByWeek || b == ByMonth }

// Query is what a report is asked for. Empty names do not restrict.
type Query struct {
	Kind   Kind
	By     By
	Period Period
	Zone   *time.Location // of the site; nil is UTC
	Filter Filter
	// Limit is how many rows at most; 0 is DefaultLimit. Where it cuts, the table says so.
	Limit int
}

// Filter narrows a report to some jobs.
type Filter struct {
	User, Account, Queue, Project, Host string
}

// DefaultLimit and MaxLimit bound the rows of a report.
const (
	DefaultLimit = 10_000
	MaxLimit     = 100_000
	wasters      = 20 // rows of Wasters by default: the top
)

// Check completes a query with defaults. Its error says what is allowed.
func (q *Query) Check() error {
	at := slices.IndexFunc(kinds, func(k struct {
		kind Kind
		by   []By
	}) bool {
		return k.kind == q.Kind
	})
	if at < 0 {
		return fmt.Errorf("there is no report %q; there are %s", q.Kind, listKinds())
	}
	may := kinds[at].by
	if q.By == "" {
		q.By = may[0]
	}
	if !slices.Contains(may, q.By) {
		return fmt.Errorf("report %s cannot be grouped by %q; it can be by %s", q.Kind, q.By, join(may))
	}
	if q.Zone == nil {
		q.Zone = time.UTC
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		return fmt.Errorf("a report has 1 to %d rows, not %d", MaxLimit, q.Limit)
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
		if q.Kind == Wasters {
			q.Limit = wasters
		}
	}
	if q.Kind == Usage && (q.By == ByNode || q.By == ByGPU) { // the same question
		q.Kind = Nodes
		if q.By == ByGPU {
			q.Kind = GPUs
		}
	}
	if q.Kind == Utilisation && q.Filter != (Filter{}) {
		return fmt.Errorf("report utilisation is of the whole site: it is not of a user, account, queue, project or host alone")
	}
	if q.By.Calendar() {
		if _, err := q.Period.Parts(q.By, q.Zone); err != nil {
			return err
		}
	}
	if !q.Period.From.Before(q.Period.To) {
		return fmt.Errorf("the period ends (%s) before it begins (%s)", stamp(q.Period.To, q.Zone), stamp(q.Period.From, q.Zone))
	}
	return nil
}

// Title says what the report is and of which time, in the site's time zone.
func (q *Query) Title() string {
	return fmt.Sprintf("%s by %s, %s to %s (%s)", q.Kind, q.By, stamp(q.Period.From, q.Zone), stamp(q.Period.To, q.Zone), q.Period.To.In(q.Zone).Format("MST"))
}

func listKinds() string {
	names := make([]Kind, len(kinds))
	for i, k := range kinds {
		names[i] = k.kind
	}
	return join(names)
}

func join[T ~string](list []T) string {
	var out strings.Builder
	for i, v := range list {
		switch {
		case i > 0 && i == len(list)-1:
			out.WriteString(" and ")
		case i > 0:
			out.WriteString(", ")
		}
		out.WriteString(string(v))
	}
	return out.String()
}

func stamp(t time.Time, zone *time.Location) string { return t.In(zone).Format("2006/01/02/15:04") }
