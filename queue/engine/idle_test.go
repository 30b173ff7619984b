package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/queue"
	"fairslice/queue/engine"
)

// playIdle is play with a queue "sit", whose sessions are warned after an hour and ended ten minutes later, and with
//
//	use 1 cpu=10s sm=2s      a heartbeat of node a says what an attempt has used so far, and that its GPU was measured
//	attend 1 | leave 1       somebody connects, and leaves
//	open 1 | type 1          somebody opens a terminal, and types there
//	warned                   what the site was told since: "1 ada 01:00:00 01:10:00"
//	note 1                   what bjobs -l shows
func playIdle(t *testing.T, name, script string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var warned []string
			cfg := config()
			cfg.Queues = append(cfg.Queues, engine.Queue{Name: "sit", Interactive: true, Rerunnable: true, Unfenced: true,
				Idle: engine.IdleRule{After: time.Hour, Warn: 10 * time.Minute, BelowGPU: 5, BelowCPU: 10}})
			cfg.IdleWarned = func(w engine.IdleWarning) {
				warned = append(warned, fmt.Sprintf("%s %s %s %s", w.ID, w.Owner, w.Since.Format("15:04:05"), w.Deadline.Format("15:04:05")))
			}
			s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
			left, typed := map[string]func(){}, map[string]func(){}
			for line := range strings.Lines(script) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				do, want, said := strings.Cut(line, " =")
				words, got, ok := strings.Fields(do), "", true
				switch words[0] {
				case "use":
					h := queue.AttemptUsage{ID: elementOf(words[1]), Attempt: 1}
					for _, w := range words[2:] {
						key, value, _ := strings.Cut(w, "=")
						if d, err := time.ParseDuration(value); err != nil {
							t.Fatal(err)
						} else if key == "cpu" {
							h.Usage.CPU = d
						} else {
							h.Usage.GPUs = []queue.GPUUsage{{SMTime: d, Measured: time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))}}
						}
					}
					s.e.NodeHeartbeat("a", queue.Heartbeat{Usage: []queue.AttemptUsage{h}})
				case "attend":
					_, left[words[1]] = s.e.Attended(elementOf(words[1]), 1, false)
				case "open":
					typed[words[1]], left[words[1]] = s.e.Attended(elementOf(words[1]), 1, true)
				case "type":
					typed[words[1]]()
				case "leave":
					left[words[1]]()
				case "warned":
					got, warned = strings.Join(warned, "; "), nil
				case "note":
					s.e.View(func(v queue.View) {
						_, el := v.Book().Find(elementOf(words[1]))
						got = el.Note
					})
				case "restart":
					if err := s.stop(); err != nil {
						t.Fatal(err)
					}
					book, err := s.store.restore()
					if err != nil {
						t.Fatal(err)
					}
					s = newSiteOn(t, s.store, book, cfg)
				default:
					got, ok = s.do(words)
				}
				s.store.rest()
				if want = strings.TrimSpace(want); said && got != want || !said && !ok {
					t.Errorf("%s\n got  %q\n want %q", do, got, want)
				}
			}
			s.stop()
			s.checkStored()
		})
	})
}

func TestIdle(t *testing.T) {
	playIdle(t, "a session without use is warned, and ended", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		use 1 cpu=1s
		sleep 59m59s
		use 1 cpu=2s
		warned =
		note 1 =
		sleep 1s
		warned = 1 ada 00:00:00 01:10:00
		note 1 = nobody has used the session since Jan  1 00:00:00: it will be ended at Jan  1 01:10:00, unless somebody does
		hub = a assign 1#1; a 1#1 tell
		sleep 9m59s
		use 1 cpu=3s
		hub =
		sleep 1s
		hub = a 1#1 kill TERM_IDLE
		note 1 = nobody has used the session since Jan  1 00:00:00
		events 1 = submitted started began noted kill-requested
		report a 1#1 ended:15,TERM_IDLE
		show 1 = EXIT 143 TERM_IDLE
		warned =`)
	playIdle(t, "who is connected uses it, and the time begins anew when the last one leaves", `
		join a=2
		submit ada queue=sit pty
		attend 1
		report a 1#1 began
		sleep 5h
		use 1 cpu=1s
		warned =
		leave 1
		sleep 30m
		use 1 cpu=2s
		sleep 29m
		warned =
		sleep 1m
		warned = 1 ada 05:00:00 06:10:00
		sleep 9m
		attend 1
		note 1 = the session is in use again, and goes on: somebody is there
		leave 1
		sleep 50m
		use 1 cpu=4s
		sleep 10m
		use 1 cpu=4s
		warned = 1 ada 06:09:00 07:19:00
		attend 1
		sleep 1m
		leave 1
		sleep 30m
		hub = a assign 1#1; a 1#1 tell; a 1#1 tell
		show 1 = RUN a#1`)
	playIdle(t, "a terminal is used while somebody types, not while it is open", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		use 1 cpu=1s
		sleep 10m
		open 1
		sleep 30m
		type 1
		use 1 cpu=1s
		sleep 59m
		use 1 cpu=2s
		warned =
		sleep 1m
		warned = 1 ada 00:40:00 01:50:00
		sleep 9m
		type 1
		note 1 = the session is in use again, and goes on: somebody is there
		sleep 40m
		leave 1
		use 1 cpu=2s
		sleep 59m
		use 1 cpu=2s
		warned =
		sleep 1m
		warned = 1 ada 02:29:00 03:39:00
		sleep 10m
		hub = a assign 1#1; a 1#1 tell; a 1#1 tell; a 1#1 kill TERM_IDLE`)
	playIdle(t, "a moment of somebody is enough", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		use 1 cpu=1s
		sleep 55m
		use 1 cpu=1s
		attend 1
		leave 1
		sleep 55m
		use 1 cpu=2s
		warned =
		sleep 5m
		warned = 1 ada 00:55:00 02:05:00`)
	playIdle(t, "work is use, from the mean over the hour", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		sleep 10m
		use 1 cpu=7m
		sleep 50m
		use 1 cpu=7m
		warned =
		sleep 9m
		use 1 cpu=7m1s
		warned =
		sleep 2m
		use 1 cpu=7m2s
		warned = 1 ada 00:00:00 01:21:00
		sleep 2m
		use 1 cpu=7m30s
		note 1 = the session is in use again, and goes on: it uses 23 % of its slots
		sleep 1h
		use 1 cpu=8m
		warned = 1 ada 01:13:00 02:23:00`)
	playIdle(t, "of a session on a GPU its share of that counts, where it is measured", `
		join a=2,gpu=1
		submit ada queue=sit pty fgpu=1
		report a 1#1 began
		sleep 1m
		use 1 cpu=50s sm=2s
		sleep 30m
		use 1 cpu=20m sm=50s
		sleep 29m
		use 1 cpu=50m sm=91s
		warned =
		sleep 1m
		use 1 cpu=51m sm=91s
		warned = 1 ada 00:00:00 01:11:00
		sleep 1m
		use 1 cpu=52m sm=93s
		note 1 = the session is in use again, and goes on: it uses 7 % of its share of the GPU`)
	playIdle(t, "where nobody measures the GPU, the slots count", `
		join a=2,gpu=1
		submit ada queue=sit pty fgpu=1
		report a 1#1 began
		sleep 1h
		use 1 cpu=50m
		warned =
		sleep 1h
		use 1 cpu=51m
		warned = 1 ada 00:00:00 02:10:00`)
	playIdle(t, "without a word of the node nobody is warned", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		sleep 3h
		warned =
		use 1 cpu=1s
		warned = 1 ada 00:00:00 03:10:00`)
	playIdle(t, "no batch job, and no session of another queue", `
		join a=9
		submit ada queue=sit
		submit ada queue=again pty
		report a 1#1 began
		report a 2#1 began
		sleep 3h
		use 1 cpu=1s
		use 2 cpu=1s
		sleep 3h
		use 1 cpu=1s
		use 2 cpu=1s
		warned =
		states = 1:RUN 2:RUN`)
	playIdle(t, "after a restart of the daemon the hour begins anew, and so it does after a stop or an absence", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		use 1 cpu=1s
		sleep 1h
		use 1 cpu=1s
		warned = 1 ada 00:00:00 01:10:00
		restart
		join a=2 1#1:running
		use 1 cpu=1s
		sleep 59m
		use 1 cpu=1s
		warned =
		stop ada 1
		report a 1#1 stopped
		sleep 3h
		use 1 cpu=1s
		resume ada 1
		report a 1#1 resumed
		sleep 59m
		use 1 cpu=2s
		warned =
		gone a
		sleep 10s
		join a=2 1#1:running
		sleep 59m
		use 1 cpu=2s
		warned =
		sleep 1m
		warned = 1 ada 05:58:10 07:08:10`)
	playIdle(t, "an attempt's use is its own", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		attend 1
		report a 1#1 lost
		sleep 1s
		report a 1#2 began
		sleep 1h
		warned =
		leave 1
		show 1 = RUN a#2`)
	playIdle(t, "who is killed already is left alone", `
		join a=2
		submit ada queue=sit pty
		report a 1#1 began
		use 1 cpu=1s
		sleep 30m
		kill ada 1
		sleep 2h
		use 1 cpu=1s
		warned =
		hub = a assign 1#1; a 1#1 kill TERM_OWNER`)
}
