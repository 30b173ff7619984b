package store_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store/storetest"
)

func TestZZ(t *testing.T) {
	url := storetest.URL(t) + "&options=-c%20session_preload_libraries%3Dauto_explain%20-c%20auto_explain.log_min_duration%3D100%20-c%20auto_explain.log_analyze%3Don"
	w := newWriter(t, storetest.OpenURL(t, url))
	var join, submit []queue.Event
	n := 500
	for i := range n {
		join = append(join, ev(0, 0, &queue.NodeJoined{Node: node(nodes.ID(fmt.Sprintf("n%03d", i)))}))
	}
	w.do(join...)
	job := 0
	for r := range 60 {
		if r%20 == 0 {
			submit = nil
			for range 20 * n {
				job++
				submit = append(submit, ev(queue.JobID(job), 0, submitted("", nil)))
			}
			w.do(submit...)
		}
		var start, end []queue.Event
		for i := range n {
			id := queue.JobID(r*n + i + 1)
			start = append(start, ev(id, 0, started(1, nodes.ID(fmt.Sprintf("n%03d", i)), 0, 50)))
			end = append(end, ev(id, 0, ended(1, 0, w.now)))
		}
		for _, e := range [][]queue.Event{start, end} {
			b := w.batch(e...)
			at := time.Now()
			if err := w.s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			fmt.Print(time.Since(at).Milliseconds(), " ")
		}
	}
	dirs, _ := filepath.Glob("/tmp/fairslice-storetest-*/log/postgres.log")
	for _, d := range dirs {
		out, _ := exec.Command("sh", "-c", "tail -60 "+d+" | cut -c1-200").Output()
		os.Stdout.Write(out)
	}
}
