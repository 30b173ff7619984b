package placement

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"fairslice/nodes"

	"pgregory.net/rapid"
)

const gib = 1 << 30

// host has 8 slots and 32 GiB for each of its GPUs, of 1 fGPU each, of which these parts are in use; the slots
// and memory in their proportion too.
func host(model string, used ...nodes.Amount) *nodes.Node {
	n := &nodes.Node{ID: "n", Alive: true, Slots: 8 * len(used), Memory: int64(len(used)) * 32 * gib}
	for i, u := range used {
		n.GPUs = append(n.GPUs, nodes.GPU{Index: i, UUID: fmt.Sprint(i), Model: model, Memory: 16 * gib, Capacity: 100, Used: u})
		n.UsedSlots += 8 * int(u) / 100
		n.UsedMemory += 32 * gib * int64(u) / 100
	}
	return n
}

func cpuHost(slots int, memory int64) *nodes.Node {
	return &nodes.Node{ID: "c", Alive: true, Slots: slots, Memory: memory}
}

func fraction(a nodes.Amount) nodes.Request {
	return nodes.Request{Slots: 8 * int(a) / 100, Memory: 32 * gib * int64(a) / 100, GPU: nodes.GPURequest{Amount: a}}
}

func whole(n int) nodes.Request {
	return nodes.Request{Slots: 8 * n, Memory: int64(n) * 32 * gib, GPU: nodes.GPURequest{Whole: n}}
}

func cpu(slots int, memory int64) nodes.Request { return nodes.Request{Slots: slots, Memory: memory} }

// mixOf sees each of these once.
func mixOf(rs ...nodes.Request) *Mix {
	m := NewMix(0)
	for _, r := range rs {
		m.Observe(r, 1, time.Time{})
	}
	return m
}

func with(n *nodes.Node, change func(*nodes.Node)) *nodes.Node {
	change(n)
	return n
}

// The first of the two nodes has to be the cheaper one.
func TestCheaperNode(t *testing.T) {
	halves := mixOf(fraction(50), fraction(50), whole(1))
	scarce := mixOf(whole(1), ofModel(whole(1), "rare"))
	scarce.Supply([]*nodes.Node{host("rare", 0, 0), host("usual", 0, 0, 0, 0, 0, 0, 0, 0)})
	for _, c := range []struct {
		name          string
		mix           *Mix
		r             nodes.Request
		better, worse *nodes.Node
	}{
		{"a half completes a started GPU", halves, fraction(50), host("", 50, 0), host("", 0, 0)},
		{"0.3 goes where 0.2 are lost already, not where a half would fit", halves, fraction(30), host("", 70, 0), host("", 50, 0)},
		{"without observations a fraction still joins", NewMix(0), fraction(30), host("", 50, 0), host("", 0, 0)},
		{"a whole GPU goes where a pair is broken", mixOf(whole(2), whole(1)), whole(1), host("", 0, 100), host("", 0, 0)},
		{"a CPU job spares free GPUs", halves, cpu(4, gib), with(host("", 100, 100), func(n *nodes.Node) { n.UsedSlots, n.UsedMemory = 8, 32*gib }), host("", 0, 0)},
		{"a CPU job prefers a node without GPUs", mixOf(whole(1), cpu(8, 32*gib)), cpu(4, 16*gib), cpuHost(16, 64*gib), host("", 0, 0)},
		{"slots and memory stay in proportion", mixOf(cpu(8, 32*gib)), cpu(4, 2*gib),
			with(cpuHost(16, 64*gib), func(n *nodes.Node) { n.UsedMemory = 40 * gib }), cpuHost(16, 64*gib)},
		{"a node in use before an empty one", mixOf(cpu(4, 0)), cpu(4, 0), with(cpuHost(16, 0), func(n *nodes.Node) { n.UsedSlots = 8 }), cpuHost(16, 0)},
		{"who may have any model spares the scarce one", scarce, whole(1), host("usual", 0, 0), host("rare", 0, 0)},
		{"who needs few slots goes where few are", halves, nodes.Request{Slots: 1, Memory: gib, GPU: nodes.GPURequest{Whole: 1}},
			with(host("", 0, 0), func(n *nodes.Node) { n.UsedSlots = 13 }), host("", 0, 0)},
		{"exclusive: the smallest node", halves, nodes.Request{Slots: 1, Exclusive: true}, host("", 0), host("", 0, 0)},
		{"exclusive: a node without GPUs", halves, nodes.Request{Slots: 1, Exclusive: true}, cpuHost(64, 0), host("", 0, 0)},
	} {
		p := Fragmentation(c.mix)
		better, ok1 := p.Cost(c.better, c.r)
		worse, ok2 := p.Cost(c.worse, c.r)
		if !ok1 || !ok2 || !(better < worse) {
			t.Errorf("%s: %g (%t) is not less than %g (%t)", c.name, better, ok1, worse, ok2)
		}
	}
}

func ofModel(r nodes.Request, model string) nodes.Request {
	r.GPU.Model = model
	return r
}

func TestFractionGoesToTheRightGPU(t *testing.T) {
	n := host("", 50, 30, 0)
	for _, c := range []struct {
		name string
		mix  *Mix
		r    nodes.Request
		want string
	}{
		{"it fills up", mixOf(fraction(50)), fraction(50), "0"},
		{"it leaves what others need", mixOf(fraction(50), fraction(20)), fraction(20), "1"},
		{"only one has room", mixOf(fraction(50)), fraction(90), "2"},
	} {
		before := fmt.Sprintf("%+v", *n)
		a, _, ok := Fragmentation(c.mix).Place(n, c.r)
		if !ok || len(a.Slices) != 1 || a.Slices[0].UUID != c.want {
			t.Errorf("%s: %+v, want GPU %s", c.name, a, c.want)
		}
		if fmt.Sprintf("%+v", *n) != before {
			t.Errorf("%s: the node was changed", c.name)
		}
	}
}

// Halves only, one offer: a half finds 0.5 to 0.9 free and leaves the rest; below it all is lost. With a second
// offer nothing changes but for two halves.
func TestExpectedWaste(t *testing.T) {
	d := newDemand(mixOf(fraction(50)), 100, 0)
	for free, want := range map[nodes.Amount]float64{0: 0, 40: 0.4, 50: 0, 60: 0.1, 99: 0.49, 100: 0} {
		if got := d.wasteOf(free, 100); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s free: %g is wasted, want %g", free, got, want)
		}
	}
	// A half or a fifth with the same chance, and 6 offers: 0.7 stays 0 unless one of the two never comes. It takes a
	// first half or fifth, then waits for the other: P(all six alike) = 2/64, wasting 0.2 (halves only) or 0.1 (three fifths).
	d = newDemand(mixOf(fraction(50), fraction(20)), 100, 0)
	if got := d.wasteOf(70, 100); got <= 0 || got > 0.02 {
		t.Errorf("0.7 free: %g is wasted, want more than 0, at most 0.02", got)
	}
}

func TestBestFitHandWorked(t *testing.T) {
	small, large := host("", 0, 0), host("", 0, 0, 0, 0)
	p := BestFit(small, large)
	// The largest has 32 slots and 4 GPUs. On small 16-8 = 8 slots and 1 GPU stay free: 0.5*8/32 + 0.5*1/4 = 0.25; on large
	// 24 slots and 3 GPUs: 0.75.
	for _, c := range []struct {
		n    *nodes.Node
		want float64
	}{{small, -75}, {large, -25}} {
		if got, ok := p.Cost(c.n, whole(1)); !ok || got != c.want {
			t.Errorf("%d GPUs: %g, want %g", len(c.n.GPUs), got, c.want)
		}
	}
}

func TestPackingHandWorked(t *testing.T) {
	p := Packing()
	for _, c := range []struct {
		name string
		n    *nodes.Node
		r    nodes.Request
		want float64
	}{
		{"on a shared GPU with 0.4 free", host("", 60, 0), fraction(40), -96},
		{"opens a GPU of a node in use", host("", 60, 0), fraction(50), -49},
		{"opens a node of two GPUs", host("", 0, 0), fraction(50), -31},
		{"two whole GPUs of a node in use", host("", 60, 0, 0), whole(2), -48},
		{"without a GPU", host("", 60, 0), cpu(1, 0), 0},
	} {
		if got, ok := p.Cost(c.n, c.r); !ok || got != c.want {
			t.Errorf("%s: %g (%t), want %g", c.name, got, ok, c.want)
		}
	}
}

// dividedHost is a host of one GPU in instances with these sevenths of its multiprocessors and eighths of its 16 GiB.
func dividedHost(sizes ...[2]int) *nodes.Node {
	n := &nodes.Node{ID: "n", Alive: true, Slots: 8, Memory: 32 * gib}
	for i, s := range sizes {
		g := nodes.GPU{Index: i, UUID: fmt.Sprint(i), Memory: int64(s[1]) * 2 * gib, Mode: nodes.ModeMIG, Fraction: 10_000 * s[0] / 7}
		g.Capacity = g.Worth(100)
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// A request goes where it is rounded up least, on a node and between nodes.
func TestRoundingUpHasAPrice(t *testing.T) {
	mix := mixOf(fraction(10), fraction(40), whole(1))
	for name, p := range map[string]Policy{"fragmentation": Fragmentation(mix), "without a mix": Fragmentation(NewMix(0)), "best-fit": BestFit(), "packing": Packing()} {
		divided := dividedHost([2]int{3, 4}, [2]int{1, 2}, [2]int{1, 1})
		a, _, ok := p.Place(divided, fraction(10))
		if !ok || a.Slices[0].UUID != "2" || a.FGPU() != 14 || a.Slices[0].SMShare != 1428 || a.Slices[0].Memory != 2*gib {
			t.Errorf("%s: 0.1 is placed as %+v, want all of the smallest instance", name, a)
		}
		a, _, _ = p.Place(divided, fraction(20))
		if a.Slices[0].UUID != "0" {
			t.Errorf("%s: 0.2 is placed as %+v", name, a)
		}
		mixed := dividedHost([2]int{1, 1})
		mixed.GPUs = append(mixed.GPUs, nodes.GPU{Index: 1, UUID: "1", Memory: 16 * gib, Capacity: 100, Mode: nodes.ModeShim})
		if a, _, _ = p.Place(mixed, fraction(10)); a.Slices[0].UUID != "1" || a.FGPU() != 10 {
			t.Errorf("%s: 0.1 is placed as %+v, and could be had to the hundredth", name, a)
		}
	}
	exact := &nodes.Node{ID: "n", Alive: true, Slots: 8, Memory: 32 * gib, GPUs: []nodes.GPU{{UUID: "0", Memory: 16 * gib, Capacity: 100, Mode: nodes.ModeShim}}}
	exact.GPUs = append(exact.GPUs, dividedHost([2]int{1, 1}).GPUs...)
	exact.GPUs[1].Index, exact.GPUs[1].UUID = 1, "1"
	for name, p := range map[string]Policy{"fragmentation": Fragmentation(mix), "best-fit": BestFit(), "packing": Packing()} {
		if a, _, _ := p.Place(exact, fraction(13)); a.Slices[0].UUID != "0" { // to open a GPU may cost more than to round up so little
			t.Errorf("%s: 0.13 is placed as %+v, and could be had to the hundredth", name, a)
		}
	}
	p := Fragmentation(mix)
	small, _ := p.Cost(dividedHost([2]int{1, 1}), fraction(10))
	large, _ := p.Cost(dividedHost([2]int{3, 4}), fraction(10))
	if !(small < large) {
		t.Errorf("0.1 costs %g in an instance of 1/7, %g in one of 3/7", small, large)
	}
}

// Which of two GPUs in ModeMPS is whose does not change what a user's slice costs.
func TestCostKnowsTheHolder(t *testing.T) {
	held := func(holders ...string) *nodes.Node {
		n := host("", 50, 50)
		for i, h := range holders {
			n.GPUs[i].Mode, n.GPUs[i].Holder = nodes.ModeMPS, h
		}
		return n
	}
	r := fraction(20)
	r.GPU.User = "bob"
	for name, p := range policies() {
		first, _ := p.Cost(held("bob", "ann"), r)
		second, _ := p.Cost(held("ann", "bob"), r)
		if first != second {
			t.Errorf("%s: %g and %g", name, first, second)
		}
		if a, _, ok := p.Place(held("ann", "bob"), r); !ok || a.Slices[0].UUID != "1" || a.User != "bob" {
			t.Errorf("%s: bob's is placed as %+v", name, a)
		}
	}
}

func policies() map[string]Policy {
	mix := mixOf(fraction(50), fraction(30), whole(1), whole(2), cpu(4, 8*gib), nodes.Request{Slots: 1, GPU: nodes.GPURequest{Memory: 5 * gib}})
	return map[string]Policy{"best-fit": BestFit(), "packing": Packing(), "fragmentation": Fragmentation(mix), "without a mix": Fragmentation(NewMix(0))}
}

func drawNode(t *rapid.T) *nodes.Node {
	n := &nodes.Node{ID: "n", Alive: rapid.IntRange(0, 9).Draw(t, "down") > 0, Slots: rapid.IntRange(0, 32).Draw(t, "slots"),
		Memory: rapid.Int64Range(0, 64).Draw(t, "memory") * gib}
	capacity := rapid.SampledFrom([]nodes.Amount{0, 100, 400, 700, 2500}).Draw(t, "capacity")
	for i := range rapid.IntRange(0, 8).Draw(t, "gpus") {
		g := nodes.GPU{Index: i, UUID: fmt.Sprint(i), Memory: 16 * gib, Capacity: capacity, Model: rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "model"),
			Lost: rapid.IntRange(0, 9).Draw(t, "lost") == 0, Mode: rapid.SampledFrom([]nodes.Mode{nodes.ModeShim, nodes.ModeShim, nodes.ModeMPS, nodes.ModeMIG}).Draw(t, "mode")}
		g.Used = nodes.Amount(rapid.Int64Range(0, int64(capacity)).Draw(t, "used"))
		if rapid.Bool().Draw(t, "unused") {
			g.Used = 0
		}
		switch {
		case g.Mode == nodes.ModeMIG:
			g.Fraction = rapid.SampledFrom([]int{1428, 2857, 4285}).Draw(t, "fraction")
			g.Memory = rapid.SampledFrom([]int64{2, 4, 8}).Draw(t, "instance") * gib
			if g.Capacity = g.Worth(capacity); g.Used > 0 {
				g.Used = g.Capacity
			}
		case g.Mode == nodes.ModeMPS && g.Used > 0:
			g.Holder = rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "holder")
		}
		if rapid.IntRange(0, 9).Draw(t, "unfenced") == 0 {
			g.Unfenced = "the probe failed"
		}
		n.GPUs = append(n.GPUs, g)
	}
	if capacity > 1 && rapid.IntRange(0, 4).Draw(t, "only a part of it") == 0 {
		share := nodes.Allocation{Slots: n.Slots, Memory: n.Memory}
		for _, g := range n.GPUs {
			if x := (nodes.Slice{UUID: g.UUID, Amount: capacity - capacity/4, Memory: 12 * gib}); g.Mode != nodes.ModeMIG {
				share.Slices = append(share.Slices, x)
			}
		}
		n = n.Part(share)
	}
	n.UsedSlots = rapid.IntRange(0, n.Slots).Draw(t, "used slots")
	n.UsedMemory = rapid.Int64Range(0, n.Memory).Draw(t, "used memory")
	return n
}

func drawRequest(t *rapid.T) nodes.Request {
	r := nodes.Request{Slots: rapid.IntRange(0, 16).Draw(t, "asks slots"), Memory: rapid.Int64Range(0, 8).Draw(t, "asks memory") * gib,
		Exclusive: rapid.IntRange(0, 9).Draw(t, "exclusive") == 0}
	switch rapid.IntRange(0, 3).Draw(t, "asks") {
	case 1:
		r.GPU.Amount = nodes.Amount(rapid.Int64Range(1, 900).Draw(t, "amount"))
	case 2:
		r.GPU.Whole = rapid.IntRange(1, 4).Draw(t, "whole")
	case 3:
		r.GPU.Memory, r.GPU.Count = rapid.Int64Range(1, 17*gib).Draw(t, "bytes"), rapid.IntRange(0, 3).Draw(t, "count")
	}
	if !r.GPU.Zero() {
		r.GPU.Model = rapid.SampledFrom([]string{"", "", "h100"}).Draw(t, "asks model")
	}
	if r.GPU.Part() {
		r.GPU.User = rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "asks user")
	}
	return r
}

// A policy has a place exactly where nodes.Fit has one; what it gives can be taken and is what was asked for; it
// changes nothing, its cost is a number, and neither depends on names.
func TestPlaceAgreesWithFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, r := drawNode(t), drawRequest(t)
		before := n.Clone()
		for name, p := range policies() {
			cost, ok := p.Cost(n, r)
			a, placed, also := p.Place(n, r)
			if fits := n.Fit(r) == nil; ok != fits || also != fits {
				t.Fatalf("%s: %t, %t; Fit says %t", name, ok, also, fits)
			}
			if !reflect.DeepEqual(n, before) {
				t.Fatalf("%s: the node was changed: %+v", name, n)
			}
			if !ok {
				continue
			}
			if cost != placed || math.IsNaN(cost) || math.IsInf(cost, 0) {
				t.Fatalf("%s: costs %g and %g", name, cost, placed)
			}
			carved, _ := n.Clone().Carve(r)
			if a.Slots != r.Slots || a.Memory != r.Memory || a.FGPU() != carved.FGPU() || len(a.Slices) != len(carved.Slices) || a.Exclusive != r.Exclusive {
				t.Fatalf("%s: got %+v, Carve gives %+v", name, a, carved)
			}
			if err := n.Admits(a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := n.Clone().Take(a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			other := n.Clone()
			other.ID = "another"
			for i := range other.GPUs {
				other.GPUs[i].UUID = fmt.Sprintf("gpu-%d", 9-i)
			}
			if c, _ := p.Cost(other, r); c != cost {
				t.Fatalf("%s: costs %g, under another name %g", name, cost, c)
			}
		}
	})
}

// A clone costs the same, keeps doing so when the mix goes on, and can be used at the same time (run with -race).
func TestClone(t *testing.T) {
	mix := mixOf(fraction(50), whole(2))
	p := Fragmentation(mix)
	n := host("a", 50, 0, 0)
	want, _ := p.Cost(n, fraction(20))
	c := p.Clone()
	done := make(chan float64)
	go func() {
		last := 0.0
		for range 1000 {
			last, _ = c.Cost(n, fraction(20))
		}
		done <- last
	}()
	for range 1000 {
		mix.Observe(fraction(20), 1, time.Time{})
		p.Cost(n, fraction(20))
	}
	if got := <-done; got != want {
		t.Errorf("the clone costs %g, want %g", got, want)
	}
	if now, _ := p.Cost(n, fraction(20)); now == want {
		t.Error("a thousand observations changed nothing")
	}
	for name, p := range policies() {
		a, _ := p.Cost(n, fraction(20))
		if b, _ := p.Clone().Cost(n, fraction(20)); a != b {
			t.Errorf("%s: costs %g, its clone %g", name, a, b)
		}
	}
}

func TestCostDoesNotAllocate(t *testing.T) {
	n := host("a", 50, 30, 0, 0)
	for name, p := range policies() {
		for _, r := range []nodes.Request{fraction(20), whole(2), cpu(1, gib), whole(9)} {
			p.Cost(n, r)
			if got := testing.AllocsPerRun(100, func() { p.Cost(n, r) }); got != 0 {
				t.Errorf("%s: %g allocations for %+v", name, got, r)
			}
		}
	}
}

func BenchmarkCost(b *testing.B) {
	m := NewMix(0)
	for i := range 60 {
		r := fraction(nodes.Amount(5 + i))
		if i%3 == 0 {
			r = whole(1 + i%8)
		}
		r.Slots += i
		m.Observe(r, float64(1+i), time.Time{})
	}
	p := Fragmentation(m)
	n := host("a", 50, 30, 20, 81, 65, 32, 0, 0)
	n.UsedSlots, n.UsedMemory = 4, gib
	for _, c := range []struct {
		name string
		r    nodes.Request
	}{{"slots", cpu(1, gib)}, {"fraction", fraction(19)}, {"fraction of a fresh GPU", fraction(90)}, {"whole", whole(1)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Cost(n, c.r)
			}
		})
	}
}
