package fgpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// plant is one GPU with its shims, in ticks of a thousandth of a frame: who may run at a tick shares it equally.
type plant struct {
	tenants []*plantTenant
	random  *rand.Rand
}

type plantTenant struct {
	key         string
	share       int
	phase       int
	lag, kernel int // ticks until the first kernel of a window runs, and the length of a kernel

	open    int
	debt    float64 // ticks that kernels ran over earlier windows
	busy    float64 // ticks in this second
	waited  float64
	reading int // what the driver says of the second before
	total   float64
}

// second runs ten frames, and then lets the driver tell of the second before.
func (p *plant) second() []Demand {
	for _, t := range p.tenants {
		t.reading = int(math.Round(t.busy/100+p.random.Float64()*4-2)) * 100 // whole percents, two off at times
		t.reading = min(max(t.reading, 0), Whole)
		if t.busy == 0 {
			t.reading = 0
		}
		t.busy, t.waited = 0, 0
	}
	for range 10 {
		p.frame()
	}
	var demands []Demand
	for _, t := range p.tenants {
		demands = append(demands, Demand{t.key, t.share, Hard, t.reading, int(t.waited)})
	}
	return demands
}

func (p *plant) frame() {
	type span struct{ from, to int }
	spans := make([]span, len(p.tenants))
	for i, t := range p.tenants {
		length := t.open / 10
		paid := min(t.debt, float64(length))
		t.debt -= paid
		from := t.phase/10 + t.lag
		over := 0
		if paid < float64(length) && t.kernel > 0 {
			over = p.random.IntN(t.kernel + 1)
		}
		t.debt += float64(over)
		spans[i] = span{from, t.phase/10 + length - int(paid) + over}
		t.waited += float64(1000 - length)
	}
	for tick := range 2000 { // what runs over the frame's end is taken to run alone: the next frame's first window begins with a lag
		var running []*plantTenant
		for i, t := range p.tenants {
			if tick >= spans[i].from && tick < spans[i].to {
				running = append(running, t)
			}
		}
		for _, t := range running {
			t.busy += 1 / float64(len(running))
			t.total += 1 / float64(len(running))
		}
	}
}

// settle runs plant and controller together and returns, of the last minute, each tenant's mean part of the GPU in 1/100 percent and how far its window moved.
func (p *plant) settle(t *testing.T, seconds int) (mean, swing map[string]float64) {
	t.Helper()
	var s Shares
	now := time.Unix(1_000_000, 0)
	low, high := map[string]int{}, map[string]int{}
	mean, swing = map[string]float64{}, map[string]float64{}
	for _, x := range p.tenants {
		x.open = x.share
	}
	for second := range seconds {
		demands := p.second()
		if second == seconds-60 {
			for _, x := range p.tenants {
				x.total, low[x.key], high[x.key] = 0, x.open, x.open
			}
		}
		now = now.Add(time.Second)
		for key, open := range s.Step(now, demands) {
			for _, x := range p.tenants {
				if x.key == key {
					x.open = open
					low[key], high[key] = min(low[key], open), max(high[key], open)
				}
			}
		}
	}
	for _, x := range p.tenants {
		// the first of the 60 seconds was run before total was set to 0
		mean[x.key] = x.total / (59 * 10 * 1000) * Whole
		swing[x.key] = float64(high[x.key]-low[x.key]) / float64(x.share)
	}
	return mean, swing
}

func tenant(key string, share, phase, lag, kernel int) *plantTenant {
	return &plantTenant{key: key, share: share, phase: phase, lag: lag, kernel: kernel}
}

func TestGreedyTenantsGetTheirShares(t *testing.T) {
	cases := map[string][]*plantTenant{
		"one, a tenth":                {tenant("a", 1000, 0, 0, 0)},
		"one, slow to start":          {tenant("a", 2500, 0, 25, 0)}, // loses a tenth of each window
		"one, three quarters":         {tenant("a", 7500, 0, 40, 10)},
		"one, kernels of 20 ms":       {tenant("a", 2500, 0, 10, 200)},
		"two halves":                  {tenant("a", 5000, 0, 20, 10), tenant("b", 5000, 5000, 20, 10)},
		"a small one beside a big":    {tenant("a", 1000, 0, 8, 5), tenant("b", 7500, 1000, 30, 30)},
		"three unlike":                {tenant("a", 1000, 0, 5, 5), tenant("b", 2500, 1000, 10, 50), tenant("c", 5000, 3500, 20, 10)},
		"four quarters":               {tenant("a", 2500, 0, 10, 5), tenant("b", 2500, 2500, 10, 5), tenant("c", 2500, 5000, 10, 5), tenant("d", 2500, 7500, 10, 5)},
		"four quarters, long kernels": {tenant("a", 2500, 0, 10, 100), tenant("b", 2500, 2500, 10, 100), tenant("c", 2500, 5000, 10, 100), tenant("d", 2500, 7500, 10, 100)},
	}
	for name, tenants := range cases {
		t.Run(name, func(t *testing.T) {
			p := &plant{tenants: tenants, random: rand.New(rand.NewPCG(4, 4))}
			mean, swing := p.settle(t, 240)
			for _, x := range tenants {
				off := mean[x.key]/float64(x.share) - 1
				t.Logf("%s: share %.1f %%, got %.1f %% (%+.1f %%), window moved by %.1f %% of the share", x.key, float64(x.share)/100, mean[x.key]/100, 100*off, 100*swing[x.key])
				if math.Abs(off) > 0.05 {
					t.Errorf("%s got %.1f %% of the GPU, %.1f %% is its share", x.key, mean[x.key]/100, float64(x.share)/100)
				}
				// The driver's readings jump by two percent of the GPU, which is a fifth of the smallest share here.
				if swing[x.key] > max(0.05, 150/float64(x.share)) {
					t.Errorf("%s: the window swings by %.1f %% of the share in a minute", x.key, 100*swing[x.key])
				}
			}
		})
	}
}

// The gain has room: at twice the gain and twice the delay it must still not swing, or the figures in share.go are wrong.
func TestStepAnswersWithoutOvershoot(t *testing.T) {
	var s Shares
	now := time.Unix(0, 0)
	open := 2500
	readings := []int{2000, 2000, 2000} // three seconds old when it is told
	highest := 0
	for range 200 {
		now = now.Add(time.Second)
		open = s.Step(now, []Demand{{"a", 2500, Hard, readings[0], 9000}})["a"]
		readings = append(readings[1:], open*8/10) // a fifth of the window is lost
		highest = max(highest, open)
	}
	if want := 3125; open < want*97/100 || highest > want {
		t.Errorf("at %d, highest %d: want to creep up to %d", open, highest, want)
	}
}

func TestAWindowHasBounds(t *testing.T) {
	steps := func(d Demand) int {
		var s Shares
		now, open := time.Unix(0, 0), 0
		for range 600 {
			now = now.Add(time.Second)
			open = s.Step(now, []Demand{d})[d.Key]
		}
		return open
	}
	cases := map[string]struct {
		demand Demand
		want   int
	}{
		"starved whatever is opened: a quarter more":   {Demand{"a", 2000, Hard, 0, 9000}, 2500},
		"uses less and does not wait: the share":       {Demand{"a", 2000, Hard, 300, 100}, 2000},
		"runs past its window always: half":            {Demand{"a", 2000, Hard, 9000, 0}, 1000},
		"not measured: the share":                      {Demand{"a", 2000, Hard, -1, 9000}, 2000},
		"as it should be":                              {Demand{"a", 2000, Hard, 2010, 9000}, 2000},
		"nearly all, starved: no more than all":        {Demand{"a", 9500, Hard, 5000, 9000}, Whole},
		"a share of nothing opens nothing":             {Demand{"a", 0, Hard, 0, 9000}, 0},
		"burst, alone: all":                            {Demand{"a", 2000, Burst, 9000, 0}, Whole},
		"burst, alone, on a GPU that is not measured:": {Demand{"a", 2000, Burst, -1, 0}, Whole},
	}
	for name, c := range cases {
		if got := steps(c.demand); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestBurstEndsWhenAnotherRuns(t *testing.T) {
	var s Shares
	now := time.Unix(0, 0)
	step := func(a, b int) int {
		now = now.Add(time.Second)
		return s.Step(now, []Demand{{"a", 2500, Burst, a, 100}, {"b", 5000, Hard, b, 0}})["a"]
	}
	if got := step(2500, 4000); got != 2500 {
		t.Errorf("beside another: %d", got)
	}
	step(2500, 0) // b ran within the last second
	if got := step(2500, 0); got != Whole {
		t.Errorf("the other is quiet: %d", got)
	}
	step(9900, 0)
	if got := step(9900, 100); got != 2500 {
		t.Errorf("the other is back: %d, want the share at once", got)
	}
	// What the driver still tells of the burst is no debt.
	if got := step(9900, 4000); got != 2500 {
		t.Errorf("after the burst: %d", got)
	}
	for range 10 {
		if got := step(2500, 4000); got < 2400 || got > 2600 {
			t.Errorf("later: %d", got)
		}
	}
	if got := step(2500, -1); got >= Whole {
		t.Errorf("another that is not measured: %d, want no burst", got)
	}
}

func TestASliceThatLeavesIsForgotten(t *testing.T) {
	var s Shares
	now := time.Unix(0, 0)
	for range 100 {
		now = now.Add(time.Second)
		s.Step(now, []Demand{{"a", 2000, Hard, 9000, 0}})
	}
	now = now.Add(time.Second)
	if open := s.Step(now, nil); len(open) != 0 {
		t.Errorf("windows of nobody: %v", open)
	}
	now = now.Add(time.Second)
	if got := s.Step(now, []Demand{{"a", 3000, Hard, 3000, 0}})["a"]; got != 3000 {
		t.Errorf("a new slice of that name: %d", got)
	}
}

// Whatever comes, a window stays within its bounds, and time that stands still or runs back changes nothing.
func TestWindowsStayInBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s Shares
	now := time.Unix(1000, 0)
	for i := range 5000 {
		now = now.Add(time.Duration(random.Int64N(int64(4*time.Second))) - time.Second)
		var demands []Demand
		for j := range random.IntN(5) {
			demands = append(demands, Demand{fmt.Sprint(j), 1 + 2000*j, Policy(random.IntN(2)), random.IntN(Whole+2) - 1, random.IntN(Whole + 1)})
		}
		for _, d := range demands {
			open := s.Step(now, demands)[d.Key]
			if open == Whole && d.Policy == Burst {
				continue
			}
			if least, most := d.Share/2, d.Share*5/4+1; open < least || open > min(most, Whole) {
				t.Fatalf("step %d: %d for %+v", i, open, d)
			}
		}
	}
}
