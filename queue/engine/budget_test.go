package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/accounting"
	"fairslice/queue"
	"fairslice/queue/engine"
)

func TestHardBudgets(t *testing.T) {
	play(t, "what would take spent and reserved over a hard budget waits, and says why", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=30m
		submit eve fgpu=1 limit=1h
		submit ada
		states = 1:RUN 2:RUN 3:PEND 4:RUN 5:RUN
		why 3 = budget
		reason 3 = budget account=lab fgpu_hours=2 period=month: 0.00 spent and 2.00 reserved of 2, and it would take 0.50; it begins anew Feb  1 00:00:00 2000
		budget ada = lab 0.00 spent 2.00 reserved 0.00 left of 2.00
		sleep 30m
		budget ada = lab 1.00 spent 1.00 reserved 0.00 left of 2.00
		report a 1#1 began
		report a 1#1 ended:0
		show 3 = RUN a#1
		budget root lab = lab 1.00 spent 1.00 reserved 0.00 left of 2.00
		budget eve =
		budget eve lab = lab: You are not in this account; yours: default
		budget root nosuch = nosuch: No such account`)
	play(t, "what ends before its run limit gives back what it has not spent, in the transaction that ends it", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=30m
		sleep 15m
		report a 1#1 ended:0
		budget ada = lab 0.50 spent 1.25 reserved 0.25 left of 2.00
		states = 1:DONE 2:RUN 3:RUN
		restart
		join a=9,gpu=4 2#1:running 3#1:running
		budget ada = lab 0.50 spent 1.25 reserved 0.25 left of 2.00
		sleep 15m
		report a 3#1 ended:0
		budget ada = lab 1.00 spent 0.50 reserved 0.50 left of 2.00`)
	play(t, "an account's budget counts all accounts below it, and its own comes on top", `
		join a=9,gpu=4
		policy root 0 account,uni account,lab,parent=uni account,chem,parent=uni user,ada,account=lab user,eve,account=chem budget,account=uni,fgpu_hours=3,period=quarter,hard budget,account=lab,fgpu_hours=1,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		submit eve fgpu=2 limit=1h
		submit eve fgpu=0.5 limit=1h
		states = 1:RUN 2:PEND 3:RUN 4:PEND
		reason 2 = budget account=lab fgpu_hours=1 period=month: 0.00 spent and 1.00 reserved of 1, and it would take 1.00; it begins anew Feb  1 00:00:00 2000
		reason 4 = budget account=uni fgpu_hours=3 period=quarter: 0.00 spent and 3.00 reserved of 3, and it would take 0.50; it begins anew Apr  1 00:00:00 2000
		budget eve = uni 0.00 spent 3.00 reserved 0.00 left of 3.00
		budget ada = lab 0.00 spent 1.00 reserved 0.00 left of 1.00; uni 0.00 spent 3.00 reserved 0.00 left of 3.00`)
	play(t, "what no budget will ever let start is refused, and so is what has no run limit", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 = budget account=lab fgpu_hours=2 period=month is hard, and what uses GPUs needs a run limit under it: give one (-W)
		submit ada fgpu=2 limit=61m = budget account=lab fgpu_hours=2 period=month: until its run limit of 1:01 one job alone may take 2.03
		submit ada gpus=1 limit=2h = budget account=lab fgpu_hours=2 period=month: until its run limit of 2:00 one job alone may take 4.00
		submit ada fgpu=2 queue=short = 1 short
		submit ada fgpu=2 limit=1h = 2 normal
		mod ada 2 -W=62 = ! Job <2>: budget account=lab fgpu_hours=2 period=month: until its run limit of 1:02 one job alone may take 2.07
		submit ada limit=100h = 3 normal`)
	play(t, "whole GPUs are counted where a budget is in GPU-hours", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,gpu_hours=1,period=month,hard
		submit ada fgpu=1 limit=100h
		submit ada gpus=1 limit=1h
		submit ada fgpu=2 limit=1h
		states = 1:RUN 2:RUN 3:PEND
		budget ada = lab 0.00 spent 1.00 reserved 0.00 left of 1.00`)
	play(t, "a job that waits without a run limit when its account gets a budget waits until it has one", `
		policy root 0 account,lab user,ada,account=lab
		submit ada fgpu=1
		policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		join a=9,gpu=4
		reason 1 = budget account=lab fgpu_hours=2 period=month is hard, and the job has no run limit: give it one (bmod -W)
		mod ada 1 -W=60
		sleep 1s
		show 1 = RUN a#1`)
	play(t, "a budget that is raised lets jobs start by themselves, one that is lowered stops nothing that runs", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=1,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		states = 1:RUN 2:PEND
		policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		states = 1:RUN 2:RUN
		submit ada fgpu=1 limit=1h
		policy root 2 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=1,period=month,hard
		budget root = lab 0.00 spent 2.00 reserved 0.00 left of 1.00
		states = 1:RUN 2:RUN 3:PEND
		reason 3 = budget account=lab fgpu_hours=1 period=month: 0.00 spent and 2.00 reserved of 1, and it would take 1.00; it begins anew Feb  1 00:00:00 2000`)
	play(t, "a budget that begins with what was spent before it was set counts that", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab
		submit ada fgpu=1 limit=1h
		sleep 30m
		report a 1#1 ended:0
		policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=1,period=quarter,soft budget,account=lab,fgpu_hours=5,period=until:2000-01-01,hard
		budget ada = lab 0.50 spent 0.00 reserved 0.50 left of 1.00; lab 0.50 spent 0.00 reserved 4.50 left of 5.00`)
	play(t, "a longer run limit is refused where the budget has not so much left; a shorter one gives back", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=30m
		mod ada 1 -W=100 = ! Job <1>: budget account=lab fgpu_hours=2 period=month: 0.00 spent and 1.50 reserved of 2, and it would take 0.67; it begins anew Feb  1 00:00:00 2000
		mod ada 1 -W=90
		budget ada = lab 0.00 spent 2.00 reserved 0.00 left of 2.00
		mod ada 1 -W=30
		budget ada = lab 0.00 spent 1.00 reserved 1.00 left of 2.00
		sleep 45m
		budget ada = lab 1.50 spent 0.00 reserved 0.50 left of 2.00`)
	play(t, "time that a job is stopped is spent, and moves its end", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		report a 1#1 began
		stop ada 1
		report a 1#1 stopped
		sleep 30m
		budget ada = lab 0.50 spent 1.00 reserved 0.50 left of 2.00
		resume ada 1
		report a 1#1 resumed
		sleep 30m
		budget ada = lab 1.00 spent 0.50 reserved 0.50 left of 2.00`)
	play(t, "an account that is removed or renamed while its jobs run: they count where their user is now", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		sleep 30m
		report a 1#1 ended:0
		policy root 1 account,labor user,ada,account=labor budget,account=labor,fgpu_hours=2,period=month,hard
		budget ada = labor 1.00 spent 0.50 reserved 0.50 left of 2.00
		submit ada fgpu=1 limit=1h
		show 3 = PEND
		policy root 2 budget,account=root,fgpu_hours=2,period=month,hard
		budget ada = root 1.00 spent 0.50 reserved 0.50 left of 2.00`)
	play(t, "two starts in one transaction do not pass, nor do those of an array", `
		join a=9,gpu=4
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=3.5,period=month,hard
		submit ada fgpu=1 limit=1h array=1-6
		show 1 = 1:RUN a#1 2:RUN a#1 3:RUN a#1 4:PEND 5:PEND 6:PEND
		report a 1[1]#1 ended:0
		show 1 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:RUN a#1 5:PEND 6:PEND`)
}

// Within an hour of a year's end a budget begins anew, and what waits for it starts by itself; what runs across the boundary is
// split there.
func TestABudgetBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Location = time.FixedZone("west", -3600) // it is 23:00 there, on the last of December
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
			submit ada fgpu=1 limit=90m
			submit ada fgpu=2 limit=30m
			submit ada fgpu=1 limit=30m
			submit ada fgpu=2 limit=1h
			budget ada = lab 0.00 spent 2.00 reserved 0.00 left of 2.00
			states = 1:RUN 2:RUN 3:PEND 4:PEND
			reason 3 = budget account=lab fgpu_hours=2 period=month: 0.00 spent and 2.00 reserved of 2, and it would take 0.50; it begins anew Jan  1 00:00:00 2000
			sleep 30m
			report a 2#1 ended:0
			sleep 29m59s
			states = 1:RUN 2:DONE 3:PEND 4:PEND
			sleep 2s
			states = 1:RUN 2:DONE 3:RUN 4:PEND
			sleep 30m
			report a 1#1 ended:0
			report a 3#1 ended:0
			budget ada = lab 1.00 spent 0.00 reserved 1.00 left of 2.00
			states = 1:DONE 2:DONE 3:DONE 4:PEND`)
		s.stop()
	})
}

// What a start would take of the next period counts in that.
func TestAStartAcrossTheBoundaryReservesOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Location = time.FixedZone("west", -3600)
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=3,period=month,hard
			submit ada fgpu=1 limit=3h
			submit ada fgpu=1 limit=150m
			states = 1:RUN 2:PEND
			reason 2 = budget account=lab fgpu_hours=3 period=month: 0.00 spent and 2.00 reserved of 3 in the period from Jan  1 00:00:00 2000, and it would take 1.50; it begins anew Feb  1 00:00:00 2000
			budget ada = lab 0.00 spent 1.00 reserved 2.00 left of 3.00`)
		s.stop()
	})
}

func lines(t *testing.T, s *site, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		do, want, said := strings.Cut(line, " =")
		got, ok := s.do(strings.Fields(do))
		s.store.rest()
		if want = strings.TrimSpace(want); said && got != want || !said && !ok {
			t.Errorf("%s\n got  %q\n want %q", do, got, want)
		}
	}
}

// Whatever a plan says, the writer does not start what a hard budget has not left: here no planner was asked.
func TestAStalePlanPassesNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
			admin root qinact normal
			submit ada fgpu=1 limit=1h array=1-4`)
		var ids []queue.ElementID
		for i := range 4 {
			ids = append(ids, queue.ElementID{Job: 1, Index: i + 1})
		}
		got := s.e.TryStarts(ids, "a")
		if want := []bool{true, true, false, false}; !slices.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
		lines(t, s, "show 1 = 1:RUN a#1 2:RUN a#1 3:PEND 4:PEND")
		s.stop()
	})
}

// Who has spent a soft budget still runs, after all who have not, whatever their queues; when the budget is raised he is again
// where he was.
func TestSoftBudgets(t *testing.T) {
	play(t, "an overspent account comes last", `
		join a=1,gpu=1
		policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=0.5,period=month,soft
		submit ada fgpu=1 limit=1h
		sleep 1h
		submit ada queue=short limit=1h
		submit eve limit=1h
		submit eve limit=1h
		budget ada = lab 1.00 spent 0.00 reserved 0.00 left of 0.50
		sleep 1s
		report a 1#1 ended:0
		states = 1:DONE 2:PEND 3:RUN 4:PEND
		report a 3#1 ended:0
		states = 1:DONE 2:PEND 3:DONE 4:RUN
		report a 4#1 ended:0
		states = 1:DONE 2:RUN 3:DONE 4:DONE`)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		lines(t, s, `
			join a=1,gpu=1
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=0.5,period=month,soft
			submit ada fgpu=1 limit=1h
			submit ada queue=short prio=7 limit=1h`)
		over := func(want bool) {
			t.Helper()
			p, known := s.e.Priority(2)
			if !known || p.OverBudget != want || p.Queue != 40 || p.User != 7 {
				t.Errorf("known %v, %+v; want it over budget: %v", known, p, want)
			}
		}
		over(false)
		time.Sleep(30*time.Minute + 2*time.Second)
		s.store.rest()
		over(true)
		lines(t, s, "policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=5,period=month,soft")
		over(false)
		s.stop()
	})
}

// A job may be charged while the ledger is read for a change of the policy: it counts once, whether the answer has it or not.
func TestAChargeWhileTheLedgerIsReadCountsOnce(t *testing.T) {
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory()
			s := newSiteOn(t, store, queue.NewBook(), config())
			lines(t, s, `
				join a=9,gpu=4
				policy root 0 account,lab user,ada,account=lab
				submit ada fgpu=1 limit=1h
				sleep 30m`)
			slow := &slowLedger{memory: store, before: before, during: func() {
				lines(t, s, "report a 1#1 ended:0")
			}}
			if err := s.e.LoadBudgets(context.Background(), slow); err != nil {
				t.Fatal(err)
			}
			slow.armed = true
			lines(t, s, `
				policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=1,period=month,soft
				budget ada = lab 0.50 spent 0.00 reserved 0.50 left of 1.00`)
			if err := s.e.CheckBudgets(store); err != nil {
				t.Error(err)
			}
			s.stop()
		})
	}
}

// slowLedger lets something happen before or after it has looked.
type slowLedger struct {
	*memory
	before, armed bool
	during        func()
}

func (l *slowLedger) Spending(ctx context.Context, cuts []time.Time) (*accounting.Spending, int64, error) {
	if l.armed && l.before {
		l.during()
	}
	s, seq, err := l.memory.Spending(ctx, cuts)
	if l.armed && !l.before {
		l.during()
	}
	return s, seq, err
}

// A policy whose past cannot be read does not come into force.
func TestAPolicyIsNotSetWhileTheLedgerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		bad := &brokenLedger{}
		if err := s.e.LoadBudgets(context.Background(), bad); err != nil {
			t.Fatal(err)
		}
		bad.broken = true
		lines(t, s, `
			policy root 0 budget,account=root,fgpu_hours=1,period=month,soft = what the budgets have spent: away
			policy root 0 account,lab
			budget root =`)
		s.stop()
	})
}

type brokenLedger struct{ broken bool }

func (l *brokenLedger) Spending(_ context.Context, cuts []time.Time) (*accounting.Spending, int64, error) {
	if l.broken {
		return nil, 0, fmt.Errorf("away")
	}
	return accounting.NewSpending(cuts), 0, nil
}

// A clock that is set back an hour, across the beginning of a month, asks for the month before: it is still known.
func TestAClockSetBackAcrossABoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		back := time.Duration(0)
		cfg.Location = time.FixedZone("west", -3600)
		cfg.Now = func() time.Time { return time.Now().UTC().Add(-back) }
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=9,period=month,hard
			submit ada fgpu=1 limit=2h
			sleep 90m
			report a 1#1 ended:0
			budget ada = lab 0.50 spent 0.00 reserved 8.50 left of 9.00`)
		back = time.Hour
		lines(t, s, `
			budget ada = lab 1.00 spent 0.00 reserved 8.00 left of 9.00
			submit ada fgpu=1 limit=1h
			budget ada = lab 1.00 spent 0.50 reserved 7.50 left of 9.00`)
		s.stop()
	})
}

// Another time zone has other months: the ledger is read again.
func TestAnotherTimeZoneIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=9,period=month,hard
			submit ada fgpu=1 limit=4h
			sleep 2h
			report a 1#1 ended:0
			budget ada = lab 2.00 spent 0.00 reserved 7.00 left of 9.00`)
		cfg := config()
		cfg.Location = time.FixedZone("west", -5400) // the year begins in the midst of the job
		s.e.Reconfigure(cfg)
		if err := s.e.RereadBudgets(context.Background()); err != nil {
			t.Fatal(err)
		}
		lines(t, s, "budget ada = lab 0.50 spent 0.00 reserved 8.50 left of 9.00")
		if err := s.e.CheckBudgets(s.store); err != nil {
			t.Error(err)
		}
		s.stop()
	})
}

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		lines(t, s, `
			join a=9,gpu=4
			policy root 0 account,lab account,chem,parent=lab user,ada,account=lab user,eve,account=chem budget,account=lab,fgpu_hours=99,period=month,hard budget,account=lab,gpu_hours=9,period=month,from=2001-01-01,hard
			submit ada fgpu=1 limit=4h
			submit eve fgpu=2 limit=4h queue=again
			submit bob fgpu=0.5 limit=4h
			sleep 1m
			report a 1#1 ended:0
			sleep 1m`)
		f := s.e.Figures()
		if f.Version != 1 || len(f.Accounts) != 3 || f.Accounts["lab"] != 60 || f.Accounts["chem"] != 240 || f.Accounts["default"] != 60 {
			t.Errorf("accounts %v", f.Accounts)
		}
		if len(f.Queues) != len(config().Queues) || f.Queues["normal"] != 120 || f.Queues["again"] != 240 {
			t.Errorf("queues %v", f.Queues)
		}
		if len(f.Budgets) != 1 || f.Budgets[0].Spent.Compare(accounting.CostOf(100, 300_000)) != 0 {
			t.Errorf("budgets %v", f.Budgets)
		}
		ada, eve := f.Factors[accounting.Leaf{Account: "lab", User: "ada"}], f.Factors[accounting.Leaf{Account: "chem", User: "eve"}]
		if len(f.Factors) != 2 || !(ada > eve) || eve <= 0 {
			t.Errorf("factors %v", f.Factors)
		}
		lines(t, s, "restart")
		if again := s.e.Figures(); again.Accounts["lab"] != 60 || again.Queues["again"] != 240 {
			t.Errorf("after a restart %v %v", again.Accounts, again.Queues)
		}
		s.stop()
	})
}

var _ engine.Ledger = (*memory)(nil)
