package command

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"fairslice/api/pb"
)

func budgeted() *fake {
	day := func(month, day int) int64 {
		return time.Date(2026, time.Month(month), day, 0, 0, 0, 0, time.UTC).UnixNano()
	}
	return &fake{budgets: &pb.BudgetsResponse{At: day(3, 11), Budgets: []*pb.Budget{
		{Account: "physics", Unit: "fgpu_hours", Period: "month", Hard: true, From: day(3, 1), To: day(4, 1), Hours: 100, Spent: 50, Reserved: 8.25, Left: 41.75, Out: day(3, 21), InForce: true},
		{Account: "physics", Unit: "gpu_hours", Period: "quarter", From: day(1, 1), To: day(4, 1), Hours: 5000, Spent: 12.5, Left: 4987.5, InForce: true},
		{Account: "laboratory-of-everything", Unit: "gpu_hours", Period: "until:2027-01-31 from=2026-06-01", From: day(6, 1), To: day(13, 32), Hours: 1, Left: 1},
		{Account: "old\x1b", Unit: "fgpu_hours", Period: "until:2026-01-31", Hard: true, To: day(2, 1), Hours: 2, Spent: 3},
		{Account: "chem", Unit: "fgpu_hours", Period: "month", From: day(3, 1), To: day(4, 1), Hours: 2, Spent: 3, Out: day(3, 11), InForce: true},
	}}}
}

func TestBbudget(t *testing.T) {
	f := budgeted()
	f.do("bbudget").want(t, 0, `Budgets at Wed Mar 11 00:00:00 2026, in hours of the unit. Reserved is what running jobs may spend yet, to their run limits. Gone is when
all is spent at the mean pace of the period so far, - for not before it ends
ACCOUNT         UNIT  PERIOD            KIND     BUDGET      SPENT   RESERVED       LEFT  SPENT% ENDS                 GONE
physics         fGPU  month             hard     100.00      50.00       8.25      41.75    50.0 Apr  1 00:00:00 2026 Mar 21 00:00:00 2026
physics         GPU   quarter           soft    5000.00      12.50       0.00    4987.50     0.2 Apr  1 00:00:00 2026 -
laboratory-of-e GPU   until:2027-01-31  soft       1.00       0.00       0.00       1.00     0.0 Feb  1 00:00:00 2027 begins Jun  1 00:00:00 2026
old\x1b         fGPU  until:2026-01-31  hard       2.00       3.00       0.00       0.00   150.0 Feb  1 00:00:00 2026 over
chem            fGPU  month             soft       2.00       3.00       0.00       0.00   150.0 Apr  1 00:00:00 2026 gone
`, "")
	f.do("bbudget -w -noheader physics").has(t, 0, "laboratory-of-everything GPU   until:2027-01-31 from=2026-06-01 soft ", "")
	if !slices.Equal(f.named, []string{"physics"}) {
		t.Errorf("asked for %q", f.named)
	}
	f.do("bbudget a b").has(t, 255, "", "bbudget: want one account")
	f.budgets.Budgets = nil
	f.do("bbudget").has(t, 0, "", "No budgets found")
	f.do("bbudget -json").has(t, 0, `"BUDGETS":0`, "")
}

func TestBbudgetAsADocument(t *testing.T) {
	var doc struct {
		Records []struct {
			Account, Kind, To, Gone string
			InForce                 int `json:"IN_FORCE"`
			Spent, Left             float64
			Percent                 float64 `json:"SPENT_PERCENT"`
		}
	}
	r := budgeted().do("bbudget -json")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Records) != 5 {
		t.Fatal(err, r.out)
	}
	if x := doc.Records[0]; x.Account != "physics" || x.Kind != "hard" || x.To != "2026-04-01T00:00:00Z" || x.Gone != "2026-03-21T00:00:00Z" || x.InForce != 1 || x.Left != 41.75 || x.Percent != 50 {
		t.Errorf("%+v", x)
	}
	if x := doc.Records[1]; x.Gone != "" {
		t.Errorf("%+v", x)
	}
}
