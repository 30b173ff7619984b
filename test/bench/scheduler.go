package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"fairslice/backfill"
	"fairslice/reports/plot"
)

// orders are measured by the planner alone, in this process: no cluster, no database. Its policy is the daemon's: EASY with
// placement by fragmentation; but no bound on the starts of one plan.
var orders = []struct {
	name  string
	order backfill.Order
}{{"default", backfill.Responsive}, {"fcfs", backfill.FCFS}, {"xfactor", backfill.XFactor}}

// full is the size that the design names.
var full = crowd{nodes: 10_000, jobs: 100_000, shapes: 1000, users: 200}

const (
	fullPlans = 3   // planners made for one figure
	ends      = 500 // plans after an end for one figure
)

// figures are what is measured of one crowd and order. Amounts of memory are in bytes.
type figures struct {
	wall, cpu     time.Duration // of a full plan: by a planner that knows all and has planned nothing
	starts, looks int
	allocs, bytes uint64
	held          uint64 // by the planner and all that it knows, after it has planned

	median, worst time.Duration // of a plan after one attempt has ended
	endCPU        time.Duration // mean
	endStarts     float64       // mean; so are the others
	endLooks      float64
	endAllocs     float64
	endBytes      float64
}

// benchScheduler prints the figures of the full size, how they grow, and the rates of replays; the growth is drawn into dir.
func benchScheduler(ctx context.Context, to io.Writer, dir string) error {
	fmt.Fprintf(to, "scheduler: %d jobs in %d shapes of %d users wait for %d nodes with 4 GPUs, each half full; GOMAXPROCS=%d\n",
		full.jobs, full.shapes, full.users, full.nodes, runtime.GOMAXPROCS(0))
	fulls := make([]figures, len(orders))
	for i, o := range orders {
		if err := ctx.Err(); err != nil {
			return err
		}
		fulls[i] = measure(full, o.order)
	}
	if err := printFull(to, fulls); err != nil {
		return err
	}
	var panels []*plot.Plot
	for _, g := range growths {
		grown, err := g.measure(ctx, fulls)
		if err != nil {
			return err
		}
		if err := g.print(to, grown); err != nil {
			return err
		}
		panels = append(panels, g.plots(grown)...)
	}
	name := filepath.Join(dir, "bench-scheduler.svg")
	if err := draw(name, panels); err != nil {
		return err
	}
	fmt.Fprintf(to, "drawn in %s\n\n", name)
	return benchReplays(ctx, to)
}

// measure takes the figures of one crowd: of several planners the median for the full plan, then the ends from the last.
func measure(c crowd, order backfill.Order) figures {
	var all []figures
	for i := range fullPlans {
		before := inUse()
		f, e := figures{}, c.site(order)
		runtime.GC() // what loading has left is not the plan's
		m := startMeter()
		plan := e.planner.Plan(crowdTime)
		f.wall, f.cpu, f.allocs, f.bytes = m.stop()
		f.starts, f.looks = len(plan.Starts), plan.Looks
		e.began(plan.Starts, crowdTime)
		if i == fullPlans-1 {
			f.held = inUse() - before
			f.ends(e)
		}
		all = append(all, f)
	}
	last := all[len(all)-1]
	slices.SortFunc(all, func(a, b figures) int { return cmp.Compare(a.wall, b.wall) })
	last.wall, last.cpu = all[len(all)/2].wall, all[len(all)/2].cpu
	return last
}

// ends lets one attempt after the other end when its time has come, and plans after each.
func (f *figures) ends(e *site) {
	took := make([]time.Duration, 0, ends)
	total := startMeter()
	var starts, looks int
	for len(took) < ends {
		x := e.nextEnd()
		began := time.Now()
		e.planner.Predictor.Observe(x.user, x.shape, x.runs)
		e.planner.End(x.id, x.ends)
		plan := e.planner.Plan(x.ends)
		took = append(took, time.Since(began))
		starts, looks = starts+len(plan.Starts), looks+plan.Looks
		e.began(plan.Starts, x.ends)
	}
	_, cpu, allocs, bytes := total.stop()
	slices.Sort(took)
	n := len(took)
	f.median, f.worst, f.endCPU = took[n/2], took[n-1], cpu/time.Duration(n)
	mean := func(sum float64) float64 { return sum / float64(n) }
	f.endStarts, f.endLooks, f.endAllocs, f.endBytes = mean(float64(starts)), mean(float64(looks)), mean(float64(allocs)), mean(float64(bytes))
}

// inUse is how much of the heap is once the rest has been collected.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// meter measures what is done between its start and stop.
type meter struct {
	mem   runtime.MemStats
	cpu   time.Duration
	began time.Time
}

func startMeter() *meter {
	m := &meter{}
	runtime.ReadMemStats(&m.mem)
	m.cpu, m.began = processorTime(), time.Now()
	return m
}

func (m *meter) stop() (wall, cpu time.Duration, allocs, bytes uint64) {
	wall, cpu = time.Since(m.began), processorTime()-m.cpu
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return wall, cpu, now.Mallocs - m.mem.Mallocs, now.TotalAlloc - m.mem.TotalAlloc
}

// processorTime is what this process has used on all processors: on a machine that others use too, it says more than the clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func printFull(to io.Writer, all []figures) error {
	w := newTable(to)
	fmt.Fprintln(w, "order\tfull plan\tprocessor\tstarts\tlooks\tallocations\tMB\theld MB\t")
	for i, f := range all {
		fmt.Fprintf(w, "%s\t%.0f ms\t%.0f ms\t%d\t%d\t%d\t%.1f\t%.0f\t\n",
			orders[i].name, ms(f.wall), ms(f.cpu), f.starts, f.looks, f.allocs, mb(float64(f.bytes)), mb(float64(f.held)))
	}
	if err := flush(w, to); err != nil {
		return err
	}
	w = newTable(to)
	fmt.Fprintf(w, "order\tafter one end\tworst of %d\tprocessor\tstarts\tlooks\tallocations\tMB\t\n", ends)
	for i, f := range all {
		fmt.Fprintf(w, "%s\t%.2f ms\t%.2f ms\t%.2f ms\t%.1f\t%.1f\t%.0f\t%.3f\t\n",
			orders[i].name, ms(f.median), ms(f.worst), ms(f.endCPU), f.endStarts, f.endLooks, f.endAllocs, mb(f.endBytes))
	}
	return flush(w, to)
}

func newTable(to io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func mb(bytes float64) float64 { return bytes / 1e6 }

// flush ends a table with an empty line.
func flush(w *tabwriter.Writer, to io.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(to)
	return err
}

// growth is one number of the full size made smaller, the others kept.
type growth struct {
	what  string
	sizes []int // the last is the full size
	at    func(n int) crowd
}

var growths = []growth{
	{"jobs", []int{1000, 3000, 10_000, 30_000, 100_000}, func(n int) crowd { c := full; c.jobs = n; return c }},
	{"nodes", []int{100, 300, 1000, 3000, 10_000}, func(n int) crowd { c := full; c.nodes = n; return c }},
}

// measure gives the figures by order and size; those of the full size are known.
func (g *growth) measure(ctx context.Context, fulls []figures) ([][]figures, error) {
	out := make([][]figures, len(orders))
	for i, o := range orders {
		for _, n := range g.sizes[:len(g.sizes)-1] {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			out[i] = append(out[i], measure(g.at(n), o.order))
		}
		out[i] = append(out[i], fulls[i])
	}
	return out, nil
}

// print is a line for each size, and last the power of the size that the ends of each column agree with: 1 is linear.
func (g *growth) print(to io.Writer, all [][]figures) error {
	w := newTable(to)
	fmt.Fprintf(w, "%s\t", g.what)
	for _, o := range orders {
		fmt.Fprintf(w, "%s: full plan\tstarts\tafter one end\t", o.name)
	}
	fmt.Fprintln(w)
	for k, n := range g.sizes {
		fmt.Fprintf(w, "%d\t", n)
		for i := range orders {
			f := &all[i][k]
			fmt.Fprintf(w, "%.1f ms\t%d\t%.3f ms\t", ms(f.wall), f.starts, ms(f.median))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "grows as\t")
	for i := range orders {
		fmt.Fprintf(w, "n^%.2f\t\tn^%.2f\t", g.power(all[i], fullTime), g.power(all[i], endTime))
	}
	fmt.Fprintln(w)
	return flush(w, to)
}

func fullTime(f *figures) float64 { return ms(f.wall) }
func endTime(f *figures) float64  { return ms(f.median) }

func (g *growth) power(list []figures, of func(*figures) float64) float64 {
	last := len(list) - 1
	return math.Log(of(&list[last])/of(&list[0])) / math.Log(float64(g.sizes[last])/float64(g.sizes[0]))
}

func (g *growth) plots(all [][]figures) []*plot.Plot {
	panel := func(title string, of func(*figures) float64) *plot.Plot {
		p := &plot.Plot{Title: title, X: g.what, Y: "milliseconds", Log: true}
		for i, o := range orders {
			s := plot.Series{Name: o.name}
			for k, n := range g.sizes {
				s.X, s.Y = append(s.X, float64(n)), append(s.Y, of(&all[i][k]))
			}
			p.Series = append(p.Series, s)
		}
		return p
	}
	return []*plot.Plot{panel("A full plan, by "+g.what, fullTime), panel("A plan after one end, by "+g.what+" (median)", endTime)}
}

func draw(name string, panels []*plot.Plot) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := plot.WriteSVG(f, panels...); err != nil {
		f.Close()
		return fmt.Errorf("draw %s: %w", name, err)
	}
	return f.Close()
}
