package placement

import (
	"math"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"fairslice/nodes"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func shares(m *Mix) map[nodes.Request]float64 {
	out := map[nodes.Request]float64{}
	for _, s := range m.Shapes() {
		out[s.Request] = math.Round(s.Share*1e6) / 1e6
	}
	return out
}

func TestMixDecays(t *testing.T) {
	day := 24 * time.Hour
	m := NewMix(day)
	m.Observe(fraction(50), 4, start)
	m.Observe(whole(1), 1, start.Add(2*day)) // two half-lives later 4 weigh as much as 1
	want := map[nodes.Request]float64{fraction(50): 0.5, whole(1): 0.5}
	if got := shares(m); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	m.Observe(fraction(50), 8, start.Add(-day)) // late news of three half-lives before
	want = map[nodes.Request]float64{fraction(50): 0.666667, whole(1): 0.333333}
	if got := shares(m); !reflect.DeepEqual(got, want) {
		t.Errorf("after late news: got %v, want %v", got, want)
	}
	m.Observe(cpu(1, 0), 1, start.Add(5000*day))
	if got := shares(m); got[cpu(1, 0)] != 1 || len(got) != 1 {
		t.Errorf("after 5000 half-lives: got %v", got)
	}
	m.Observe(whole(1), 1, start)
	if got := shares(m); got[cpu(1, 0)] != 1 {
		t.Errorf("what is 5000 half-lives old counts: %v", got)
	}
}

func TestMixIgnoresWhatIsNoWeight(t *testing.T) {
	m := NewMix(0)
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		m.Observe(whole(1), w, start)
	}
	if got := m.Shapes(); len(got) != 0 || m.Epoch() != 0 {
		t.Errorf("got %v, epoch %d", got, m.Epoch())
	}
}

func TestMixIsBoundedAndKeepsTheHeaviest(t *testing.T) {
	m := NewMix(time.Hour)
	draw := rand.New(rand.NewSource(1))
	for i := range 20_000 {
		m.Observe(nodes.Request{Slots: 1 << draw.Intn(30), Memory: draw.Int63()}, 1, start.Add(time.Duration(i)*time.Second))
		if i%10 == 0 {
			m.Observe(whole(8), 1, start.Add(time.Duration(i)*time.Second))
		}
		if len(m.weights) > 2*maxShapes {
			t.Fatalf("%d shapes", len(m.weights))
		}
	}
	if got := m.Shapes()[0].Request; got != coarse(whole(8)) {
		t.Errorf("the heaviest is %+v", got)
	}
}

func TestFourBits(t *testing.T) {
	for v, want := range map[int64]int64{-5: 0, 0: 0, 1: 1, 15: 15, 16: 16, 17: 18, 18: 18, 31: 32, 100: 104, 1000: 1024, 1087: 1024, 1088: 1152, math.MaxInt64: 1 << 62} {
		if got := fourBits(v); got != want {
			t.Errorf("%d becomes %d, want %d", v, got, want)
		}
	}
}

func TestEpochGrowsWithTheMix(t *testing.T) {
	m := NewMix(0)
	last := m.Epoch()
	changes := 0
	for range 10_000 {
		m.Observe(whole(1), 1, start)
		if m.Epoch() != last {
			last = m.Epoch()
			changes++
		}
	}
	if changes < 20 || changes > 300 {
		t.Errorf("%d epochs for 10,000 observations", changes)
	}
	m.Supply([]*nodes.Node{host("a", 0)})
	if m.Epoch() == last {
		t.Error("another supply is no new epoch")
	}
	last = m.Epoch()
	m.Supply([]*nodes.Node{host("a", 50)})
	if m.Epoch() != last {
		t.Error("the same supply is a new epoch")
	}
	c := m.Clone()
	c.Observe(whole(2), 1, start)
	if reflect.DeepEqual(c.Shapes(), m.Shapes()) {
		t.Error("a clone is not a mix of its own")
	}
}

// 1 of 10 GPUs is rare; half of the demand needs it: price 0.5*10/1 of priceWeight. A third model, that nobody
// names, has none.
func TestPriceOfAScarceModel(t *testing.T) {
	m := mixOf(whole(1), ofModel(whole(1), "rare|gone"))
	m.Supply([]*nodes.Node{host("Rare-80GB", 0), host("usual", 0, 0, 0, 0, 0, 0, 0, 0, 0)})
	d := newDemand(m, 100, 0)
	if got := d.price["Rare-80GB"] / priceWeight; math.Abs(got-5) > 1e-9 {
		t.Errorf("the price is %g, want 5", got)
	}
	if got := d.price["usual"]; got != 0 {
		t.Errorf("a model that nobody needs costs %g", got)
	}
}

func TestDemandOf(t *testing.T) {
	for _, c := range []struct {
		name string
		r    nodes.GPURequest
		want gpuDemand
	}{
		{"a fraction", nodes.GPURequest{Amount: 100}, gpuDemand{parts: 1, size: 0.25}},
		{"one and a half", nodes.GPURequest{Amount: 600}, gpuDemand{whole: 1, parts: 1, size: 0.5}},
		{"whole ones", nodes.GPURequest{Whole: 3}, gpuDemand{whole: 3}},
		{"by memory", nodes.GPURequest{Memory: 4 * gib, Count: 2}, gpuDemand{parts: 2, size: 0.25}},
		{"all the memory", nodes.GPURequest{Memory: 16 * gib}, gpuDemand{whole: 1}},
		{"more memory than there is", nodes.GPURequest{Memory: 17 * gib}, gpuDemand{}},
		{"nothing", nodes.GPURequest{}, gpuDemand{}},
	} {
		if got := demandOf(&c.r, 400, 16*gib); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
