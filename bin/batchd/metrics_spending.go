package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"fairslice/queue/engine"
)

// figures tells what accounts and queues have used.
type figures interface{ Figures() engine.Figures }

// spending is what was used by account and queue, and what budgets have left. Its labels are bounded by the policy and the
// configuration: accounts of the policy and the one that is always there, queues of the configuration, users that the policy
// names, the first thousand of their places.
type spending struct {
	figures figures

	// What a counter has shown it does not take back, should the clock be set back; a change of the policy may move work from an
	// account to another, and is a reset.
	mu      sync.Mutex
	version int64
	shown   map[shownKey]float64
}

type shownKey struct {
	desc *prometheus.Desc
	name string
}

var (
	accountDesc = prometheus.NewDesc("fairslice_account_fgpu_seconds_total",
		"fGPU times seconds that jobs of an account were given, without the accounts below it; what runs counts up to now.", []string{"account"}, nil)
	queueDesc = prometheus.NewDesc("fairslice_queue_fgpu_seconds_total",
		"fGPU times seconds that jobs of a queue were given; what runs counts up to now.", []string{"queue"}, nil)
	budgetDesc = prometheus.NewDesc("fairslice_budget_hours", "Budgets in force, in hours of the unit.", []string{"account", "unit", "period"}, nil)
	leftDesc   = prometheus.NewDesc("fairslice_budget_left_hours",
		"What is left of budgets in force, neither spent nor reserved by what runs, in hours of the unit.", []string{"account", "unit", "period"}, nil)
	factorDesc = prometheus.NewDesc("fairslice_fair_share_factor",
		"Fair-share factors from 0 to 1 of the users of the policy, at most 1000 of them; who has the greater one goes first.", []string{"account", "user"}, nil)
)

func newSpending(f figures) *spending { return &spending{figures: f, shown: map[shownKey]float64{}} }

// Describe lists them all.
func (s *spending) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{accountDesc, queueDesc, budgetDesc, leftDesc, factorDesc} {
		ch <- d
	}
}

// Collect asks the engine once.
func (s *spending) Collect(ch chan<- prometheus.Metric) {
	f := s.figures.Figures()
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Version != s.version {
		s.version = f.Version
		clear(s.shown)
	}
	for name, v := range f.Accounts {
		s.counter(ch, accountDesc, name, v)
	}
	for name, v := range f.Queues {
		s.counter(ch, queueDesc, name, v)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		account, unit, period := b.Budget.Account, string(b.Budget.Unit), b.Budget.PeriodText()
		gauge(budgetDesc, b.Budget.Total().Hours(), account, unit, period)
		gauge(leftDesc, b.Left().Hours(), account, unit, period)
	}
	for l, v := range f.Factors {
		gauge(factorDesc, v, l.Account, l.User)
	}
}

// counter shows what is known of a sum, and never less than was shown before.
func (s *spending) counter(ch chan<- prometheus.Metric, d *prometheus.Desc, name string, v float64) {
	key := shownKey{d, name}
	v = max(v, s.shown[key])
	s.shown[key] = v
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, name)
}
