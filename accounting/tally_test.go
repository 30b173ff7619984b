package accounting

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/queue"
)

func TestGPUTimeCountsByItsWeight(t *testing.T) {
	u := mustUsage(t, week)
	u.Add("cpu", noon, Used{SlotSeconds: 3600})
	u.Add("gpu", noon, Used{SlotSeconds: 3600, FGPUSeconds: 1800})
	for weight, want := range map[float64]float64{0: 3600, 1: 5400, 16: 32400, -3: 3600, math.Inf(1): 3600 + 1800e6} {
		if got := u.At(noon, Weights{GPU: weight}).Of("gpu"); math.Abs(got-want) > 1e-9*want {
			t.Errorf("weight %v: got %v, want %v", weight, got, want)
		}
	}
	if got := u.At(noon, Weights{GPU: math.NaN()}).Of("gpu"); !near(got, 3600) {
		t.Errorf("weight NaN: got %v", got)
	}
}

// By hand: 2 h of 4 slots, 1 fGPU and 48 GiB; memory decays as the rest does, and alone is enough to come later.
func TestMemoryCountsByItsWeight(t *testing.T) {
	c := queue.Charge{User: "ada", Began: boundary.Add(-2 * time.Hour), Ended: boundary, Slots: 4, FGPU: 100, Memory: 48 << 30}
	u := mustUsage(t, week)
	u.Charge(&c)
	if got := u.Of("ada", boundary.Add(week)); got != (Used{4 * 3600, 3600, 48 * 3600}) {
		t.Errorf("after a half-life of 8 slot-hours, 2 fGPU-hours and 96 GiB-hours: %v", got)
	}
	for weight, want := range map[float64]float64{0: 2*4 + 2*16, 0.125: 2*4 + 2*16 + 96*0.125, 1: 2*4 + 2*16 + 96, -1: 40, math.Inf(1): 40 + 96e6} {
		if got := u.At(boundary, Weights{GPU: 16, Memory: weight}).Of("ada") / 3600; !near(got, want) {
			t.Errorf("weight %v: %v slot-hours, want %v", weight, got, want)
		}
	}
	for weight, want := range map[float64]float64{0: 2. / 3, 1: 1. / 3} { // without memory ada and eve have used the same
		u := mustUsage(t, week)
		u.Add("ada", noon, Used{SlotSeconds: 7, GiBSeconds: 1})
		u.Add("eve", noon, Used{SlotSeconds: 7})
		if got := u.At(noon, Weights{Memory: weight}).Factor("ada"); got != want {
			t.Errorf("weight %v: factor %v, want %v", weight, got, want)
		}
	}
}

func TestFactorIsARank(t *testing.T) {
	u := mustUsage(t, week)
	for user, used := range map[string]float64{"u1": 200, "u2": 250, "u4": 250, "u6": 1} {
		u.Add(user, noon, Used{SlotSeconds: used})
	}
	tally := u.At(noon.Add(week), Weights{GPU: 1})
	for user, want := range map[string]float64{
		"u2": 2.0 / 5, "u4": 2.0 / 5, // equal: the better of their ranks
		"u1": 3.0 / 5, "u6": 4.0 / 5,
		"u3": 1, "nobody": 1, // nothing used
	} {
		if got := tally.Factor(user); got != want {
			t.Errorf("%s: got %v, want %v", user, got, want)
		}
	}
}

func TestRatioIsSlurmsUsageByShare(t *testing.T) {
	u := mustUsage(t, week)
	for user, used := range map[string]float64{"a": 900, "b": 100, "c": 100, "d": 100} {
		u.Add(user, noon, Used{SlotSeconds: used})
	}
	tally := u.At(noon, Weights{})
	for user, want := range map[string]float64{"a": 3, "b": 1.0 / 3, "e": 0} { // classic factors 0.125, 0.794, 1
		if got := tally.Ratio(user); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", user, got, want)
		}
	}
	if got := math.Exp2(-tally.Ratio("a")); math.Abs(got-0.125) > 1e-12 {
		t.Errorf("the classic factor is %v", got)
	}
}

func TestRunningWorkCounts(t *testing.T) {
	u := mustUsage(t, week)
	tally := u.At(noon, Weights{GPU: 10})
	tally.Hold("ada", Holding{Slots: 4, FGPU: 50}, noon.Add(-time.Minute))
	tally.Hold("ada", Holding{Slots: 1}, noon.Add(-time.Second))
	tally.Hold("bob", Holding{Slots: 4, FGPU: 50}, noon.Add(time.Hour)) // began in the future: F4, never negative
	tally.Hold("eve", Holding{Slots: 4, FGPU: 50}, time.Time{})         // F8: no time is not the year 1
	if got, want := tally.Of("ada"), 4*60+10*0.5*60+1.0; got != want {
		t.Errorf("ada: got %v, want %v", got, want)
	}
	if tally.Of("bob") != 0 || tally.Of("eve") != 0 {
		t.Errorf("bob %v, eve %v", tally.Of("bob"), tally.Of("eve"))
	}
	if tally.Factor("ada") != 0.5 || tally.Factor("bob") != 1 {
		t.Errorf("factors %v and %v", tally.Factor("ada"), tally.Factor("bob"))
	}
}

// The end of a job changes nobody's place: what ran is then charged, and no longer held. F5: both by the same weights.
func TestTheEndOfAJobChangesNoUsage(t *testing.T) {
	u := mustUsage(t, week)
	running := u.At(noon, Weights{GPU: 3})
	running.Hold("ada", Holding{Slots: 7, FGPU: 125, Memory: 3 << 29}, noon.Add(-100*time.Second))
	u.Add("ada", noon, Used{SlotSeconds: 700, FGPUSeconds: 125, GiBSeconds: 150})
	if a, b := running.users["ada"].held.used(), u.Of("ada", noon); !near(a.SlotSeconds, b.SlotSeconds) || !near(a.FGPUSeconds, b.FGPUSeconds) || !near(a.GiBSeconds, b.GiBSeconds) || a.GiBSeconds != 150 {
		t.Errorf("running %v, charged %v", a, b)
	}
}

// openpbs#1661: U0 runs; J2 and J3 of U1, J4 of U2 wait, each for the whole machine. What a cycle gives U1 counts at once.
func TestWhatACycleStartsCountsInIt(t *testing.T) {
	type job struct{ name, user string }
	waiting := []job{{"J2", "U1"}, {"J3", "U1"}, {"J4", "U2"}}
	tally := mustUsage(t, week).At(noon, Weights{})
	tally.Hold("U0", Holding{Slots: 5}, noon.Add(-time.Hour))
	var order []string
	for len(waiting) > 0 {
		next := 0
		for i := range waiting {
			if tally.Of(waiting[i].user) < tally.Of(waiting[next].user) {
				next = i
			}
		}
		order = append(order, waiting[next].name)
		tally.Commit(waiting[next].user, Holding{Slots: 5}, time.Hour)
		waiting = slices.Delete(waiting, next, next+1)
	}
	if want := []string{"J2", "J4", "J3"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// charged is one drawn charge.
type charged struct {
	user  string
	at    time.Time
	slots float64
	fgpu  float64
}

func drawCharges(t *rapid.T) []charged {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) charged {
		return charged{
			user:  rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "user"),
			at:    noon.Add(-time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "ago"))),
			slots: rapid.Float64Range(0, 1e7).Draw(t, "slots"),
			fgpu:  rapid.Float64Range(0, 1e5).Draw(t, "fgpu"),
		}
	}), 1, 60).Draw(t, "charges")
}

func usageOf(t *rapid.T, halfLife time.Duration, all []charged) *Usage {
	u, err := NewUsage(halfLife)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		u.Add(c.user, c.at, Used{SlotSeconds: c.slots, FGPUSeconds: c.fgpu})
	}
	return u
}

func drawHalfLife(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(int64(time.Second), int64(2*week)).Draw(t, "half-life"))
}

// TestAnyOrderGivesTheSame holds to the last bit: usage, factors and ratios.
func TestAnyOrderGivesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, halfLife := drawCharges(t), drawHalfLife(t)
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(4*week)).Draw(t, "later")))
		a := usageOf(t, halfLife, all).At(now, Weights{GPU: 2.5})
		b := usageOf(t, halfLife, rapid.Permutation(all).Draw(t, "order")).At(now, Weights{GPU: 2.5})
		held := rapid.Permutation([]int{1, 2, 3, 5, 8}).Draw(t, "held")
		for i, n := range []int{1, 2, 3, 5, 8} {
			a.Hold("a", Holding{Slots: n, FGPU: 33}, noon.Add(-time.Duration(n)*time.Hour/7))
			b.Hold("a", Holding{Slots: held[i], FGPU: 33}, noon.Add(-time.Duration(held[i])*time.Hour/7))
		}
		for _, user := range []string{"a", "b", "c", "d", "e"} {
			if a.Of(user) != b.Of(user) || a.Factor(user) != b.Factor(user) || a.Ratio(user) != b.Ratio(user) {
				t.Fatalf("%s: %v %v %v and %v %v %v", user, a.Of(user), a.Factor(user), a.Ratio(user), b.Of(user), b.Factor(user), b.Ratio(user))
			}
		}
	})
}

// TestUsageIsTheSumOfWhatIsLeftOfEachCharge compares with the definition.
func TestUsageIsTheSumOfWhatIsLeftOfEachCharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, halfLife := drawCharges(t), drawHalfLife(t)
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(4*week)).Draw(t, "later")))
		want := map[string]float64{}
		for _, c := range all {
			want[c.user] += c.slots * math.Exp2(-now.Sub(c.at).Seconds()/halfLife.Seconds())
		}
		u := usageOf(t, halfLife, all)
		for user, w := range want {
			if got := u.Of(user, now).SlotSeconds; math.Abs(got-w) > 1e-9*w+float64(len(all))/unit {
				t.Fatalf("%s: got %v, want %v", user, got, w)
			}
		}
	})
}

func TestUsageHalvesAndOnlyFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, halfLife := drawCharges(t), time.Duration(rapid.Int64Range(int64(time.Hour), int64(2*week)).Draw(t, "half-life"))
		u := usageOf(t, halfLife, all)
		after := func(part float64) Used { return u.Of("a", noon.Add(time.Duration(part*float64(halfLife)))) }
		now, soon, half := after(0), after(rapid.Float64Range(0, 1).Draw(t, "part")), after(1)
		// An entry may fall out of the 64 periods meanwhile; it was worth less than a unit.
		if !near(half.SlotSeconds, now.SlotSeconds/2) || !near(half.FGPUSeconds, now.FGPUSeconds/2) {
			t.Fatalf("now %v, after a half-life %v", now, half)
		}
		if soon.SlotSeconds > now.SlotSeconds*(1+1e-15) || soon.SlotSeconds < half.SlotSeconds*(1-1e-15) {
			t.Fatalf("now %v, between %v, after a half-life %v", now, soon, half)
		}
	})
}

// TestMoreUsageIsNeverBetter: a charge, running work or a start gives its user no better factor, and nobody else a worse one
// than one rank of a newcomer costs.
func TestMoreUsageIsNeverBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawCharges(t)
		u := usageOf(t, 24*time.Hour, all)
		before := u.At(noon, Weights{GPU: 4})
		was, used := before.Factor("a"), before.Of("a")
		tally := u.At(noon, Weights{GPU: 4})
		tally.Commit("a", Holding{Slots: rapid.IntRange(0, 100).Draw(t, "slots"), FGPU: 100}, time.Duration(rapid.Int64Range(-5, 1e6).Draw(t, "seconds"))*time.Second)
		if tally.Of("a") < used || tally.Factor("a") > was {
			t.Fatalf("usage %v → %v, factor %v → %v", used, tally.Of("a"), was, tally.Factor("a"))
		}
		for _, user := range []string{"a", "b", "c", "d", "e", "nobody"} {
			if f := tally.Factor(user); !(f > 0 && f <= 1) {
				t.Fatalf("factor of %s: %v", user, f)
			}
			for _, other := range []string{"a", "b", "c", "d", "e", "nobody"} {
				if (tally.Of(user) < tally.Of(other)) != (tally.Factor(user) > tally.Factor(other)) {
					t.Fatalf("%s used %v and has %v; %s used %v and has %v", user, tally.Of(user), tally.Factor(user), other, tally.Of(other), tally.Factor(other))
				}
			}
		}
	})
}

// FuzzUsage holds that no charge and no time, however odd, gives usage that is not a number of 0 or more.
func FuzzUsage(f *testing.F) {
	f.Add(int64(week), int64(1e18), 1.0, 2.0, int64(2e18), 3.0)
	f.Add(int64(1), int64(-1), math.Inf(1), math.NaN(), int64(math.MaxInt64), math.Inf(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), -1.0, 5e-324, int64(math.MinInt64), -1.0)
	f.Fuzz(func(t *testing.T, halfLife, at int64, slots, fgpu float64, now int64, weight float64) {
		u, err := NewUsage(time.Duration(halfLife))
		if err != nil {
			return
		}
		u.Add("a", time.Unix(at, at), Used{SlotSeconds: slots, FGPUSeconds: fgpu})
		u.Add("b", time.Unix(0, at), Used{SlotSeconds: fgpu, FGPUSeconds: slots})
		u.Add("a", time.Unix(now, 0), Used{SlotSeconds: fgpu, FGPUSeconds: fgpu})
		moment := time.Unix(0, now)
		tally := u.At(moment, Weights{GPU: weight})
		tally.Hold("a", Holding{Slots: int(at), FGPU: 5}, time.Unix(0, at))
		tally.Commit("c", Holding{Slots: int(now), FGPU: -5}, time.Duration(at))
		for _, user := range []string{"a", "b", "c", "d"} {
			if x := tally.Of(user); !(x >= 0) || math.IsInf(x, 0) {
				t.Fatalf("usage of %s: %v", user, x)
			}
			if x := tally.Factor(user); !(x > 0 && x <= 1) {
				t.Fatalf("factor of %s: %v", user, x)
			}
			if x := tally.Ratio(user); !(x >= 0) || math.IsInf(x, 0) {
				t.Fatalf("ratio of %s: %v", user, x)
			}
		}
		if u.Since(moment).After(time.Unix(0, max(now, 0))) {
			t.Fatalf("charges from %s on count at %s", u.Since(moment), moment)
		}
	})
}

// kueue#6617: shares that were rounded down to 0 hid who had used more than his.
func TestALittleUsageIsNotRoundedAway(t *testing.T) {
	u := mustUsage(t, week)
	u.Add("much", noon, Used{SlotSeconds: 1e9})
	u.Add("little", noon, Used{SlotSeconds: 1})
	tally := u.At(noon.Add(10*week), Weights{})
	if r := tally.Ratio("little"); r <= 0 || r > 1e-8 {
		t.Errorf("the ratio of little use is %v", r)
	}
	if none, little, much := tally.Factor("none"), tally.Factor("little"), tally.Factor("much"); none <= little || little <= much {
		t.Errorf("factors: %v of none, %v of little, %v of much", none, little, much)
	}
}
