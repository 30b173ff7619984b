package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// published are the results that the issue gives, and whether every start is known.
var published = []struct {
	trace      string
	procs      int64
	policy     string
	perfect    bool
	jobs       int
	wait, bsld string
	starts     string
	slow       bool
}{
	{"KTH-SP2-1996-2.1-cln", 100, "fcfs", false, 28467, "353949.9321", "6818.321585", "KTH-cln.fcfs", false},
	{"KTH-SP2-1996-2.1-cln", 100, "easy", false, 28467, "6839.7710", "92.618756", "KTH-cln.easy", false},
	{"KTH-SP2-1996-2.1-cln", 100, "easy-sjf", false, 28467, "5906.5167", "69.436222", "KTH-cln.easy-sjbf", false},
	{"KTH-SP2-1996-2.1-cln", 100, "conservative", false, 28467, "7313.6830", "89.037731", "KTH-cln.conservative", false},
	{"KTH-SP2-1996-2.1-cln", 100, "easy", true, 28467, "6330.3301", "71.754346", "", false},
	{"SDSC-SP2-1998-4.2-cln", 128, "easy", false, 53999, "20494.7366", "87.825220", "SDSC-SP2-1998-4.2-cln.easy", false},
	{"SDSC-SP2-1998-4.2-cln", 128, "conservative", false, 53999, "21887.6515", "89.641473", "SDSC-SP2-1998-4.2-cln.conservative", false},
	{"HPC2N-2002-2.2-cln", 240, "easy", false, 202871, "10711.9594", "87.676366", "", false},
	{"HPC2N-2002-2.2-cln", 240, "conservative", false, 202871, "10790.2967", "86.634286", "", true},
}

// traceFile finds a file of the real traces, which are too large and not ours to keep here.
func traceFile(t testing.TB, kind, name string) string {
	t.Helper()
	folder := os.Getenv("FAIRSLICE_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "traces")
	}
	file := filepath.Join(folder, kind, name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no real trace: %v (set FAIRSLICE_TRACES to the folder with %s/)", err, kind)
	}
	return file
}

func realWorkload(t testing.TB, name string, procs int64, change Change) []Task {
	t.Helper()
	f, err := os.Open(traceFile(t, "swf", name+".swf.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := ReadSWF(f, false)
	if err != nil {
		t.Fatal(err)
	}
	tasks, _, err := Workload(trace.Jobs, procs, change)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func unpack(t testing.TB, file string) []byte {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOraclePublished makes the oracle one: it gives what was published.
func TestOraclePublished(t *testing.T) {
	for _, row := range published {
		t.Run(fmt.Sprintf("%s %s perfect=%v", row.trace, row.policy, row.perfect), func(t *testing.T) {
			if row.slow && testing.Short() {
				t.Skip("a minute: not in -short")
			}
			change := Change{}
			if row.perfect {
				change.Estimate = Perfect
			}
			tasks := realWorkload(t, row.trace, row.procs, change)
			starts := oracleReplay(tasks, row.procs, row.policy)
			checkPublished(t, tasks, starts, row.procs, row.jobs, row.wait, row.bsld, row.starts)
		})
	}
}

func checkPublished(t *testing.T, tasks []Task, starts []int64, procs int64, jobs int, wait, bsld, startsFile string) {
	t.Helper()
	if i := slices.Index(starts, NotStarted); i >= 0 {
		t.Errorf("job %d, and perhaps others, never starts", tasks[i].ID)
		return
	}
	r := Summarise(tasks, starts, procs)
	if got, want := fmt.Sprintf("%d %.4f %.6f", r.N, r.MeanWait, r.MeanSlowdown), fmt.Sprintf("%d %s %s", jobs, wait, bsld); got != want {
		t.Errorf("jobs, mean wait and mean bounded slowdown are %s, published are %s", got, want)
	}
	t.Logf("%+v", r)
	if startsFile == "" {
		return
	}
	var got bytes.Buffer
	if err := WriteStarts(&got, tasks, starts); err != nil {
		t.Fatal(err)
	}
	if want := unpack(t, traceFile(t, "swf", startsFile+".starts.gz")); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("starts differ from the published ones: %s", firstDifference(got.Bytes(), want))
	}
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			return fmt.Sprintf("line %d is %q, not %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g), len(w))
}
