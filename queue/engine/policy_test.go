package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/queue"
	"fairslice/queue/engine"
)

// policy is a line of a scenario: "[dry] USER BASE ITEM…", an item's words separated by commas.
func (s *site) policy(args []string) (string, bool) {
	c := queue.PolicyChange{}
	if args[0] == "dry" {
		c.DryRun, args = true, args[1:]
	}
	c.By, c.Base = identity(args[0]), int64(atoi(args[1]))
	for _, item := range args[2:] {
		c.Text += strings.ReplaceAll(item, ",", " ") + "\n"
	}
	out, err := s.e.SetPolicy(context.Background(), c)
	if err != nil {
		return err.Error(), false
	}
	return strings.TrimSpace(fmt.Sprintf("%d: %s", out.Version, strings.Join(out.Diff, "; "))), true
}

// reason is why an element waits, in words.
func (s *site) reason(id string) (out string) {
	s.e.View(func(v queue.View) {
		j, el := v.Book().Find(elementOf(id))
		if el == nil {
			out = "gone"
			return
		}
		reasons, _ := v.Why(j, el)
		var texts []string
		for _, r := range reasons {
			texts = append(texts, r.Text)
		}
		out = strings.Join(texts, "; ")
	})
	return out
}

func TestPolicies(t *testing.T) {
	play(t, "a policy is set as a whole, survives a restart, and the second of two editors is told", `
		policy ada 0 account,lab = User permission denied
		policy root 0 acount,lab = line 1: acount: want account, user, limit or budget
		policy dry root 0 account,lab = 0: account lab: added: account lab shares=1
		policy root 0 account,lab user,ada,account=lab = 1: account lab: added: account lab shares=1; user ada in account lab: added: user ada account=lab shares=1 default
		sleep 1h
		policy root 0 account,chem = The policy was changed meanwhile: version 1 is in force, set by root at Jan  1 00:00:00, and yours was made from version 0. Look at it (badmin policy show) and make your change again
		policy root 1 user,ada,account=lab account,lab = 1:
		restart
		policy root 1 account,lab = 2: user ada in account lab: removed: user ada account=lab shares=1 default
		policy root 2 account,a,parent=b account,b,parent=a account,lab = line 1: account a: it is in itself: a in b in a; want a tree below root`)
	play(t, "who is in no account cannot name it; a job keeps the account that it was submitted under", `
		join a=2
		submit ada account=any = 1 normal
		policy root 0 account,lab account,chem user,ada,account=lab user,ada,account=chem,default limit,account=lab,running=1
		submit ada account=lab = 2 normal
		submit ada account=nosuch = nosuch: No such account; yours: chem, lab
		submit eve account=lab = lab: You are not in this account; yours: default
		submit ada account=lab = 3 normal
		reason 3 = limit account=lab running=1: 1 run
		mod root 3 -G=nosuch = ! Job <3>: nosuch: No such account; yours: chem, lab
		policy root 1 account,lab limit,account=lab,running=2
		show 3 = PEND
		report a 1#1 ended:0
		show 3 = RUN a#1`)
}

// A limit of a queue or image that is not there would be a limit of nothing, and nobody would notice.
func TestALimitNamesWhatIsThere(t *testing.T) {
	play(t, "queues and images are looked up, files of users are not", `
		policy dry root 0 limit,queue=smal,slots=1 = limit queue=smal: there is no such queue; there are: normal, short, own, small, each, far, again, boxed, bare
		policy root 0 limit,image=bass,running=1 = limit image=bass: there is no such image; there are: base:latest
		policy root 0 limit,image=base:2,running=1 = limit image=base:2: there is no such image; there are: base:latest
		policy root 0 limit,queue=small,slots=1 limit,image=base,running=1 limit,image=/home/ada/x.sif,running=1 = 1: limit queue=small: added: limit queue=small slots=1; limit image=/home/ada/x.sif: added: limit image=/home/ada/x.sif running=1; limit image=base: added: limit image=base running=1`)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		line := "policy root 0"
		for i := range 30 {
			line += fmt.Sprintf(" limit,queue=q%02d,slots=1", i)
		}
		text, _ := s.do(strings.Fields(line))
		lines := strings.Split(text, "\n")
		if len(lines) != 21 || !strings.HasPrefix(lines[19], "limit queue=q19: ") || lines[20] != "and 10 mistakes more" {
			t.Errorf("got %q", lines)
		}
		s.stop()
	})
}

// A queue that is taken out of the configuration leaves its limit behind. That stops neither the daemon nor a change of
// anything else, and the log names it.
func TestALimitOutlivesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		if text, ok := s.do(strings.Fields("policy root 0 limit,queue=small,slots=1")); !ok {
			t.Fatal(text)
		}
		var log strings.Builder
		cfg := config()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Queues = slices.DeleteFunc(cfg.Queues, func(q engine.Queue) bool { return q.Name == "small" })
		logged := func() int { return strings.Count(log.String(), `limit="queue=small"`) }
		s.e.Reconfigure(cfg)
		if logged() != 1 {
			t.Errorf("the log says %q", log.String())
		}
		if text, ok := s.do(strings.Fields("policy root 1 limit,queue=small,slots=2 limit,queue=gone,slots=1")); ok || !strings.HasPrefix(text, "limit queue=gone: there is no such queue") {
			t.Error(text)
		}
		if text, ok := s.do(strings.Fields("policy root 1 limit,queue=small,slots=1 limit,all,slots=8")); !ok {
			t.Error(text)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		book, err := s.store.restore()
		if err != nil {
			t.Fatal(err)
		}
		s = newSiteOn(t, s.store, book, cfg)
		if logged() != 2 {
			t.Errorf("after a restart the log says %q", log.String())
		}
		if text, ok := s.do(strings.Fields("policy root 2 limit,all,slots=8")); !ok {
			t.Error(text)
		}
		if text, ok := s.do(strings.Fields("policy root 3 limit,queue=small,slots=1")); ok {
			t.Errorf("back again: %s", text)
		}
		s.stop()
	})
}

func TestLimits(t *testing.T) {
	play(t, "running: as many as the limit says run, and one that ends lets another start", `
		join a=9
		policy root 0 limit,user=ada,running=2
		submit ada array=1-4
		submit eve
		show 1 = 1:RUN a#1 2:RUN a#1 3:PEND 4:PEND
		show 2 = RUN a#1
		why 1[3] = limit
		reason 1[3] = limit user=ada running=2: 2 run
		report a 1[1]#1 ended:0
		show 1 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:PEND
		restart
		join a=9 1[2]#1:running 1[3]#1:running 2#1:running
		show 1 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:PEND
		policy root 1 limit,user=ada,running=3
		show 1 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:RUN a#1
		policy root 2 limit,user=ada,running=1
		submit ada
		show 3 = PEND
		reason 3 = limit user=ada running=1: 3 run`)
	play(t, "who waits for a limit is promised nothing, and others pass", `
		join a=4
		policy root 0 limit,account=default,slots=2
		submit ada slots=2 limit=1h
		submit ada slots=2 limit=1h
		submit eve slots=4 limit=1h = limit account=default slots=2: one job alone needs 4
		policy root 1 account,lab user,eve,account=lab limit,account=default,slots=2
		submit eve slots=2 limit=1h
		show 3 = RUN a#1
		reason 2 = limit account=default slots=2: 2 in use, and it needs 2`)
	play(t, "memory and fGPU are counted as allocated", `
		join a=9,gpu=2
		policy root 0 limit,all,memory=4g,fgpu=1.5
		submit ada mem=3
		submit ada mem=2
		submit ada fgpu=1
		submit ada fgpu=1
		submit ada mem=5 = limit all memory=4G: one job alone needs 5 Gbytes
		submit ada fgpu=1.75 = limit all fgpu=1.5: one job alone needs 1.75
		show 1 = RUN a#1
		reason 2 = limit all memory=4G: 3 Gbytes in use, and it needs 2 Gbytes
		show 3 = RUN a#1
		reason 4 = limit all fgpu=1.5: 1 in use, and it needs 1
		report a 3#1 ended:0
		report a 1#1 ended:0
		show 2 = RUN a#1
		show 4 = RUN a#1`)
	play(t, "a whole GPU counts what it is", `
		join a=9,gpu=2
		policy root 0 limit,all,fgpu=3
		submit ada gpus=1
		submit ada gpus=1
		submit ada gpus=2 = limit all fgpu=3: one job alone needs 4
		show 1 = RUN a#1
		reason 2 = limit all fgpu=3: 2 in use, and it needs 2`)
	play(t, "an account's limit is for all accounts in it; a user's own is instead of each-user's", `
		join a=9
		policy root 0 account,sci account,lab,parent=sci account,chem,parent=sci user,ada,account=lab user,eve,account=chem limit,account=sci,running=2 limit,each-user,running=1 limit,user=eve,running=5
		submit ada
		submit ada
		submit eve
		submit eve
		submit bob
		show 1 = RUN a#1
		reason 2 = limit account=sci running=2: 2 run; limit each-user running=1: 1 run
		show 3 = RUN a#1
		reason 4 = limit account=sci running=2: 2 run
		show 5 = RUN a#1`)
	play(t, "queues, images and sessions", `
		join a=9
		policy root 0 limit,queue=again,running=1 limit,image=base,running=1 limit,each-user,sessions=1
		submit ada queue=again
		submit ada queue=again
		submit ada image=base
		submit ada image=base:latest
		submit ada queue=again pty
		reason 2 = limit queue=again running=1: 1 run
		reason 4 = limit image=base running=1: 1 run
		kill root 1 2
		report a 1#1 ended:9,TERM_ADMIN
		show 5 = RUN a#1
		submit ada queue=again pty
		reason 6 = limit queue=again running=1: 1 run; limit each-user sessions=1: 1 run
		switch root 2 to=normal = ! Job <2>: Job has already finished`)
	play(t, "pending: elements count, and what starts makes room", `
		join a=1
		policy root 0 limit,user=ada,pending=3
		submit ada array=1-4 = limit user=ada pending=3: 0 wait, and this would be 4 more
		submit ada array=1-3
		submit ada array=1-2 = limit user=ada pending=3: 2 wait, and this would be 2 more
		submit ada
		submit ada hold = limit user=ada pending=3: 3 wait, and this would be 1 more
		submit ada token=x = limit user=ada pending=3: 3 wait, and this would be 1 more
		kill ada 2
		submit ada hold token=x = 3 normal
		submit ada hold token=x = 3 normal`)
	play(t, "pending: a requeue counts, also one whose run has not ended yet; what a failure sends back is not asked", `
		join a=9
		policy root 0 limit,user=ada,pending=2
		submit ada array=1-2
		submit ada rerun
		submit ada hold
		requeue ada 1 = ! Job <1>: limit user=ada pending=2: 1 wait, and this would be 2 more
		requeue ada 1[1] = Job <1[1]> is being requeued
		requeue ada 1[2] = ! Job <1[2]>: limit user=ada pending=2: 2 wait, and this would be 1 more
		requeue ada 1[1] = Job <1[1]> is being requeued
		submit ada = limit user=ada pending=2: 2 wait, and this would be 1 more
		report a 2#1 lost
		show 2 = RUN a#2
		kill ada 1[1]
		requeue ada 1[2] = Job <1[2]> is being requeued
		report a 1[1]#1 ended:9,TERM_OWNER
		report a 1[2]#1 ended:9,TERM_REQUEUE_OWNER
		show 1 = 1:EXIT 137 TERM_OWNER 2:RUN a#2
		requeue ada 1[1] state=EXIT = Job <1[1]> is being requeued
		report a 2#2 ended:0
		submit ada hold
		requeue ada 2 state=DONE = ! Job <2>: limit user=ada pending=2: 2 wait, and this would be 1 more`)
	play(t, "wall: asked for is refused, not said is capped, for bmod, too", `
		join a=9
		policy root 0 limit,each-user,wall=1h
		submit ada limit=61m = limit each-user wall=1h: the job asks for a run limit of 1:01
		submit ada limit=60m = 1 normal
		submit ada = 2 normal
		mod root 1 -W=90 = ! Job <1>: limit each-user wall=1h: the job asks for a run limit of 1:30
		report a 2#1 began
		sleep 61m
		mod root 2 -W=30 = Parameters of job <2> are being changed`)
	play(t, "rate: submissions in any minute, an array is one, the same one again is none", `
		join a=9
		policy root 0 limit,each-user,rate=2/m
		submit ada array=1-9 token=x
		sleep 10s
		submit ada token=x = 1 normal
		submit ada = 2 normal
		submit ada = limit each-user rate=2/m: 2 in the last minute; the next may come in 50s
		submit eve = 3 normal
		restart
		submit ada = limit each-user rate=2/m: 2 in the last minute; the next may come in 50s
		sleep 49s
		submit ada = limit each-user rate=2/m: 2 in the last minute; the next may come in 1s
		sleep 1s
		submit ada = 4 normal`)
	play(t, "a job moved under a limit is checked against it", `
		join a=1
		policy root 0 limit,queue=small,pending=1,wall=1h limit,queue=again,slots=1
		submit ada limit=2h
		submit ada limit=2h
		submit ada array=1-2
		submit ada slots=2
		switch root 2 to=small = ! Job <2>: limit queue=small wall=1h: the job asks for a run limit of 2:00
		switch root 3 to=small = ! Job <3>: limit queue=small pending=1: 0 wait, and this would be 2 more
		switch root 4 to=again = ! Job <4>: limit queue=again slots=1: one job alone needs 2`)
	play(t, "a limit of nothing lets nothing in, and what runs goes on", `
		join a=9
		submit ada
		submit ada hold
		policy root 0 limit,user=ada,running=0
		submit ada = limit user=ada running=0: one job alone needs 1
		resume ada 2
		show 1 = RUN a#1
		reason 2 = limit user=ada running=0: 1 run`)
}

// TestNeverMoreThanTheLimit lets 200 submit at once under a limit of 10 that run, on nodes where all would fit, while what
// runs ends. In the events there are never 11.
func TestNeverMoreThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do(strings.Fields("join a=500"))
		if text, ok := s.do(strings.Fields("policy root 0 limit,user=ada,running=10")); !ok {
			t.Fatal(text)
		}
		const jobs = 200
		var wg sync.WaitGroup
		for range jobs {
			wg.Go(func() {
				if _, err := s.e.Submit(context.Background(), submission([]string{"ada"})); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		for done, rounds := 0, 0; done < jobs; rounds++ {
			if rounds > jobs {
				t.Fatalf("only %d of %d have run", done, jobs)
			}
			var live []queue.ElementID
			s.e.View(func(v queue.View) { live = v.Book().On("a") })
			if len(live) != min(10, jobs-done) {
				t.Fatalf("%d run after %d ended, want %d", len(live), done, min(10, jobs-done))
			}
			for _, id := range live { // all at once
				wg.Go(func() {
					if err := s.e.NodeReport(context.Background(), "a", report(id, 1, "ended:0")); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			done += len(live)
		}
		running, most := 0, 0
		for _, ev := range s.store.log() {
			switch ev.Body.(type) {
			case *queue.Started:
				running++
			case *queue.Ended:
				running--
			}
			most = max(most, running)
		}
		if most != 10 || running != 0 {
			t.Errorf("at most %d ran at once, and %d still do; want 10 and 0", most, running)
		}
		s.stop()
		s.checkStored()
	})
}

// TestAStalePlanPassesNoLimit commits starts that were planned before the limit was there: the writer refuses them itself.
func TestAStalePlanPassesNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join a=9", "submit ada hold", "submit ada hold", "policy root 0 limit,user=ada,running=1", "submit ada"} {
			s.do(strings.Fields(line))
		}
		s.store.rest()
		for i, want := range []bool{false, false} {
			id := queue.ElementID{Job: queue.JobID(i + 1)}
			s.do([]string{"resume", "ada", fmt.Sprint(id.Job)})
			if got := s.e.TryStart(id, "a"); got != want {
				t.Errorf("start of %s beside another: %v, want %v", id, got, want)
			}
		}
		s.do(strings.Fields("report a 3#1 ended:0"))
		s.store.rest()
		if got := s.show("1") + " " + s.show("2"); got != "RUN a#1 PEND" {
			t.Errorf("then: %s", got)
		}
		s.stop()
		s.checkStored()
	})
}

// TestAStalePlanPassesNoQueueLimit commits starts of a plan that knows nothing of the limits in the configuration.
func TestAStalePlanPassesNoQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join b=1", "submit ada queue=small hold", "submit eve queue=small hold", "submit bob queue=small hold",
			"submit ada queue=each hold", "submit ada queue=each hold", "submit eve queue=each hold", "submit ada", "join a=9"} {
			s.do(strings.Fields(line))
			s.store.rest()
		}
		s.e.Reconfigure(config()) // the planner is woken by nothing from here on but the tick
		for i, want := range []bool{true, true, false, true, false, true} {
			id := queue.ElementID{Job: queue.JobID(i + 1)}
			if got := s.e.ResumeAndStart(id, "a"); got != want {
				t.Errorf("start of job %s: %v, want %v", id, got, want)
			}
		}
		s.do(strings.Fields("switch ada 7 to=small"))
		s.store.rest()
		if got := s.why("3"); got != "queue-limit" {
			t.Errorf("job 3 waits for %s", got)
		}
		if err := s.e.CheckHoldings(); err != nil {
			t.Error(err)
		}
		for _, line := range []string{"report b 7#1 ended:0", "report a 1#1 ended:0"} {
			s.do(strings.Fields(line))
		}
		s.store.rest()
		if got := s.show("3"); !strings.HasPrefix(got, "RUN") {
			t.Errorf("job 3: %s", got)
		}
		s.stop()
		s.checkStored()
	})
}

// TestAClockSetBackLocksNobodyOut submits up to the rate, and then lives an hour again.
func TestAClockSetBackLocksNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		cfg := config()
		cfg.Now = func() time.Time { return time.Now().UTC().Add(-time.Duration(back.Load())) }
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		s.do(strings.Fields("policy root 0 limit,all,rate=1/m"))
		for i, step := range []struct {
			back time.Duration
			want bool
		}{{0, true}, {0, false}, {time.Hour, true}, {time.Hour, false}} {
			back.Store(int64(step.back))
			text, ok := s.do(strings.Fields("submit ada"))
			if s.store.rest(); ok != step.want {
				t.Errorf("submission %d: %s", i+1, text)
			}
		}
		s.stop()
	})
}

func TestAnotherConfigurationIsCountedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join a=9", "policy root 0 limit,image=base,running=1 limit,all,running=9", "submit ada", "submit ada"} {
			s.do(strings.Fields(line))
		}
		synctest.Wait()
		cfg := config()
		cfg.DefaultImage = "base" // in which both run from now on
		s.e.Reconfigure(cfg)
		s.do(strings.Fields("submit ada"))
		synctest.Wait()
		if err := s.e.CheckHoldings(); err != nil {
			t.Error(err)
		}
		if got := s.reason("3"); got != "limit image=base running=1: 2 run" {
			t.Errorf("the third waits for %q", got)
		}
		s.do(strings.Fields("report a 1#1 ended:0"))
		s.do(strings.Fields("report a 2#1 ended:0"))
		synctest.Wait()
		if got := s.show("3"); got != "RUN a#1" {
			t.Errorf("the third: %s", got)
		}
		if err := s.e.CheckHoldings(); err != nil {
			t.Error(err)
		}
		s.stop()
	})
}

func TestTwoEditorsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var wg sync.WaitGroup
		var mu sync.Mutex
		ok := 0
		for i := range 20 {
			wg.Go(func() {
				_, err := s.e.SetPolicy(context.Background(), queue.PolicyChange{Text: fmt.Sprintf("account a%d\n", i), By: identity("root")})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					ok++
				} else if !strings.Contains(err.Error(), "changed meanwhile: version 1 is in force") {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if ok != 1 {
			t.Errorf("%d of 20 editors of the same version were let through, want 1", ok)
		}
		s.stop()
		s.checkStored()
	})
}

func TestPolicyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"policy root 0 account,lab", "policy root 1 account,lab,shares=3", "policy root 2"} {
			s.do(strings.Fields(line))
		}
		list, err := s.e.PolicyLog(context.Background(), 2)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%d by %s %q: %s", p.Version, p.By, p.Text, strings.Join(p.Diff, "; ")))
		}
		want := `3 by root "": account lab: removed: account lab shares=3 | 2 by root "account lab shares=3\n": account lab: shares 1 becomes 3`
		if text := strings.Join(got, " | "); text != want || err != nil {
			t.Errorf("got %s %v\nwant %s", text, err, want)
		}
		if list, err = s.e.PolicyLog(context.Background(), 10); len(list) != 3 || err != nil || len(list[2].Diff) != 1 {
			t.Errorf("got %+v %v", list, err)
		}
		s.stop()
	})
}
