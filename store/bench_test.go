package store_test

import (
	"fmt"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store/storetest"
)

// BenchmarkCommit starts jobs on as many nodes in one batch, and ends them in the next, fsync on: an event, an
// element row, a node row and one of its GPUs, and a slice or a charge, for each.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			w := newWriter(b, storetest.Open(b))
			var join, submit []queue.Event
			for i := range n {
				join = append(join, ev(0, 0, &queue.NodeJoined{Node: node(nodes.ID(fmt.Sprintf("n%03d", i)))}))
			}
			w.do(join...)
			// Jobs are made here, so that the timer sees starts and ends only.
			const rounds = 20
			job, ready := queue.JobID(0), 0
			more := func() {
				submit = submit[:0]
				for range n * rounds {
					job++
					submit = append(submit, ev(job, 0, submitted("", nil)))
				}
				w.do(submit...)
				ready = rounds
			}
			next := queue.JobID(1)
			rows := 0
			var spent, prepared time.Duration
			for b.Loop() {
				b.StopTimer()
				if ready == 0 {
					more()
				}
				ready--
				var start, end []queue.Event
				for i := range n {
					id := next + queue.JobID(i)
					start = append(start, ev(id, 0, started(1, nodes.ID(fmt.Sprintf("n%03d", i)), 0, 50)))
					end = append(end, ev(id, 0, ended(1, 0, w.now)))
				}
				next += queue.JobID(n)
				// Committed before the next is applied: rows are read at the commit.
				for _, events := range [][]queue.Event{start, end} {
					began := time.Now()
					batch := w.batch(events...)
					prepared += time.Since(began)
					b.StartTimer()
					began = time.Now()
					if err := w.s.Commit(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					spent += time.Since(began)
					b.StopTimer()
					rows += len(batch.Events) + len(batch.Elements) + 3*len(batch.Nodes) + n // nodes, their two GPUs, slice or charge
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
			b.ReportMetric(spent.Seconds()*1000/float64(2*b.N), "ms/commit")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkSubmit is what bsub costs the store: an event and a row per job.
func BenchmarkSubmit(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			w := newWriter(b, storetest.Open(b))
			job := queue.JobID(0)
			for b.Loop() {
				var events []queue.Event
				for range n {
					job++
					events = append(events, ev(job, 0, submitted(fmt.Sprint("t", job), nil)))
				}
				w.do(events...)
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkLoad restores 100,000 pending jobs of 1,000 shapes, and 20,000 that have ended.
func BenchmarkLoad(b *testing.B) {
	const pending, done = 100_000, 20_000
	w := newWriter(b, storetest.Open(b))
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	job := queue.JobID(0)
	for job < pending+done {
		var events []queue.Event
		for range 2000 {
			job++
			s := submitted(fmt.Sprint("token-", job), nil)
			s.Plan.RunLimit = time.Duration(job%1000) * time.Minute
			s.Spec.ScriptHash, s.Spec.EnvHash = fmt.Sprintf("%064d", job), fmt.Sprintf("%064d", job%7)
			if events = append(events, ev(job, 0, s)); job > pending {
				events = append(events, ev(job, 0, started(1, "n1", 0, 50)), ev(job, 0, ended(1, 0, w.now)))
			}
		}
		w.do(events...)
	}
	for b.Loop() {
		st, err := w.s.Load(b.Context())
		if err != nil || len(st.Jobs) != pending+done {
			b.Fatal(len(st.Jobs), err)
		}
	}
	b.ReportAllocs()
}
