package replay

import (
	"bytes"
	"testing"
)

// Three jobs on two processors, by hand: job 1 has both for 20 s, job 2 waits 10 s for one, job 3 runs 4 s at once.
func TestSummarise(t *testing.T) {
	tasks := []Task{{ID: 1, Submit: 100, Run: 20, Procs: 2}, {ID: 2, Submit: 110, Run: 20, Procs: 1}, {ID: 3, Submit: 130, Run: 4, Procs: 1}}
	starts := []int64{100, 120, 130}
	got := Summarise(tasks, starts, 2)
	want := Result{N: 3, MeanWait: 10.0 / 3, P50Wait: 0, P95Wait: 10, MaxWait: 10, MeanSlowdown: (1 + 1.5 + 1) / 3, MaxSlowdown: 1.5,
		Utilisation: 64.0 / 80, WindowUtilisation: 50.0 / 60, Makespan: 40}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Summarise(nil, nil, 2); got != (Result{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got := Summarise(tasks[:1], starts[:1], 2); got.WindowUtilisation != 0 || got.Utilisation != 1 {
		t.Errorf("of one: %+v", got)
	}
	var b bytes.Buffer
	if err := WriteStarts(&b, tasks, starts); err != nil || b.String() != "1 100\n2 120\n3 130\n" {
		t.Errorf("starts are %q, %v", b.String(), err)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for _, row := range []struct {
		of   []int64
		p    int
		want int64
	}{{hundred, 50, 50}, {hundred, 95, 95}, {hundred, 100, 100}, {[]int64{7}, 50, 7}, {[]int64{1, 2, 3}, 50, 2}, {[]int64{1, 2, 3}, 95, 3}} {
		if got := percentile(row.of, row.p); got != row.want {
			t.Errorf("%d of %v is %d, want %d", row.p, row.of, got, row.want)
		}
	}
}
