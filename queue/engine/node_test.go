package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"fairslice/queue"
	"fairslice/queue/engine"
)

func TestReports(t *testing.T) {
	play(t, "the raw status is kept", `
		join a=9
		submit ada array=1-4
		report a 1[1]#1 ended:0
		report a 1[2]#1 ended:33280
		report a 1[3]#1 ended:9
		report a 1[4]#1 ended:0,TERM_RUNLIMIT
		show 1 = 1:DONE 0 2:EXIT 130 3:EXIT 137 4:EXIT 0 TERM_RUNLIMIT`)
	play(t, "repeated ones change nothing", `
		join a=9
		submit ada
		report a 1#1 began
		report a 1#1 began
		report a 1#1 ended:0
		report a 1#1 ended:256
		report a 1#1 began
		report a 1#1 failed:image
		show 1 = DONE 0
		events 1 = submitted started began ended`)
	play(t, "an end without its beginning brings it along", `
		join a=9
		submit ada
		report a 1#1 ended:0
		events 1 = submitted started began ended`)
	play(t, "R2: a late report of an old attempt changes nothing", `
		join a=1
		submit ada rerun
		report a 1#1 began
		gone a
		show 1 = UNKWN a#1
		sleep 2m
		show 1 = PEND
		join a=1 1#1:running
		hub = a assign 1#1; a 1#1 forget at-once; a assign 1#2
		report a 1#1 ended:9
		report a 1#1 failed:image
		report a 1#3 ended:0
		show 1 = RUN a#2
		report a 1#2 ended:0
		show 1 = DONE 0`)
	play(t, "another node's word about it counts for nothing", `
		join a=1
		join b=1
		submit ada
		report b 1#1 ended:0
		show 1 = RUN a#1`)
	play(t, "of jobs that never were", `
		join a=1
		report a 7#1 ended:0
		report a 7[3]#1 began
		jobs =`)
	play(t, "R4: failed starts back off, and the eighth in a row holds", `
		join a=1
		submit ada
		report a 1#1 failed:image
		show 1 = PEND
		why 1 = back-off
		sleep 1s
		show 1 = PEND
		sleep 2s
		show 1 = RUN a#2
		report a 1#2 failed:image
		sleep 5s
		report a 1#3 failed:image
		sleep 9s
		report a 1#4 failed:image
		sleep 17s
		report a 1#5 failed:image
		sleep 33s
		report a 1#6 failed:image
		sleep 61s
		report a 1#7 failed:image
		sleep 61s
		report a 1#8 failed:image
		show 1 = PSUSP
		sleep 1h
		show 1 = PSUSP
		resume ada 1
		show 1 = RUN a#9`)
	play(t, "a start that succeeds begins the count again", `
		join a=1
		submit ada rerun
		report a 1#1 failed:image
		sleep 3s
		report a 1#2 began
		report a 1#2 lost
		report a 1#3 failed:image
		sleep 3s
		show 1 = RUN a#4`)
	play(t, "R19: a refused start frees what it held", `
		join a=1
		submit ada
		submit eve
		report a 1#1 failed:image
		show 2 = RUN a#1`)
	play(t, "the node lost it: it ends, or runs again where its user asked for that", `
		join a=9
		submit ada
		submit ada rerun
		submit ada queue=again
		report a 1#1 lost
		report a 2#1 lost
		report a 3#1 lost
		show 1 = EXIT 0 TERM_UNKNOWN
		show 2 = RUN a#2
		show 3 = RUN a#2`)
}

func TestNodesComeAndGo(t *testing.T) {
	play(t, "an assignment that was lost is given again", `
		join a=1
		submit ada
		hub = a assign 1#1
		join a=1
		show 1 = RUN a#1
		hub = a assign 1#1`)
	play(t, "and it is stopped if it was stopped meanwhile", `
		join a=1
		submit ada
		stop ada 1
		join a=1
		show 1 = USUSP a#1
		hub = a assign 1#1; a 1#1 stop; a assign 1#1; a 1#1 stop`)
	play(t, "also after the node was gone", `
		join a=1
		submit ada
		gone a
		show 1 = UNKWN a#1
		join a=1
		show 1 = RUN a#1
		hub = a assign 1#1; a assign 1#1`)
	play(t, "a node that has the attempt goes on, and nothing is sent twice", `
		join a=1
		submit ada
		report a 1#1 began
		gone a
		gone a
		show 1 = UNKWN a#1
		join a=1 1#1:running
		show 1 = RUN a#1
		hub = a assign 1#1
		events 1 = submitted started began lost found`)
	play(t, "it is stopped where it runs while another of its nodes is away", `
		join a=1
		join b=1
		submit ada slots=2
		report a 1#1 began
		gone b
		show 1 = UNKWN a#1
		report a 1#1 stopped
		show 1 = USUSP a#1
		join b=1
		show 1 = USUSP a#1`)
	play(t, "it was stopped, and another of its nodes goes and comes back", `
		join a=1
		join b=1
		submit ada slots=2
		report a 1#1 began
		report a 1#1 stopped
		gone b
		show 1 = UNKWN a#1
		join b=1
		show 1 = USUSP a#1`)
	play(t, "it was stopped meanwhile", `
		join a=1
		submit ada
		report a 1#1 began
		gone a
		join a=1 1#1:stopped
		show 1 = USUSP a#1`)
	play(t, "it ended meanwhile", `
		join a=1
		submit ada
		report a 1#1 began
		gone a
		report a 1#1 ended:0
		show 1 = DONE 0
		join a=1 1#1:ended
		hub = a assign 1#1; a 1#1 forget at-once`)
	play(t, "R17: a node that has forgotten a job that ran there", `
		join a=2
		submit ada
		submit ada rerun
		report a 1#1 began
		report a 2#1 began
		join a=2
		show 1 = EXIT 0 TERM_UNKNOWN
		show 2 = RUN a#2`)
	play(t, "R1: what the book never knew is ended at once", `
		join a=1 9#1:running 8[2]#3:accepted
		hub = a 9#1 forget at-once; a 8[2]#3 forget at-once`)
	play(t, "a node daemon that is only restarted comes back with its rerunnable jobs", `
		join a=1
		join b=1
		submit ada rerun
		report a 1#1 began
		gone a
		sleep 50s
		join a=1 1#1:running
		sleep 1h
		show 1 = RUN a#1`)
	play(t, "rerunnable jobs run elsewhere", `
		join a=1
		submit ada rerun
		report a 1#1 began
		join b=1
		gone a
		sleep 50s
		show 1 = UNKWN a#1
		sleep 15s
		show 1 = RUN b#2
		join a=1 1#1:running
		hub = a assign 1#1; b assign 1#2; a 1#1 forget at-once
		show 1 = RUN b#2`)
	play(t, "a job on several nodes is unknown while one of them is", `
		join a=1
		join b=1
		submit ada slots=2
		report a 1#1 began
		gone b
		show 1 = UNKWN a#1
		join b=1
		show 1 = RUN a#1
		gone a
		show 1 = UNKWN a#1
		join b=1
		show 1 = UNKWN a#1
		join a=1 1#1:running
		show 1 = RUN a#1`)
	play(t, "N1: and, rerunnable, is ended on those that are there before it runs again", `
		join a=1
		join b=1
		submit ada slots=2 rerun
		report a 1#1 began
		gone b
		sleep 2m
		show 1 = PEND
		hub = a assign 1#1; a 1#1 forget at-once
		join b=1
		show 1 = RUN a#2`)
	play(t, "an attempt unknown for longer than its limit holds what it has", `
		join a=1
		submit ada limit=1m
		submit ada
		report a 1#1 began
		gone a
		sleep 1h
		show 1 = UNKWN a#1
		show 2 = PEND
		why 2 = host-down`)
	play(t, "a node that comes back smaller keeps what it holds", `
		join a=4
		submit ada slots=3
		submit ada
		report a 1#1 began
		report a 2#1 began
		join a=1 1#1:running 2#1:running
		submit ada
		show 3 = PEND
		report a 1#1 ended:0
		show 3 = PEND
		report a 2#1 ended:0
		show 3 = RUN a#1`)
	play(t, "a killed job whose node has never heard of it", `
		join a=1
		submit ada
		gone a
		kill ada 1
		join a=1
		hub = a assign 1#1; a 1#1 kill TERM_OWNER; a assign 1#1; a 1#1 kill TERM_OWNER`)
}

func TestDatabaseTrouble(t *testing.T) {
	play(t, "a commit that failed is repeated, and meanwhile nobody is told anything", `
		join a=1
		db fail,fail,fail
		submit ada = 1 normal
		show 1 = RUN a#1
		events 1 = submitted started`)
	play(t, "a commit of which nobody knows is repeated, and counts once", `
		join a=1
		db ambiguous,fail,ambiguous
		submit ada = 1 normal
		events 1 = submitted started
		report a 1#1 ended:0
		events 1 = submitted started began ended`)
}

func TestNothingIsToldBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.hub.check = func() {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			if len(s.store.next) > 0 {
				t.Error("a node was told what is not stored")
			}
		}
		s.do(strings.Fields("join a=9"))
		for range 5 {
			s.do([]string{"db", "fail,ambiguous,fail,fail"})
			if got, ok := s.do([]string{"submit", "ada"}); !ok || len(s.store.next) > 0 {
				t.Errorf("%s was answered with %d commits to fail", got, len(s.store.next))
			}
			synctest.Wait()
		}
		if n := len(s.hub.take()); n != 5 {
			t.Errorf("%d words to the node", n)
		}
		s.stop()
		s.checkStored()
	})
}

func TestAnotherLeaderStopsTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do([]string{"db", "fail,stale"})
		if got, _ := s.do([]string{"submit", "ada"}); got != "the batch daemon is stopping" {
			t.Errorf("got %q", got)
		}
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "another leader has taken over") {
			t.Errorf("Run gives %v", err)
		}
		if len(s.store.events) != 0 {
			t.Errorf("%d events under an old term", len(s.store.events))
		}
		for _, words := range []string{"submit ada", "kill ada 1", "join a=1", "report a 1#1 began", "admin root qclose normal"} {
			if got, _ := s.do(strings.Fields(words)); got != "the batch daemon is stopping" {
				t.Errorf("%s after that: %q", words, got)
			}
		}
	})
}

// An error that waiting cannot mend ends the engine instead of going on without what was refused.
func TestAnErrorOfTheStoreThatDoesNotPassStopsTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do([]string{"db", "fail,broken"})
		if got, _ := s.do([]string{"submit", "ada"}); got != "the batch daemon is stopping" {
			t.Errorf("got %q", got)
		}
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "a constraint is violated") {
			t.Errorf("Run gives %v", err)
		}
	})
}

// A batch that the store refuses while the daemon is being stopped is an error all the same: a store that stops it as it
// refuses makes the race certain.
func TestAnErrorOfTheStoreIsToldAlsoWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		st := &stopping{memory: newMemory(), stop: stop}
		e := engine.New(config(), st, &hub{}, queue.NewBook())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		_, err := e.Submit(t.Context(), queue.Submission{Owner: identity("ada"), Spec: &queue.Spec{Command: "true", SubCWD: "/", MinSlots: 1, MaxSlots: 1}})
		if !errors.Is(err, engine.ErrStopped) {
			t.Errorf("the submission gives %v", err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "a constraint is violated") {
			t.Errorf("Run gives %v", err)
		}
	})
}

// stopping is a store that refuses everything, while stop is called.
type stopping struct {
	*memory
	stop func()
}

func (s *stopping) Commit(context.Context, *engine.Batch) error {
	s.stop()
	return errors.New("a constraint is violated")
}

func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Pause = nil // nobody else waits for the book here, so the clock goes on
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		s.store.next = slices.Repeat([]string{"fail"}, 1000)
		answer := make(chan string, 1)
		go func() { got, _ := s.do([]string{"submit", "ada"}); answer <- got }()
		synctest.Wait()
		select {
		case got := <-answer:
			t.Errorf("answered %q before it was durable", got)
		default:
		}
		if err := s.stop(); err != nil {
			t.Errorf("Run gives %v", err)
		}
		if got := <-answer; got != "the batch daemon is stopping" {
			t.Errorf("answered %q", got)
		}
	})
}

func TestRestartGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join a=2,gpu=1", "submit ada fgpu=0.5", "submit ada array=1-4", "report a 1#1 began",
			"report a 2[1]#1 ended:0", "admin root qinact short", "submit ada queue=short", "submit ada token=x hold", "submit ada w=done(1)"} {
			if got, ok := s.do(strings.Fields(line)); !ok {
				t.Fatal(line, got)
			}
			synctest.Wait()
		}
		s.stop()
		s.checkStored()
		book, err := s.store.restore()
		if err != nil {
			t.Fatal(err)
		}
		again := newSiteOn(t, s.store, book, config())
		for _, line := range []string{"show 1 = RUN a#1", "show 2 = 1:DONE 0 2:RUN a#1 3:PEND 4:PEND", "why 3 = queue-inactive",
			"submit ada token=x = 4 normal", "why 5 = dependency",
			"join a=2,gpu=1 1#1:running 2[2]#1:running = ", "hub =", "report a 1#1 ended:0 =", "show 2 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:PEND",
			"report a 2[2]#1 ended:0 =", "report a 2[3]#1 ended:0 =", "show 5 = RUN a#1"} {
			do, want, _ := strings.Cut(line, " =")
			if got, _ := again.do(strings.Fields(do)); got != strings.TrimSpace(want) {
				t.Errorf("%s: got %q, want %q", do, got, want)
			}
			synctest.Wait()
		}
		again.stop()
		again.checkStored()
	})
}

func TestAssignmentIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do(strings.Fields("join a=4,gpu=2"))
		sub := submission(strings.Fields("ada name=train array=3 slots=2 fgpu=0.5 image=base"))
		sub.Spec.Stdout, sub.Spec.Stderr, sub.Spec.CWD = "out.%J.%I", "/logs/", "work/%J"
		if _, err := s.e.Submit(context.Background(), sub); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a := s.hub.sent[0]
		if string(a.Script) != "true\n" || a.Stdout != "/home/ada/out.1.3" || a.Stderr != "/logs/1.3.err" || a.CWD != "/home/ada/work/1" ||
			a.DisplayName != "train[3]" || a.ImageFile != "/images/base.sif" || !a.CreateCWD {
			t.Errorf("got %+v", a)
		}
		env := map[string]string{}
		for _, v := range a.Env {
			name, value, _ := strings.Cut(string(v), "=")
			env[name] = value
		}
		for name, want := range map[string]string{
			"A": "1", "LSB_JOBID": "1", "LSB_BATCH_JID": "1[3]", "LSB_JOBINDEX": "3", "LSB_JOBINDEX_END": "3", "LSB_HOSTS": "a a", "LSB_MCPU_HOSTS": "a 2",
			"LSB_DJOB_NUMPROC": "2", "CUDA_VISIBLE_DEVICES": "a-0", "FAIRSLICE_FGPU": "0.5", "GPU_COUNT": "1", "LSB_QUEUE": "normal",
		} {
			if env[name] != want {
				t.Errorf("%s is %q, want %q", name, env[name], want)
			}
		}
		if sl := a.Alloc[0].Slices; len(sl) != 1 || sl[0].Memory != 2<<30 || sl[0].SMShare != 2500 {
			t.Errorf("0.5 of 2 fGPU on 8 GiB is %+v", sl)
		}
		s.stop()
	})
}

func TestBmodOfTheCommandChangesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do(strings.Fields("submit ada"))
		c := control("mod", []string{"ada", "1"})
		c.Options = []queue.Given{{Name: "Z", Values: []string{"sleep 9"}}}
		if got, ok := outcomes(s.e.Control(context.Background(), c)); !ok {
			t.Fatal(got)
		}
		s.do(strings.Fields("join a=1"))
		synctest.Wait()
		if a := s.hub.sent[0]; string(a.Script) != "sleep 9\n" || a.Spec.Command != "sleep 9" {
			t.Errorf("it runs %q and shows %q", a.Script, a.Spec.Command)
		}
		s.stop()
		s.checkStored()
	})
}

func TestAnArrayLargerThanACycleStartsWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.MaxStarts = 10
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		s.do(strings.Fields("join a=100"))
		s.do(strings.Fields("submit ada array=1-95"))
		synctest.Wait() // no time passes
		if n := len(s.hub.sent); n != 95 {
			t.Errorf("%d of 95 started", n)
		}
		s.stop()
	})
}

func TestSubscribersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do(strings.Fields("submit ada hold"))
		s.do(strings.Fields("submit ada hold"))
		one, cancel := s.e.Subscribe(1)
		for _, c := range []struct {
			line  string
			woken bool
		}{{"kill ada 2", false}, {"mod ada 1 -W=5", true}, {"resume ada 1", true}, {"show 1", false}, {"kill ada 1", true}} {
			s.do(strings.Fields(c.line))
			synctest.Wait()
			woken := false
			select {
			case <-one:
				woken = true
			default:
			}
			if woken != c.woken {
				t.Errorf("%s: woken is %v", c.line, woken)
			}
		}
		cancel()
		s.stop()
	})
}

func TestHeartbeatsAreSeenAndNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do(strings.Fields("join a=1"))
		s.do(strings.Fields("submit ada"))
		synctest.Wait()
		before := s.store.committed()
		id := queue.ElementID{Job: 1}
		s.e.NodeHeartbeat("a", queue.Heartbeat{Load1: 1.5, Usage: []queue.AttemptUsage{{ID: id, Attempt: 1, Usage: queue.Usage{Memory: 7}}, {ID: id, Attempt: 2}}})
		s.e.View(func(v queue.View) {
			if _, el := v.Book().Find(id); el.Attempt.Usage.Memory != 7 {
				t.Errorf("got %+v", el.Attempt.Usage)
			}
		})
		if s.store.committed() != before {
			t.Error("a heartbeat was stored")
		}
		s.stop()
		s.checkStored()
	})
}

func TestHistoryOfAForgottenJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join a=1", "submit ada", "report a 1#1 ended:256", "sleep 2h"} {
			s.do(strings.Fields(line))
			synctest.Wait()
		}
		if got := s.show("1"); got != "gone" {
			t.Fatalf("job 1 is %s", got)
		}
		found, missing, err := s.e.History(context.Background(), queue.Selection{IDs: []string{"1"}}, identity("ada"))
		if err != nil || len(missing) > 0 || len(found) != 1 || found[0].Job.Elements[0].State != queue.Exit || len(found[0].Events) != 5 {
			t.Errorf("got %+v, %v, %v", found, missing, err)
		}
		if _, missing, _ = s.e.History(context.Background(), queue.Selection{IDs: []string{"9"}}, identity("ada")); len(missing) != 1 {
			t.Errorf("a job that never was: %v", missing)
		}
		s.stop()
	})
}
