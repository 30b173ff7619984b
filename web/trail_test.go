package web

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// using is a book with an element of job 1 that runs, and its attempt.
func using(number int) (*queue.Book, *queue.Element) {
	b := queue.NewBook()
	b.Jobs[1] = &queue.Job{ID: 1, Spec: &queue.Spec{}, Elements: []queue.Element{{State: queue.Run, Attempt: &queue.Attempt{Number: number, Usage: queue.Usage{GPUs: []queue.GPUUsage{{UUID: "A"}}}}}}}
	return b, &b.Jobs[1].Elements[0]
}

func said(s []sample) (out []string) {
	for _, p := range s {
		out = append(out, fmt.Sprintf("%s=%d", p.at.Sub(noon), p.memory))
	}
	return out
}

func TestTrails(t *testing.T) {
	b, e := using(1)
	id := queue.ElementID{Job: 1}
	var ts trails
	use := func(memory int64) { e.Attempt.Usage.GPUs[0].Memory = memory }
	after := func(d time.Duration) []string { return said(ts.look(id, e.Attempt, e.State, noon.Add(d))["A"]) }
	check := func(what string, got []string, want string) {
		t.Helper()
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q", what, text, want)
		}
	}
	ts.sample(b, noon.Add(-time.Hour))
	if !ts.none() {
		t.Error("nobody looks, and something is remembered")
	}
	use(1)
	check("the first look", after(0), "0s=1")
	use(2)
	check("a look at once", after(time.Second), "0s=1 1s=2")
	ts.sample(b, noon.Add(5*time.Second))
	use(3)
	ts.sample(b, noon.Add(10*time.Second))
	e.State = queue.Unkwn
	ts.sample(b, noon.Add(15*time.Second))
	check("a node that is away", after(20*time.Second), "0s=1 5s=2 10s=3")
	e.State = queue.Run
	ts.sample(b, noon.Add(10*time.Minute+7*time.Second))
	check("after ten minutes", said(ts.each[id].slices["A"]), "10s=3 10m7s=3")
	ts.sample(b, noon.Add(10*time.Minute+25*time.Second))
	if !ts.none() {
		t.Error("nobody has looked for ten minutes, and it is sampled still")
	}

	after(time.Hour)
	_, next := using(2)
	e.Attempt = next.Attempt
	use(7)
	check("the next attempt", after(time.Hour+time.Second), "1h0m1s=7") // although the last was sampled a moment ago
	_, next = using(3)
	e.Attempt = next.Attempt
	ts.sample(b, noon.Add(time.Hour+6*time.Second))
	if !ts.none() {
		t.Error("what an attempt used goes on with the next one's use")
	}
	after(time.Hour + 8*time.Second)
	e.State = queue.Done
	ts.sample(b, noon.Add(time.Hour+10*time.Second))
	if !ts.none() {
		t.Error("an attempt that has ended is sampled")
	}
	e.State = queue.Run
	for i := range maxTrails + 5 {
		ts.look(queue.ElementID{Job: queue.JobID(i + 1)}, e.Attempt, queue.Run, noon.Add(time.Duration(i)*time.Second))
	}
	if n := len(ts.each); n != maxTrails || ts.each[queue.ElementID{Job: 5}] != nil || ts.each[queue.ElementID{Job: 6}] == nil {
		t.Errorf("%d are remembered, want the latest %d", n, maxTrails)
	}
	delete(b.Jobs, 1)
	ts.sample(b, noon.Add(time.Hour))
	if !ts.none() {
		t.Error("jobs that are gone are remembered")
	}
}

// However often it is sampled, a trail is bounded.
func TestTrailsAreBounded(t *testing.T) {
	_, e := using(1)
	var ts trails
	for i := range 10_000 {
		if n := len(ts.look(queue.ElementID{Job: 1}, e.Attempt, queue.Run, noon.Add(time.Duration(i)*300*time.Millisecond))["A"]); n > 242 {
			t.Fatalf("%d samples", n)
		}
	}
}

func TestSliceUses(t *testing.T) {
	a := &queue.Attempt{
		Alloc: []nodes.Allocation{
			{Node: "n1", Slices: []nodes.Slice{{UUID: "A", Index: 0, Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeShim}, {UUID: "B", Index: 1}}},
			{Node: "n2", Slices: []nodes.Slice{{UUID: "A"}}},
		},
		Usage: queue.Usage{GPUs: []queue.GPUUsage{{UUID: "A", Memory: 1 << 30, MaxMemory: 3 << 29, Util: 1250, SMTime: time.Second, Measured: 10 * time.Second}}},
	}
	list := []sample{{noon, 0, 0}, {noon.Add(15 * time.Second), 2 << 30, 5000}, {noon.Add(45 * time.Second), 1 << 30, 1250}}
	u := sliceUses(a, map[string][]sample{"A": list}, noon.Add(time.Minute))
	if len(u) != 3 || !u[0].Measured || u[1].Measured || u[2].Measured {
		t.Fatalf("%+v", u)
	}
	m, sm := u[0].Memory, u[0].SM
	if u[0].Name != "n1, GPU 0: 0.5 fGPU, shim" || m.Now != "1024 MiB" || m.Limit != "2048 MiB" || m.Peak != "1536 MiB" || sm.Now != "12.5 %" || sm.Limit != "25.0 %" || sm.Mean != "10.0 %" {
		t.Errorf("%+v %+v", m, sm)
	}
	// A minute from left to right; 30 s without a sample are a gap; the limit is at 120 × (1 - 1/1.15) = 15.7, and of the SMs' time,
	// of which there was twice as much, at 120 × (1 - 1/2.3).
	if want := (usePlot{"M0.0 120.0L150.0 15.7h.1M450.0 67.8h.1", "M0.0 120L0.0 120.0L150.0 15.7V120ZM450.0 120L450.0 67.8V120Z", "15.7", "12:00:00", "12:01:00"}); *m.Plot != want {
		t.Errorf("memory is drawn as %+v, want %+v", *m.Plot, want)
	}
	if p := sm.Plot; p.Limit != "67.8" || p.Line != "M0.0 120.0L150.0 15.7h.1M450.0 93.9h.1" {
		t.Errorf("the SMs' time is drawn as %+v", *p)
	}
	if ended := sliceUses(a, nil, noon); ended[0].Memory.Plot != nil || ended[0].SM.Mean != "10.0 %" {
		t.Errorf("of what has ended there is %+v", ended[0])
	}
}

var drawn = regexp.MustCompile(`-?\d+(\.\d+)?`)

// Whatever was measured, the plot stays in its frame.
func TestPlotsStayInTheirFrame(t *testing.T) {
	property := func(steps []uint16, values []int32, limit int32) bool {
		var list []sample
		now := noon
		for i := range min(len(steps), len(values)) {
			now = now.Add(time.Duration(steps[i]) * time.Millisecond)
			list = append(list, sample{now, int64(max(values[i], 0)), 0})
		}
		p := plotUse(list, float64(max(limit, 0)), now, func(p sample) float64 { return float64(p.memory) })
		if len(list) == 0 {
			return p == nil
		}
		for _, point := range strings.FieldsFunc(strings.ReplaceAll(p.Line, "h.1", ""), func(r rune) bool { return r == 'M' || r == 'L' }) {
			for i, text := range drawn.FindAllString(point, -1) {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil || v < 0 || v > []float64{plotWidth, plotHeight}[i] {
					t.Logf("%q of %s", point, p.Line)
					return false
				}
			}
		}
		return true
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}
