package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairslice/accounting"
	"fairslice/backfill"
)

// policies are those of the table, as the planner knows them.
var policies = map[string]backfill.Policy{
	"fcfs":         {Protected: 0, Order: backfill.FCFS},
	"easy":         {Protected: 1, Order: backfill.FCFS},
	"easy-sjf":     {Protected: 1, Order: backfill.FCFS, Candidates: backfill.SJF},
	"conservative": {Protected: backfill.All, Order: backfill.FCFS},
}

func TestReplayPublished(t *testing.T) {
	for _, row := range published {
		t.Run(fmt.Sprintf("%s %s perfect=%v", row.trace, row.policy, row.perfect), func(t *testing.T) {
			if row.slow && testing.Short() {
				t.Skip("some ten seconds: not in -short")
			}
			change := Change{}
			if row.perfect {
				change.Estimate = Perfect
			}
			tasks := realWorkload(t, row.trace, row.procs, change)
			s, err := Replay(tasks, Options{Nodes: Machine(row.procs), Policy: policies[row.policy]})
			if err != nil {
				t.Fatal(err)
			}
			checkPublished(t, tasks, s.Starts, row.procs, row.jobs, row.wait, row.bsld, row.starts)
		})
	}
}

// TestReplayMeasured are results that another implementation measured too: mean wait, mean bounded slowdown, and
// utilisation until the last submission. (The waits of crowded traces, and digits beyond the second or fourth, are
// our own: a change shows.)
func TestReplayMeasured(t *testing.T) {
	easy := func(o backfill.Order) backfill.Policy { return backfill.Policy{Protected: 1, Order: o} }
	for _, row := range []struct {
		what, trace string
		procs       int64
		policy      backfill.Policy
		change      Change
		want        string
		slow        bool
	}{
		{"xfactor", "KTH-SP2-1996-2.1-cln", 100, easy(backfill.XFactor), Change{}, "5226.07 52.6064 0.6971", false},
		{"fairshare", "KTH-SP2-1996-2.1-cln", 100, easy(backfill.FairShare), Change{}, "6211.59 42.0966 0.6971", false},
		{"conservative, perfect", "KTH-SP2-1996-2.1-cln", 100, policies["conservative"], Change{Estimate: Perfect}, "7030.18 67.1521 0.6971", false},
		{"crowded easy", "KTH-SP2-1996-2.1-cln", 100, policies["easy"], Change{Compress: 0.7}, "167622.30 1363.9776 0.9627", false},
		{"crowded easy-sjf", "KTH-SP2-1996-2.1-cln", 100, policies["easy-sjf"], Change{Compress: 0.7}, "157437.48 1037.7461 0.9337", false},
		{"crowded conservative", "KTH-SP2-1996-2.1-cln", 100, policies["conservative"], Change{Compress: 0.7}, "179582.73 1235.9084 0.9392", true},
		{"sjf", "SDSC-SP2-1998-4.2-cln", 128, policies["easy-sjf"], Change{}, "20790.63 84.8446 0.8246", false},
		{"fcfs", "SDSC-SP2-1998-4.2-cln", 128, policies["fcfs"], Change{}, "1535707.31 13824.9670 0.7561", false},
		{"crowded easy", "SDSC-SP2-1998-4.2-cln", 128, policies["easy"], Change{Compress: 0.8}, "322498.44 926.3879 0.9465", false},
	} {
		t.Run(row.trace+" "+row.what, func(t *testing.T) {
			if row.slow && testing.Short() {
				t.Skip("some ten seconds: not in -short")
			}
			tasks := realWorkload(t, row.trace, row.procs, row.change)
			s, err := Replay(tasks, Options{Nodes: Machine(row.procs), Policy: row.policy})
			if err != nil {
				t.Fatal(err)
			}
			r := Summarise(tasks, s.Starts, row.procs)
			if got := fmt.Sprintf("%.2f %.4f %.4f", r.MeanWait, r.MeanSlowdown, r.WindowUtilisation); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestReplaySmall is the comparison for those who have no real traces.
func TestReplaySmall(t *testing.T) {
	for _, policy := range slices.Sorted(maps.Keys(policies)) {
		for name, change := range map[string]Change{"as it is": {}, "perfect": {Estimate: Perfect}, "crowded": {Compress: 0.25}} {
			tasks, _ := smallWorkload(t, change)
			s, err := Replay(tasks, Options{Nodes: Machine(smallProcs), Policy: policies[policy]})
			if err != nil {
				t.Fatal(err)
			}
			if want := oracleReplay(tasks, smallProcs, policy); !slices.Equal(s.Starts, want) {
				t.Errorf("%s, %s:\n%s", policy, name, tell(tasks, s.Starts, want))
			}
			// A pass after each submission and each termination, and perhaps for a promise.
			if s.Passes < 2*len(tasks) || s.Passes > 3*len(tasks) {
				t.Errorf("%s, %s: %d passes for %d tasks", policy, name, s.Passes, len(tasks))
			}
		}
	}
}

// What all orders must do: start everybody, on no more processors than there are.
func TestReplayOrders(t *testing.T) {
	for name, order := range map[string]backfill.Order{"fairshare": backfill.FairShare, "xfactor": backfill.XFactor, "sjf": backfill.SJF} {
		for _, protected := range []int{0, 1, 3, backfill.All} {
			tasks, _ := smallWorkload(t, Change{Compress: 0.5})
			s, err := Replay(tasks, Options{Nodes: Machine(smallProcs), Policy: backfill.Policy{Protected: protected, Order: order}})
			if err != nil {
				t.Fatal(err)
			}
			if what := wrongSchedule(tasks, s.Starts, smallProcs); what != "" {
				t.Errorf("%s, %d protected: %s", name, protected, what)
			}
		}
	}
}

// wrongSchedule says what is impossible about a schedule, or "".
func wrongSchedule(tasks []Task, starts []int64, procs int64) string {
	for i, x := range tasks {
		if starts[i] == NotStarted || starts[i] < x.Submit {
			return fmt.Sprintf("job %d, submitted at %d, starts at %d", x.ID, x.Submit, starts[i])
		}
		used := int64(0)
		for k, y := range tasks {
			if starts[k] <= starts[i] && starts[i] < starts[k]+y.Run {
				used += y.Procs
			}
		}
		if used > procs {
			return fmt.Sprintf("%d processors are in use at %d", used, starts[i])
		}
	}
	return ""
}

func TestReplayOfWhatCannotBe(t *testing.T) {
	good := Task{ID: 1, Submit: 5, Run: 10, Limit: 10, Procs: 2}
	large, early, late, none := good, good, good, good
	large.Procs, early.Submit, late.Run, none.Run = 3, 4, 11, 0
	s, err := Replay([]Task{good, large, good}, Options{Nodes: Machine(2), Policy: policies["easy"]})
	if err != nil || !slices.Equal(s.Starts, []int64{5, NotStarted, 15}) {
		t.Errorf("with one that is too large: %v, %v", s, err)
	}
	for what, tasks := range map[string][]Task{"order": {good, early}, "limit": {late}, "run time": {none}} {
		if _, err := Replay(tasks, Options{Nodes: Machine(2)}); err == nil || !strings.Contains(err.Error(), "wanted is 1 <= run <= limit, in order of submission") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := Replay(nil, Options{Nodes: Machine(2)}); err != nil || len(s.Starts) != 0 {
		t.Errorf("of nothing: %v, %v", s, err)
	}
}

func TestReplayTellsAndStops(t *testing.T) {
	tasks := make([]Task, 5000)
	for i := range tasks {
		tasks[i] = Task{ID: int64(i), Submit: int64(2 * i), Run: 1, Limit: 1, Procs: 1}
	}
	var told []int
	enough := errors.New("enough")
	_, err := Replay(tasks, Options{Nodes: Machine(1), Progress: func(done, all int) { told = append(told, done, all) }, Stop: func() error {
		if len(told) < 4 {
			return nil
		}
		return enough
	}})
	if !errors.Is(err, enough) || !slices.Equal(told, []int{1000, 5000, 2000, 5000}) {
		t.Errorf("told %v, %v", told, err)
	}
}

// Usage is charged when a task ends, and halved in a week; who has used less goes first.
func TestWorkOfATask(t *testing.T) { // by hand: 10 s of 4 processors, half a fGPU and 3 GiB
	task := &Task{Run: 10, Procs: 4, FGPU: 50, Memory: 3 << 30}
	for w, want := range map[accounting.Weights]float64{{}: 40, {GPU: 8}: 80, {GPU: 8, Memory: 0.5}: 95} {
		if got := workOf(task, w); got != want {
			t.Errorf("%+v: %v processor-seconds, want %v", w, got, want)
		}
	}
}

func TestFairShare(t *testing.T) {
	tasks := []Task{{Submit: 1000}, {Submit: 2000}}
	f := newFairShare(tasks, []string{"a", "b"})
	f.now = 1000
	if f.charge(0, 100); f.of("a") >= f.of("b") || f.of("b") != 0 {
		t.Errorf("after a's task: %v, %v", f.of("a"), f.of("b"))
	}
	f.now += halfLife
	if f.charge(1, 50); f.of("a") != f.of("b") {
		t.Errorf("half, a week later, is not as much: %v, %v", f.of("a"), f.of("b"))
	}
	f.now += 1000 * halfLife // long after all of that is forgotten
	if f.charge(0, 7); f.of("a") != -7 || f.of("b") > 0 || f.of("b") < -1e-9 {
		t.Errorf("twenty years later: %v, %v", f.of("a"), f.of("b"))
	}
}
