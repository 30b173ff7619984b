package engine_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/backfill"
	"fairslice/queue"
	"fairslice/queue/engine"
)

// A node of two GPUs of 2 fGPU. Two jobs leave 0.5 of each, and a third waits for 1 fGPU that is free, in two pieces. The sums are
// by hand, in 1/100 fGPU × ms: a figure counts from when it was seen, at most a second late, and a restart begins rows of its
// own, so that nothing counts twice.
func TestFreeAndLostGPUAreAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		do := func(line ...string) {
			t.Helper()
			if got, ok := s.do(line); !ok {
				t.Fatalf("%s: %s", line, got)
			}
			s.store.rest()
		}
		begin := time.Now().UTC()
		if begin != begin.Truncate(time.Hour) {
			t.Fatalf("the hour does not begin at %s", begin)
		}
		do("join", "a=8,gpu=2")
		time.Sleep(10 * time.Second) // seen at 1 s: 4 fGPU, all free
		do("submit", "ada", "fgpu=1.5", "limit=9h")
		do("submit", "ada", "fgpu=1.5", "limit=9h") // 2.5 are free at 10 s, 1 at 11 s
		time.Sleep(10 * time.Second)
		do("submit", "ada", "fgpu=1", "limit=9h") // and is lost at 20 s
		if got := s.e.Fragments(); got != (backfill.Fragments{Capacity: 400, Free: 100, Lost: 100}) {
			t.Fatalf("%+v", got)
		}
		hours := func() map[termHour]engine.GPUHour {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			return maps.Clone(s.store.hours)
		}
		time.Sleep(45 * time.Second) // 65 s: written at 60 s
		synctest.Wait()
		want := map[termHour]engine.GPUHour{{0, begin}: {begin, 60_000, 400 * 59_000, 400*9_000 + 250*1_000 + 100*49_000, 100 * 40_000}}
		if got := hours(); !maps.Equal(got, want) {
			t.Fatalf("after a minute\n got %+v\nwant %+v", got, want)
		}
		time.Sleep(time.Hour - 35*time.Second) // 30 s into the second hour
		do("restart")
		next := begin.Add(time.Hour)
		want = map[termHour]engine.GPUHour{
			{0, begin}: {begin, 3_600_000, 400 * 3_599_000, 400*9_000 + 250*1_000 + 100*3_589_000, 100 * 3_580_000},
			{0, next}:  {next, 30_000, 400 * 30_000, 100 * 30_000, 100 * 30_000},
		}
		if got := hours(); !maps.Equal(got, want) {
			t.Errorf("after a restart\n got %+v\nwant %+v", got, want)
		}
		do("join", "a=8,gpu=2", "1#1:running", "2#1:running")
		time.Sleep(2 * time.Second)
		do("report", "a", "1#1", "ended:0") // the third starts, and nobody waits
		time.Sleep(28 * time.Second)
		s.stop()
		want[termHour{1, next}] = engine.GPUHour{Hour: next, Millis: 30_000, Capacity: 400 * 30_000, Free: 100*2_000 + 150*28_000, Lost: 100 * 2_000}
		if got := hours(); !maps.Equal(got, want) {
			t.Errorf("in the end\n got %+v\nwant %+v", got, want)
		}
		s.checkStored()
	})
}

// Of a site without GPUs there is nothing to write, and a site at rest commits only its sums.
func TestOnlySumsOfGPUsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.do([]string{"join", "a=8"})
		s.store.rest()
		before := s.store.committed()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.store.committed() != before {
			t.Errorf("%d commits without GPUs", s.store.committed()-before)
		}
		s.do([]string{"join", "b=8,gpu=1"})
		s.store.rest()
		before = s.store.committed()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if got := s.store.committed() - before; got != 60 {
			t.Errorf("%d commits in an hour of nothing, want one a minute", got)
		}
		s.store.fails([]string{"stale"})
		s.stop() // another leads: it stops all the same
	})
}

// A stop ends a command whose commit is under way; what has been seen of the GPUs is written all the same.
func TestTheLastSumsAreWrittenWhereACommandIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Pause = nil // a commit that failed waits as in the daemon
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		s.do([]string{"join", "a=8,gpu=1"})
		s.store.rest()
		// Not with the cycle of that second: waiting for the book while a commit waits by the clock, it would stop synctest's.
		time.Sleep(31*time.Second + time.Millisecond)
		s.store.fails([]string{"fail", "fail"})
		answer := make(chan error, 1)
		go func() {
			_, err := s.e.Submit(context.Background(), submission([]string{"ada"}))
			answer <- err
		}()
		synctest.Wait() // the first try has failed, and the next one waits
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; !errors.Is(err, engine.ErrStopped) {
			t.Fatalf("the command was answered with %v", err)
		}
		for key, h := range s.store.hours {
			if h.Millis != 31_001 || h.Capacity != 200*30_001 || h.Free != h.Capacity {
				t.Errorf("%v: %+v", key, h)
			}
		}
		if len(s.store.hours) != 1 {
			t.Errorf("%d hours are stored", len(s.store.hours))
		}
	})
}
