package engine_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/queue"
)

// fairly plays a script at a site whose order is by fair share.
func fairly(t *testing.T, f func(s *site, do func(script string))) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Scheduling.Policy = backfill.Policy{Order: backfill.Weighted{FairShare: 2, Age: 1, Guard: 100 * time.Hour}, Protected: 1}
		cfg.Scheduling.HalfLife = 24 * time.Hour
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		f(s, func(script string) {
			t.Helper()
			for line := range strings.Lines(script) {
				do, want, said := strings.Cut(strings.TrimSpace(line), " =")
				if do == "" {
					continue
				}
				got, ok := s.do(strings.Fields(do))
				s.store.rest()
				if want = strings.TrimSpace(want); said && got != want || !said && !ok {
					t.Errorf("%s\n got  %q\n want %q", do, got, want)
				}
			}
		})
		s.stop()
		s.checkStored()
	})
}

func (s *site) tree(compare ...string) (map[string]accounting.Standing, accounting.Shares) {
	s.t.Helper()
	shares, err := s.e.Shares(context.Background(), compare)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]accounting.Standing{}
	for _, row := range shares.Tree {
		out[row.Account+"/"+row.User] = row
	}
	return out, shares
}

func TestTheTreeDecidesWhoseTurnItIs(t *testing.T) {
	fairly(t, func(s *site, do func(string)) {
		do(`policy root 0 account,physics,shares=3 account,chem user,ada,account=physics user,eve,account=physics user,bob,account=chem,default user,bob,account=physics
			join a=1
			submit ada limit=2h
			submit eve limit=2h
			submit bob limit=2h
			submit bob limit=2h account=physics
			submit ada limit=2h
			sleep 1h
			show 1 = RUN a#1`)
		tree, shares := s.tree("physics/bob", "bob")
		if ada := tree["physics/ada"]; ada.Used != 3600 || ada.Usage != 1 || ada.Rank != 4 {
			t.Errorf("what runs: %+v", ada)
		}
		if got := tree["physics/"]; math.Abs(got.Share-.75) > 1e-12 || got.Usage != 1 || got.LevelFairShare != .75 {
			t.Errorf("physics: %+v", got)
		}
		if want := "So bob (chem) has rank 1 of 4 and factor 1, bob (physics) rank 2 and factor 0.75"; len(shares.Why) != 2 || shares.Why[1] != want {
			t.Errorf("%q, want %q", shares.Why, want)
		}
		if !shares.Ordered || shares.Flat || shares.HalfLife != 24*time.Hour {
			t.Errorf("%+v", shares)
		}
		do(`report a 1#1 ended:0
			show 2 = PEND
			show 3 = RUN a#1`)
		after, _ := s.tree()
		if got := after["physics/ada"].Used; math.Abs(got-3600) > .1 {
			t.Errorf("its end has changed what ada has used to %v", got)
		}
		do(`sleep 1h
			report a 3#1 ended:0
			show 2 = RUN a#1
			sleep 30m
			report a 2#1 ended:0
			show 4 = RUN a#1
			show 5 = PEND`)
		s.e.View(func(v queue.View) {
			p, ok := v.Priority(v.Book().Jobs[5])
			if !ok || len(p.Parts) != 2 || p.Queue != 30 || math.Abs(p.Total-p.Parts[0].Points-p.Parts[1].Points) > 1e-12 || p.Parts[0].Weight != 2 || p.Parts[0].Factor >= 1 {
				t.Errorf("%+v, %v", p, ok)
			}
			if p.Parts[1].Factor <= 0 || p.Parts[1].Factor > .03 { // 2.5 h of 100
				t.Errorf("age: %+v", p.Parts[1])
			}
			if _, ok := v.Priority(v.Book().Jobs[4]); ok {
				t.Error("what runs has a priority")
			}
		})
	})
}

func TestSharesWithoutAccounts(t *testing.T) {
	fairly(t, func(s *site, do func(string)) {
		do(`join a=1
			submit ada limit=2h account=word
			submit ada limit=2h
			submit bob limit=2h
			sleep 1h
			report a 1#1 ended:0
			show 2 = PEND
			show 3 = RUN a#1`)
		tree, shares := s.tree("ada", "any/bob")
		if !shares.Flat || tree["/ada"].Used < 3599 || len(shares.Why) != 2 || !strings.Contains(shares.Why[1], "bob goes first") {
			t.Errorf("%+v", shares)
		}
	})
}

func TestSharesRefuses(t *testing.T) {
	fairly(t, func(s *site, do func(string)) {
		do("policy root 0 account,lab user,ada,account=lab")
		for _, row := range []struct {
			compare []string
			want    string
		}{
			{[]string{"ada"}, "Two are compared, as in: bshare ada bob; got 1"},
			{[]string{"ada", "a b"}, `"a b": want USER or ACCOUNT/USER`},
			{[]string{"ada", "nosuch/ada"}, "nosuch: No such account"},
			{[]string{"ada", "lab/eve"}, "lab: User eve is not in this account"},
		} {
			if _, err := s.e.Shares(context.Background(), row.compare); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%q: %v", row.compare, err)
			}
		}
	})
}

// Whoever is in no account any more goes on, and counts where users without a line do.
func TestAUserRemovedWithJobsRunningGoesOn(t *testing.T) {
	fairly(t, func(s *site, do func(string)) {
		do(`policy root 0 account,lab user,ada,account=lab
			join a=1
			submit ada limit=2h
			submit ada limit=2h
			sleep 1h
			policy root 1 account,lab
			show 1 = RUN a#1`)
		if tree, _ := s.tree(); tree["default/ada"].Used != 3600 {
			t.Errorf("%+v", tree)
		}
		do(`report a 1#1 ended:0
			show 2 = RUN a#1`)
		if tree, _ := s.tree(); tree["default/ada"].Used < 3599 || tree["lab/"].Used != 0 {
			t.Errorf("%+v", tree)
		}
	})
}

// By hand: ada holds 2 slots for an hour; bob holds 1 slot and 8 GiB, which count as 2 more slots. What has ended and what runs
// count alike, also after a restart of the planner's view.
func TestMemoryCountsInTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Scheduling.Policy = backfill.Policy{Order: backfill.Weighted{FairShare: 1}, Protected: 1}
		cfg.Scheduling.MemoryWeight = 0.25
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		for _, line := range []string{"join a=8", "submit ada slots=2 limit=9h", "submit bob mem=8 limit=9h", "sleep 1h"} {
			if got, ok := s.do(strings.Fields(line)); !ok {
				t.Fatalf("%s: %s", line, got)
			}
			s.store.rest()
		}
		check := func(when string) {
			t.Helper()
			tree, shares := s.tree("ada", "bob")
			if ada, bob := tree["/ada"], tree["/bob"]; math.Abs(ada.Used-7200) > 1 || math.Abs(bob.Used-10800) > 1 || math.Abs(bob.Raw.GiBSeconds-8*3600) > 1 {
				t.Errorf("%s: ada %+v, bob %+v", when, ada, bob)
			}
			if want := "bob: 3 slot-hours = 1 of slots + 0 of GPUs (1 fGPU as 1 slots) + 2 of memory (1 GiB as 0.25 slots)"; len(shares.Why) != 4 || shares.Why[2] != want {
				t.Errorf("%s: %q", when, shares.Why)
			}
			if shares.Weights != (accounting.Weights{GPU: 1, Memory: 0.25}) {
				t.Errorf("%s: weights %+v", when, shares.Weights)
			}
		}
		check("both run")
		s.do([]string{"report", "a", "2#1", "ended:0"})
		s.do([]string{"report", "a", "1#1", "ended:0"})
		s.store.rest()
		check("both have ended")
		s.stop()
		s.checkStored()
	})
}
