package main

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"fairslice/accounting"
	"fairslice/queue/engine"
)

// fixedFigures answers what a test says.
type fixedFigures struct{ known engine.Figures }

func (f *fixedFigures) Figures() engine.Figures { return f.known }

func exampleFigures() *fixedFigures {
	month := accounting.Span{From: time.Unix(0, 0), To: time.Unix(31*86400, 0)}
	return &fixedFigures{engine.Figures{Version: 3,
		Accounts: map[string]float64{"physics": 7200.5, "default": 0}, Queues: map[string]float64{"normal": 7200.5},
		Budgets: []accounting.BudgetState{
			{Budget: accounting.Budget{Account: "physics", Unit: accounting.FGPUHours, Hours: 10_000, Period: accounting.Month, Hard: true}, Period: month,
				Spent: accounting.CostOf(100, 2*3_600_000), Reserved: accounting.CostOf(50, 3_600_000)},
			{Budget: accounting.Budget{Account: "physics", Unit: accounting.FGPUHours, Hours: 500, Period: accounting.Month, From: accounting.Date{Year: 2026, Month: 3, Day: 1}}, Period: month,
				Spent: accounting.CostOf(100, 20*3_600_000)},
		},
		Factors: map[accounting.Leaf]float64{{Account: "physics", User: "ada"}: .75},
	}}
}

// A counter does not go back with the clock; with another policy it begins anew.
func TestCountersOfAccountsDoNotGoBack(t *testing.T) {
	f := &fixedFigures{engine.Figures{Version: 1, Accounts: map[string]float64{"lab": 10}, Queues: map[string]float64{"normal": 10}}}
	r := prometheus.NewRegistry()
	r.MustRegister(newSpending(f))
	for _, step := range []struct {
		version int64
		now     float64
		want    string
	}{{1, 10, "10"}, {1, 7, "10"}, {1, 12, "12"}, {2, 5, "5"}} {
		f.known.Version, f.known.Accounts["lab"], f.known.Queues["normal"] = step.version, step.now, step.now
		want := `
# HELP fairslice_account_fgpu_seconds_total fGPU times seconds that jobs of an account were given, without the accounts below it; what runs counts up to now.
# TYPE fairslice_account_fgpu_seconds_total counter
fairslice_account_fgpu_seconds_total{account="lab"} ` + step.want + `
# HELP fairslice_queue_fgpu_seconds_total fGPU times seconds that jobs of a queue were given; what runs counts up to now.
# TYPE fairslice_queue_fgpu_seconds_total counter
fairslice_queue_fgpu_seconds_total{queue="normal"} ` + step.want + "\n"
		if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
}
