package accounting

import (
	"math"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

const week = 7 * 24 * time.Hour

// noon lies in the middle of nothing: no period of any half-life used here begins at it.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func mustUsage(t testing.TB, halfLife time.Duration) *Usage {
	t.Helper()
	u, err := NewUsage(halfLife)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// near allows for the unit of counting and for the rounding of exp2.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want)+1.0/unit }

func TestDecay(t *testing.T) {
	hist := 5 * time.Hour // LSF's HIST_HOURS: after so long, a tenth is left
	for _, row := range []struct {
		what          string
		halfLife, age time.Duration
		amount, want  float64
	}{
		{"nothing has passed", week, 0, 3600, 3600},
		{"one half-life", week, week, 3600, 1800},
		{"three half-lives", week, 3 * week, 3600, 450},
		{"a day of seven: 2^(-1/7)", week, 24 * time.Hour, 1e6, 905723.6643},
		{"LSF: 1 h of use counts 0.1 h after 5 h", time.Duration(float64(hist) / math.Log2(10)), hist, 3600, 360},
		{"HTCondor: half a day of PRIORITY_HALFLIFE", 86400 * time.Second, 43200 * time.Second, 1000, 707.10678},
		{"a half-life of seconds, where Slurm's 0.693 gives 48.8 %", 10 * time.Second, 10 * time.Second, 1000, 500},
		{"F2: 63 half-lives: next to nothing, but no trouble", time.Hour, 63 * time.Hour, math.Ldexp(1, 40), math.Ldexp(1, -23)},
		{"F2: 64 periods: nothing, not less", time.Hour, 65 * time.Hour, 1e12, 0},
		{"a thousand years", time.Second, 200 * 365 * 24 * time.Hour, 1e12, 0},
	} {
		u := mustUsage(t, row.halfLife)
		u.Add("ada", noon, Used{SlotSeconds: row.amount, FGPUSeconds: row.amount / 2})
		if got := u.Of("ada", noon.Add(row.age)); !near(got.SlotSeconds, row.want) || !near(got.FGPUSeconds, row.want/2) {
			t.Errorf("%s: got %v, want %v and half of it", row.what, got, row.want)
		}
	}
}

// FS7 of the literature, by hand: run × processors charged at the end of a job, half-life of seven days, lowest usage first.
func TestFairShareOfSevenDaysByHand(t *testing.T) {
	u := mustUsage(t, week)
	day := func(d float64) time.Time { return time.Unix(0, 0).Add(time.Duration(d * float64(24*time.Hour))) }
	u.Add("a", day(0), Used{SlotSeconds: 1000 * 64})
	u.Add("b", day(3.5), Used{SlotSeconds: 800 * 64})
	u.Add("a", day(7), Used{SlotSeconds: 300 * 64})
	u.Add("c", day(14), Used{SlotSeconds: 500 * 64})
	for user, want := range map[string]float64{
		"a": 64 * (1000.0/4 + 300.0/2),     // two weeks and one week ago
		"b": 64 * 800 * math.Exp2(-10.5/7), // 282.84 × 64
		"c": 64 * 500,
		"d": 0,
	} {
		if got := u.Of(user, day(14)).SlotSeconds; !near(got, want) {
			t.Errorf("%s: got %v, want %v", user, got, want)
		}
	}
	tally := u.At(day(14), Weights{})
	for user, want := range map[string]float64{"d": 1, "b": 0.75, "a": 0.5, "c": 0.25} {
		if got := tally.Factor(user); got != want {
			t.Errorf("factor of %s: got %v, want %v", user, got, want)
		}
	}
}

func TestReadingDecaysNothing(t *testing.T) { // openpbs#2220: decay twice
	u, read := mustUsage(t, week), mustUsage(t, week)
	u.Add("ada", noon, Used{SlotSeconds: 1e6, FGPUSeconds: 5})
	read.Add("ada", noon, Used{SlotSeconds: 1e6, FGPUSeconds: 5})
	for h := range 500 {
		read.Of("ada", noon.Add(time.Duration(h)*time.Hour))
	}
	at := noon.Add(20 * 24 * time.Hour)
	if a, b := u.Of("ada", at), read.Of("ada", at); a != b {
		t.Errorf("read often: %v; read once: %v", b, a)
	}
}

// After a restart usage is made of the stored charges: a job that ended once is there once (F1: Slurm bug 3162), also when
// it is read only from Since on.
func TestARestartChargesNothingAgain(t *testing.T) {
	before := mustUsage(t, time.Hour)
	var stored []queue.Charge
	now := noon
	for i := range 300 {
		now = now.Add(17 * time.Minute)
		c := queue.Charge{User: []string{"ada", "bob", "eve"}[i%3], Ended: now, OldSlotTime: float64(i) * 1.7, OldFGPUTime: 0.3}
		before.Charge(&c)
		stored = append(stored, c)
	}
	after := mustUsage(t, time.Hour)
	skipped := 0
	for i := range stored {
		c := &stored[len(stored)-1-i] // a database gives them in any order
		if c.Ended.Before(after.Since(now)) {
			skipped++
			continue
		}
		after.Charge(c)
	}
	for _, user := range []string{"ada", "bob", "eve"} {
		if a, b := before.Of(user, now), after.Of(user, now); a != b || a.SlotSeconds == 0 {
			t.Errorf("%s: before the restart %v, after it %v", user, a, b)
		}
	}
	if skipped == 0 || skipped == len(stored) {
		t.Errorf("%d of %d charges are too old: the test says nothing", skipped, len(stored))
	}
}

func TestOddChargesDoNoHarm(t *testing.T) { // F4: negative sums and times
	u := mustUsage(t, week)
	for _, x := range []float64{math.NaN(), math.Inf(-1), -1, 0, math.Copysign(0, -1), 5e-324} {
		u.Add("ada", noon, Used{SlotSeconds: x, FGPUSeconds: x})
	}
	if len(u.users) != 0 {
		t.Errorf("nothing was charged, and is remembered: %v", u.users)
	}
	for range 3 { // stops at the most, and does not begin anew
		u.Add("bob", noon, Used{SlotSeconds: math.Inf(1), FGPUSeconds: 1e300})
	}
	if got := u.Of("bob", noon).SlotSeconds; !(got > 1e14) || math.IsInf(got, 0) {
		t.Errorf("endless usage became %v", got)
	}
	for what, at := range map[string]time.Time{"no time": {}, "before 1970": time.Unix(-5, 0), "beyond counting": time.Unix(1<<40, 0)} {
		u.Add("eve", at, Used{SlotSeconds: 10, FGPUSeconds: 10})
		for _, now := range []time.Time{{}, noon, at, time.Unix(1<<60, 0)} {
			if got := u.Of("eve", now).SlotSeconds; !(got >= 0 && got <= 60) {
				t.Errorf("%s, read at %s: %v", what, now, got)
			}
		}
	}
}

// A clock that was set back must not make a charge grow.
func TestChargesOfTheFuture(t *testing.T) {
	u := mustUsage(t, week)
	u.Add("ada", noon.AddDate(50, 0, 0), Used{SlotSeconds: 1000})
	if got := u.Of("ada", noon).SlotSeconds; got < 500 || got > 2000 {
		t.Errorf("1000 slot-seconds of the future count as %v", got)
	}
}

func TestAHalfLifeOfNothingIsRefused(t *testing.T) { // kueue#11134
	for _, d := range []time.Duration{0, -time.Second} {
		if _, err := NewUsage(d); err == nil {
			t.Errorf("a half-life of %s was accepted", d)
		}
	}
}

func TestGPUWeight(t *testing.T) {
	node := func(slots, gpus int, each nodes.Amount) *nodes.Node {
		n := &nodes.Node{Slots: slots}
		for range gpus {
			n.GPUs = append(n.GPUs, nodes.GPU{Capacity: each})
		}
		return n
	}
	for _, row := range []struct {
		what string
		all  []*nodes.Node
		want float64
	}{
		{"no node", nil, 1},
		{"no GPU", []*nodes.Node{node(64, 0, 0)}, 1},
		{"64 slots and 4 GPUs of 1 fGPU", []*nodes.Node{node(64, 4, 100)}, 16},
		{"the same GPUs, cut finer", []*nodes.Node{node(64, 4, 500)}, 3.2},
		{"nodes without GPUs change nothing", []*nodes.Node{node(64, 4, 100), node(1000, 0, 0)}, 16},
		{"two kinds", []*nodes.Node{node(64, 4, 100), node(16, 4, 100)}, 10},
		{"GPUs that are worth nothing", []*nodes.Node{node(64, 4, 0)}, 1},
	} {
		if got := GPUWeight(row.all); got != row.want {
			t.Errorf("%s: got %v, want %v", row.what, got, row.want)
		}
	}
}
