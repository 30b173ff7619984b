package show

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"fairslice/api/pb"
)

func TestPriorityText(t *testing.T) {
	for want, p := range map[string]*pb.Priority{
		"": nil,
		"queue 30; of equal ones the order is not one of points":                                 {Queue: 30},
		"queue 30, its own (-sp) 7; it has waited so long that it goes before all that have not": {Queue: 30, User: 7, Late: true, Total: 1},
		"queue 40, then 0.625 = fair share 0.5 (1 x 0.5) + age 0.125 (0.5 x 0.25)": {Queue: 40, Total: .625,
			Parts: []*pb.PriorityPart{{Name: "fair share", Weight: 1, Factor: .5, Points: .5}, {Name: "age", Weight: .5, Factor: .25, Points: .125}}},
	} {
		if got := PriorityText(p); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestThePartsOfAPriorityAreInTheDocument(t *testing.T) {
	d := NewJSON("bwhy", "JOBS")
	j := &pb.Job{Id: 1, State: "PEND"}
	j.Turn = &pb.Priority{Queue: 30, Total: 1.5, Parts: []*pb.PriorityPart{{Name: "size", Weight: 3, Factor: .5, Points: 1.5}}}
	WhyRecord(d, &pb.WhyJob{Job: j}, style())
	var doc struct {
		Records []struct {
			Points float64 `json:"POINTS"`
			Of     []struct {
				Name   string  `json:"NAME"`
				Points float64 `json:"POINTS"`
			} `json:"POINTS_OF"`
		} `json:"RECORDS"`
	}
	if err := json.Unmarshal(d.End(nil), &doc); err != nil {
		t.Fatal(err)
	}
	if r := doc.Records[0]; r.Points != 1.5 || len(r.Of) != 1 || r.Of[0].Name != "size" || r.Of[0].Points != 1.5 {
		t.Errorf("%+v", r)
	}
}

func TestShareRowsKeepTheirColumns(t *testing.T) {
	for _, s := range []*pb.Share{
		{Account: "root", Shares: 1, Share: 1, Usage: 1, Used: 12345678, LevelFairShare: 1},
		{Account: "lab", User: "a-user-with-a-very-long-name", Depth: 31, Shares: 1_000_000, Share: .000001, Usage: 0, Used: 0.0001, LevelFairShare: math.Inf(1), Rank: 12345, Factor: 1e-6},
		{Account: "evil\x1b[2J", Depth: -1},
	} {
		row := string(ShareRow(nil, s, false))
		if len(row) != len("ACCOUNT/USER             SHARES  SHARE%  USAGE%  USED(SLOT-H)        LF   RANK  FACTOR\n") || strings.Contains(row, "\x1b") {
			t.Errorf("%d: %q", len(row), row)
		}
	}
}

func TestWhatWaitsShowsItsPriority(t *testing.T) {
	j := &pb.Job{Id: 1, State: "PEND", Queue: "normal", Turn: &pb.Priority{Queue: 30, Total: .5, Parts: []*pb.PriorityPart{{Name: "fair share", Weight: 1, Factor: .5, Points: .5}}}}
	const want = " Priority: queue 30, then 0.5 = fair share 0.5 (1 x 0.5)"
	if got := string(Why(nil, &pb.WhyJob{Job: j}, style())); !strings.Contains(got, want+".\n") {
		t.Errorf("bwhy:\n%s", got)
	}
	if got := string(JobLong(nil, j, style(), false)); !strings.Contains(got, want+";\n") {
		t.Errorf("bjobs -l:\n%s", got)
	}
}
