package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"fairslice/nodes"
	"fairslice/queue"
)

func TestInstancesOfGPUs(t *testing.T) {
	play(t, "an instance is worth its part of the GPU, and is charged whole", `
		join a=9,mig=3+1
		submit ada fgpu=0.1
		report a 1#1 began
		sleep 100s
		report a 1#1 ended:0
		charged 1 = 1: 100 slot-s 28 fGPU-s`)
	play(t, "it is never shared, and a restart knows", `
		join a=9,mig=1
		submit ada fgpu=0.1 limit=1h
		submit ada fgpu=0.1 limit=1h
		why 2 = gpu ~1h0m0s
		restart
		join a=9,mig=1 1#1:running
		why 2 = gpu ~1h0m0s
		report a 1#1 ended:0
		show 2 = RUN a#1`)
	play(t, "it is no whole GPU", `
		join a=9,mig=3+3+1
		submit ada fgpu=1
		why 1 = no-host`)
}

func TestOneUserAtATime(t *testing.T) {
	play(t, "one user's jobs share a GPU in mode mps, and another's wait", `
		join a=9,gpu=1,mode=mps
		submit ada fgpu=0.5 limit=1h
		submit eve fgpu=0.5 limit=1h
		submit ada fgpu=0.5 limit=30m
		show 3 = RUN a#1
		why 2 = gpu ~1h0m0s
		restart
		join a=9,gpu=1,mode=mps 1#1:running 3#1:running
		why 2 = gpu ~1h0m0s
		report a 3#1 ended:0
		show 2 = PEND
		report a 1#1 ended:0
		show 2 = RUN a#1`)
	play(t, "that is so as soon as the first such node comes", `
		join a=9,gpu=1
		submit ada fgpu=1.5 limit=1h
		submit ada fgpu=1 limit=1h
		submit eve fgpu=1 limit=1h
		submit ada fgpu=0.5 limit=1h
		show 4 = RUN a#1
		join b=9,gpu=1,mode=mps
		show 2 = RUN b#1
		why 3 = gpu ~1h0m0s
		submit ada fgpu=0.5 limit=1h
		show 5 = RUN b#1
		kill ada 1 2 4 5
		report a 1#1 ended:0
		report a 4#1 ended:0
		show 3 = RUN a#1`)
	play(t, "when the mode changes under a job it runs on, and nothing comes beside it", `
		join a=9,gpu=1,mode=shim
		submit ada fgpu=0.5 limit=1h
		gone a
		join a=9,gpu=1,mode=mps 1#1:running
		show 1 = RUN a#1
		submit ada fgpu=0.5 limit=1h
		why 2 = gpu ~1h0m0s
		restart
		join a=9,gpu=1,mode=mps 1#1:running
		why 2 = gpu ~1h0m0s
		report a 1#1 ended:0
		show 2 = RUN a#1`)
}

func TestFenceFailures(t *testing.T) {
	play(t, "a node that cannot fence a job is closed, and the job waits for another start", `
		join a=9,gpu=1
		submit ada fgpu=0.5
		report a 1#1 failed:fence
		show 1 = PEND
		why 1 = back-off
		sleep 1m
		why 1 = host-down
		report a 1#1 failed:fence
		admin root hopen a = Open <a> ...... done
		show 1 = RUN a#2
		events 1 = submitted started requeued started`)
	play(t, "whoever is being killed is not started again, and the node is closed all the same", `
		join a=9,gpu=1
		submit ada fgpu=0.5
		kill ada 1
		report a 1#1 failed:fence
		show 1 = EXIT 0 TERM_OWNER
		submit ada
		why 2 = host-down`)
	play(t, "an image that cannot be fenced is the job's fault", `
		join a=9,gpu=1
		submit ada fgpu=0.5
		report a 1#1 unfenceable:125
		show 1 = EXIT 125
		submit ada fgpu=0.5
		show 2 = RUN a#1`)
	play(t, "an unfenced GPU gets nothing new, and what runs there goes on", `
		join a=9,gpu=1
		submit ada fgpu=0.5
		gone a
		join a=9,gpu=1,unfenced=broken 1#1:running
		submit ada fgpu=0.5
		show 1 = RUN a#1
		why 2 = no-host
		report a 1#1 ended:0
		gone a
		join a=9,gpu=1
		show 2 = RUN a#1`)
}

func TestClosedForItsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, line := range []string{"join a=9,gpu=1", "submit ada fgpu=0.5", "submit ada fgpu=0.5", "report a 1#1 failed:fence", "report a 2#1 failed:fence"} {
			if got, ok := s.do(strings.Fields(line)); !ok {
				t.Fatalf("%s: %s", line, got)
			}
			synctest.Wait()
		}
		s.e.View(func(v queue.View) {
			n := v.Book().Nodes["a"]
			if n.State() != nodes.Drained || n.Reason != "fence: no luck" || n.ClosedBy != "fairslice" {
				t.Errorf("the node is %s, closed by %q for %q", n.State(), n.ClosedBy, n.Reason)
			}
			for id := queue.JobID(1); id <= 2; id++ {
				j, el := v.Book().Find(queue.ElementID{Job: id})
				reasons, _ := v.Why(j, el)
				if len(reasons) == 0 || !strings.HasSuffix(reasons[0].Text, "fence: no luck") {
					t.Errorf("job %d waits for %+v", id, reasons)
				}
			}
		})
		closed := 0
		for _, ev := range s.store.log() {
			if c, ok := ev.Body.(*queue.NodeClosed); ok {
				closed++
				if ev.By != "fairslice" || c.Node != "a" {
					t.Errorf("closed by %+v", ev)
				}
			}
		}
		if closed != 1 {
			t.Errorf("the node was closed %d times", closed)
		}
		s.stop()
		s.checkStored()
	})
}
