package accounting

import (
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
)

// Places whose calendars are hard: half hours, two midnights, none at the beginning of a month, and a year that is UTC's.
var places = []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Damascus", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Asuncion"}

func placeNamed(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestADayBeginsWithItsFirstMoment(t *testing.T) {
	for _, c := range []struct {
		place, utc string
		day        Date
	}{
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z", Date{2018, 11, 4}}, // 00:00 is skipped
		{"Asia/Damascus", "2011-03-31T22:00:00Z", Date{2011, 4, 1}},      // so it is, at a month's beginning
		{"America/Asuncion", "2017-10-01T04:00:00Z", Date{2017, 10, 1}},
		{"America/Havana", "2026-11-01T04:00:00Z", Date{2026, 11, 1}}, // 00:00 comes twice
		{"Asia/Amman", "2014-10-30T21:00:00Z", Date{2014, 10, 31}},
		{"Asia/Kolkata", "2026-02-28T18:30:00Z", Date{2026, 2, 29}}, // counts on: March 1
		{"Europe/Berlin", "2024-02-28T23:00:00Z", Date{2024, 2, 29}},
	} {
		if got := c.day.In(placeNamed(t, c.place)).UTC().Format(time.RFC3339); got != c.utc {
			t.Errorf("%v in %s begins %s, want %s", c.day, c.place, got, c.utc)
		}
	}
}

func budgetOf(t testing.TB, text string) *Budget {
	t.Helper()
	b, err := ParseBudget("account=lab fgpu_hours=10 hard period=" + text)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestPeriods(t *testing.T) {
	for _, c := range []struct{ period, place, at, from, to string }{
		{"month", "UTC", "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"month", "UTC", "2023-02-28T23:59:59Z", "2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z"},
		{"month", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"}, // an hour short
		{"quarter", "Europe/Berlin", "2026-12-31T22:59:59Z", "2026-09-30T22:00:00Z", "2026-12-31T23:00:00Z"},
		{"month", "Asia/Kolkata", "2026-03-31T18:30:00Z", "2026-03-31T18:30:00Z", "2026-04-30T18:30:00Z"},
		{"month from=2026-03-10", "UTC", "2026-03-31T18:30:00Z", "2026-03-10T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"month from=2026-03-10", "UTC", "2026-03-09T23:59:59Z", "", ""},
		{"until:2026-02-28", "UTC", "2026-02-28T23:59:59Z", "1970-01-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"until:2026-02-28 from=2026-02-01", "UTC", "2026-03-01T00:00:00Z", "", ""},
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		s, ok := budgetOf(t, c.period).PeriodAt(at, placeNamed(t, c.place))
		if ok != (c.from != "") {
			t.Errorf("%v: in force %v", c, ok)
		}
		if from, to := s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339); ok && (from != c.from || to != c.to) {
			t.Errorf("%v: %s to %s", c, from, to)
		}
	}
}

// Periods follow each other without a gap, and what is spent in a year is what is spent in its periods, wherever the site is.
func TestPeriodsCoverTheYear(t *testing.T) {
	for _, name := range places {
		place := placeNamed(t, name)
		for _, period := range []string{"month", "quarter"} {
			b := budgetOf(t, period)
			for year := 2010; year < 2030; year++ {
				at, n := Date{year, 1, 1}.In(place), 0
				end := Date{year + 1, 1, 1}.In(place)
				for ; at.Before(end); n++ {
					s, ok := b.PeriodAt(at, place)
					if !ok || !s.From.Equal(at) || !s.To.After(at) {
						t.Fatalf("%s in %s at %s: %v %v", period, name, at, s, ok)
					}
					if last, ok := b.PeriodAt(s.To.Add(-1), place); !ok || last != s {
						t.Fatalf("%s in %s: the last moment of %v is in %v", period, name, s, last)
					}
					at = s.To
				}
				if want := map[string]int{"month": 12, "quarter": 4}[period]; n != want || !at.Equal(end) {
					t.Fatalf("%d of %s in %d in %s, to %s", n, period, year, name, at)
				}
			}
		}
	}
}

func TestCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, 1<<62).Draw(t, "a"), rapid.Int64Range(0, 1<<62).Draw(t, "b")
		c, d := rapid.Int64Range(0, 1<<62).Draw(t, "c"), rapid.Int64Range(0, 1<<62).Draw(t, "d")
		x, y := CostOf(a, b), CostOf(c, d)
		p, q := new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		sum, diff := new(big.Int).Add(p, q), new(big.Int).Sub(p, q)
		if diff.Sign() < 0 {
			diff.SetInt64(0)
		}
		if got := x.Plus(y).String(); got != sum.String() {
			t.Fatalf("%s + %s = %s", p, q, got)
		}
		if got := x.Minus(y).String(); got != diff.String() {
			t.Fatalf("%s - %s = %s", p, q, got)
		}
		if x.Compare(y) != p.Cmp(q) {
			t.Fatalf("%s compares with %s as %d", p, q, x.Compare(y))
		}
		if back, err := ParseCost(x.String()); err != nil || back != x {
			t.Fatalf("%s is read as %s, %v", x, back, err)
		}
		if p.IsInt64() && x.Int() != p.Int64() || !p.IsInt64() && x.Int() != 1<<63-1 {
			t.Fatalf("%s as an int64 is %d", p, x.Int())
		}
	})
	tenYears := CostOf(100*1_000_000, 3653*86_400_000) // of a million GPUs
	if got, want := tenYears.String(), "31561920000000000000"; got != want || tenYears.Hours() != 1e6*3653*24 {
		t.Errorf("%s, %g hours; want %s", got, tenYears.Hours(), want)
	}
	most := Budget{Hours: maxHours * 100}
	if most.Total().Compare(tenYears) <= 0 {
		t.Error("the greatest budget does not hold a million GPUs for ten years")
	}
	if CostOf(-1, 5) != (Cost{}) || CostOf(5, -1) != (Cost{}) {
		t.Error("a negative cost")
	}
}

func FuzzParseCost(f *testing.F) {
	for _, s := range []string{"", "0", "-1", "1e3", "340282366920938463463374607431768211455", "340282366920938463463374607431768211456", "007", "1_000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCost(s)
		if err != nil {
			return
		}
		if again, err := ParseCost(c.String()); err != nil || again != c {
			t.Errorf("%q is %s, and that is %s, %v", s, c, again, err)
		}
	})
}

// charge is one of a model: the integral over milliseconds is its only truth.
type charge struct {
	at       Leaf
	fgpu     int64
	from, to int64
}

// What Spending tells of a span between cuts is what each charge held in it, to the millisecond, in whatever order charges came.
func TestSpendingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Int64Range(0, 1000)
		var cuts []time.Time
		for _, ms := range rapid.SliceOfN(moment, 0, 6).Draw(t, "cuts") {
			cuts = append(cuts, time.UnixMilli(ms))
		}
		s := NewSpending(cuts)
		var all []charge
		for range rapid.IntRange(0, 12).Draw(t, "charges") {
			c := charge{Leaf{rapid.SampledFrom([]string{"lab", "chem"}).Draw(t, "account"), "ada"}, rapid.Int64Range(0, 300).Draw(t, "fgpu"), moment.Draw(t, "from"), moment.Draw(t, "to")}
			all = append(all, c)
			s.Add(c.at, "normal", nodes.Amount(c.fgpu), int(c.fgpu/100), time.UnixMilli(c.from), time.UnixMilli(c.to))
		}
		later := []time.Time{time.UnixMilli(2000), time.UnixMilli(3000)}
		s.Cut(later)
		edges := append(s.Cuts(), 0, 5000)
		from, to := rapid.SampledFrom(edges).Draw(t, "begin"), rapid.SampledFrom(edges).Draw(t, "end")
		var want, queue Cost
		for _, c := range all {
			if c.at.Account == "lab" {
				want = want.Plus(CostOf(c.fgpu, min(c.to, to)-max(c.from, from)))
			}
			queue = queue.Plus(CostOf(c.fgpu, c.to-c.from))
		}
		var got Cost
		if from < to {
			got = s.in(s.parts[Leaf{"lab", "ada"}], Span{time.UnixMilli(from), time.UnixMilli(to)}).FGPU
		} else {
			want = Cost{}
		}
		if got != want {
			t.Fatalf("from %d to %d with cuts at %v: %s, want %s, of %v", from, to, s.cuts, got, want, all)
		}
		if s.ByQueue()["normal"] != queue {
			t.Fatalf("queue %s, want %s", s.ByQueue()["normal"], queue)
		}
		again := NewSpending(append(cuts, later...))
		for i := len(all) - 1; i >= 0; i-- {
			c := all[i]
			again.Add(c.at, "normal", nodes.Amount(c.fgpu), int(c.fgpu/100), time.UnixMilli(c.from), time.UnixMilli(c.to))
		}
		if !reflect.DeepEqual(s.parts, again.parts) {
			t.Fatalf("in another order:\n%v\n%v", s.parts, again.parts)
		}
	})
}

func TestCutsAreWhatBudgetsAskFor(t *testing.T) {
	p, err := ParsePolicy("account lab\nbudget account=lab fgpu_hours=1 period=month hard\nbudget account=lab gpu_hours=1 period=quarter soft\nbudget account=lab gpu_hours=1 period=until:2025-06-30 soft\n")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		place, _ := time.LoadLocation(rapid.SampledFrom(places).Draw(t, "place"))
		now := time.Unix(rapid.Int64Range(1_500_000_000, 2_000_000_000).Draw(t, "now"), 0)
		s := NewSpending(p.Cuts(now, place))
		for _, b := range p.BudgetsAt(now, place, s, nil).States {
			for _, x := range b {
				if !s.Knows([]time.Time{x.Period.From, x.Period.To}) {
					t.Fatalf("at %s in %s: %v is not cut at %v", now, place, s.cuts, x.Period)
				}
			}
		}
		month := &p.Budgets[0]
		present, _ := month.PeriodAt(now, place)
		if before, ok := month.PeriodAt(present.From.Add(-time.Hour), place); !ok || !s.Knows([]time.Time{before.From}) {
			t.Fatalf("at %s in %s: the month before is not cut", now, place)
		}
	})
}

// Work whose account is gone counts where its user is now; all above count it.
func TestBudgetsCountWhereWorkBelongs(t *testing.T) {
	p, err := ParsePolicy("account uni\naccount lab parent=uni\nuser ada account=lab\nbudget account=uni fgpu_hours=10 period=month hard\nbudget account=lab gpu_hours=5 period=month soft\nbudget account=root fgpu_hours=99 period=month hard\n")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	s := NewSpending(p.Cuts(now, time.UTC))
	hour := func(at Leaf, fgpu nodes.Amount, gpus int) {
		s.Add(at, "normal", fgpu, gpus, now.Add(-2*time.Hour), now.Add(-time.Hour))
	}
	hour(Leaf{"lab", "ada"}, 200, 1)
	hour(Leaf{"gone", "ada"}, 100, 0) // in lab now
	hour(Leaf{"gone", "bob"}, 400, 2) // in default
	hour(Leaf{"uni", "carol"}, 50, 0)
	b := p.BudgetsAt(now, time.UTC, s, []Work{{At: Leaf{"lab", "ada"}, FGPU: 200, GPUs: 1, Began: now.Add(-time.Hour), Now: now, Ends: now.Add(30 * time.Minute)},
		{At: Leaf{"lab", "ada"}, FGPU: 100, Began: now.Add(-time.Hour), Now: now}})
	var got []string
	for _, x := range b.List(nil).States {
		got = append(got, x.Budget.Account+" "+x.Spent.HoursText()+" "+x.Reserved.HoursText())
	}
	toTheEnd := CostOf(100, Date{2026, 4, 1}.In(time.UTC).Sub(now).Milliseconds())
	want := []string{"lab 2.00 0.50", "root 10.50 " + toTheEnd.Plus(CostOf(200, 1_800_000)).HoursText(), "uni 6.50 " + toTheEnd.Plus(CostOf(200, 1_800_000)).HoursText()}
	if strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if l := b.List([]string{"default"}); len(l.States) != 1 || l.States[0].Budget.Account != "root" {
		t.Errorf("over default: %v", l)
	}
}

func TestWhenABudgetIsGone(t *testing.T) {
	month := Span{Date{2026, 3, 1}.In(time.UTC), Date{2026, 4, 1}.In(time.UTC)}
	now := month.From.Add(10 * 24 * time.Hour)
	for _, c := range []struct {
		spent int64 // hundredths of an hour, of 100 hours
		want  string
	}{{0, ""}, {5000, "2026-03-21T00:00:00Z"}, {3200, ""}, {10_000, "2026-03-11T00:00:00Z"}, {20_000, "2026-03-11T00:00:00Z"}} {
		s := BudgetState{Budget: Budget{Unit: FGPUHours, Hours: 10_000, Period: Month}, Period: month, Spent: CostOf(c.spent, hourCost)}
		got := ""
		if at, ok := s.Out(now); ok {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("with %d spent it is gone %q, want %q", c.spent, got, c.want)
		}
	}
}
